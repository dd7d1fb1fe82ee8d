"""SiLU in half floats.

What it finds: silu of float16, which torch takes apart into a conversion to float32, a sigmoid, a product and
a conversion back, the conversions outside of the delegate.

Why it costs: each conversion is a portable copy of the whole tensor at twice the width, and cuts the
delegate.

What to do: write x * torch.sigmoid(x), all of which stays in half floats; `straightway fix` does.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import expression

RULE = Rule(
    name="half-silu",
    doc=__doc__ or "",
    find=expression(
        "_to_dim_order",
        "sigmoid",
        "mul",
        what="{op} converts half floats for a SiLU outside of the delegate",
    ),
    fix="half-silu",
    safety="exact",
)
