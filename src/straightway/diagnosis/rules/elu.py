"""ELU outside of the delegate.

What it finds: elu, selu or celu, for which the partitioner has no rule.

Why it costs: It runs as a portable kernel, one element at a time, splits the delegate in two, and
what flows in and out is turned from NHWC to NCHW and back.

What to do: write relu(x) + alpha * (exp(x.clamp(max=0)) - 1), all of which is delegated;
`straightway fix` does. Or use silu, hardswish, leaky_relu or relu and train again.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="elu",
    doc=__doc__ or "",
    find=undelegated("elu", "selu", "celu", what="{op} has no rule in XNNPACK's partitioner"),
    fix="activations",
    safety="exact",
)
