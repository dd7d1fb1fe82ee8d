"""Bicubic resize as gathers.

What it finds: interpolate(mode='bicubic'), decomposed into sixteen index operators outside of the
delegate and the arithmetic of their positions.

Why it costs: each of the sixteen gathers writes the whole result with a portable kernel, and the
positions are computed anew in each run.

What to do: a fixed bicubic resize is two matrix products with constant weights, which are
delegated; `straightway fix` does. Or interpolate with mode='bilinear', which is one XNNPACK kernel;
the numbers change.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import expression

RULE = Rule(
    name="bicubic",
    doc=__doc__ or "",
    find=expression(
        "index",
        "floor",
        "clamp",
        parts=("add", "sub", "mul", "arange", "_to_dim_order", "squeeze", "unsqueeze"),
        what="{op}: a resize out of gathers outside of the delegate",
    ),
    fix="bicubic",
    safety="exact",
)
