"""Group norm outside of the delegate.

What it finds: native_group_norm, for which XNNPACK's partitioner has no rule.

Why it costs: It runs as a portable kernel, one element at a time, splits the delegate in two, and
what flows in and out is turned from NHWC to NCHW and back.

What to do: train with BatchNorm, which becomes part of its convolution, or write the statistics as
means over a reshaped tensor and a product.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="group-norm",
    doc=__doc__ or "",
    find=undelegated(
        "native_group_norm", what="{op} has no XNNPACK kernel and splits the delegate"
    ),
    safety="numbers",
)
