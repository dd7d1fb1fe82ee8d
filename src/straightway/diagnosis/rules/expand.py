"""Expansion outside of the delegate.

What it finds: expand or repeat that writes its result out, outside of the delegate.

Why it costs: the copy writes the same numbers again and again; it runs as a portable kernel, one
element at a time, splits the delegate in two, and what flows in and out is turned from NHWC to NCHW
and back.

What to do: let the operator that follows broadcast (add, mul and others of XNNPACK do);
`straightway fix` does, or multiplies with ones. Of matmul, three dimensions keep torch from writing
an expansion (fix --rule matmul).
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="expand",
    doc=__doc__ or "",
    find=undelegated(
        "expand", "repeat", what="{op} writes copies that broadcasting makes needless"
    ),
    fix="expand",
    safety="exact",
)
