"""Group norm outside of the delegate.

What it finds: native_group_norm, for which XNNPACK's partitioner has no rule.

Why it costs: It runs as a portable kernel, one element at a time, splits the delegate in two, and
what flows in and out is turned from NHWC to NCHW and back.

What to do: write the statistics as x.mean((2, 3), keepdim=True) and a 1 x 1 convolution that
averages each group's channels, all of which is delegated; `straightway fix` does. Or train with
BatchNorm, which becomes part of its convolution.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="group-norm",
    doc=__doc__ or "",
    find=undelegated(
        "native_group_norm", what="{op} has no XNNPACK kernel and splits the delegate"
    ),
    fix="group-norm",
    safety="exact",
)
