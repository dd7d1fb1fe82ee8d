"""Mish in parts.

What it finds: mish, decomposed into exp, log1p, gt, where, tanh and mul, half of them outside of
the delegate.

Why it costs: softplus inside it is a comparison, a log1p and a selection with portable kernels, and
the data leave the delegate and come back between them.

What to do: with e = exp(x.clamp(max=20)) and n = e * (e + 2), write x * n / (n + 2), all of which
is delegated; `straightway fix` does. Or train with silu or hardswish.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import COMPARISONS, expression

PARTS = (*COMPARISONS, "where", "exp")

RULE = Rule(
    name="mish",
    doc=__doc__ or "",
    find=expression(
        "log1p",
        "tanh",
        "mul",
        parts=PARTS,
        what="{op} of mish runs outside of the delegate",
    ),
    fix="activations",
    safety="exact",
)
