"""Layer norm outside of the delegate.

What it finds: native_layer_norm, for which XNNPACK's partitioner has no rule.

Why it costs: It runs as a portable kernel, one element at a time, splits the delegate in two, and
what flows in and out is turned from NHWC to NCHW and back; each skip connection across the cut is
turned as well.

What to do: write mean and variance as a product with a column of 1/d, which is delegated;
`straightway fix` does.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="layer-norm",
    doc=__doc__ or "",
    find=undelegated(
        "native_layer_norm", what="{op} has no XNNPACK kernel and splits the delegate"
    ),
    fix="layer-norm",
    safety="exact",
)
