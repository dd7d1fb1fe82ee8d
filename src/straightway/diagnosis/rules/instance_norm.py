"""Instance norm outside of the delegate.

What it finds: a batch norm without running statistics (instance_norm), for which XNNPACK's
partitioner has no rule.

Why it costs: It runs as a portable kernel, one element at a time, splits the delegate in two, and
what flows in and out is turned from NHWC to NCHW and back.

What to do: write it with x.mean((2, 3), keepdim=True), which is delegated; `straightway fix` does.
Or give the norm running statistics (track_running_stats=True) and train with them, so that it
becomes a batch norm.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import expression

RULE = Rule(
    name="instance-norm",
    doc=__doc__ or "",
    find=expression(
        "_native_batch_norm_legit",
        what="{op} takes its statistics from the data and has no XNNPACK kernel",
    ),
    fix="group-norm",
    safety="exact",
)
