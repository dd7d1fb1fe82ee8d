"""Batch norm outside of the delegate.

What it finds: a batch norm in inference that is neither part of a convolution nor taken by the
delegate.

Why it costs: a batch norm behind an activation can't be folded into the convolution before it. It
runs as a portable kernel, one element at a time, splits the delegate in two, and what flows in and
out is turned from NHWC to NCHW and back.

What to do: write it as a depthwise convolution of 1 × 1, which every version delegates; `straightway fix` does.
Where the model can be trained again, put it directly behind the convolution (conv, norm, activation), where it costs
nothing.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="batch-norm",
    doc=__doc__ or "",
    find=undelegated(
        "_native_batch_norm_legit_no_training",
        "native_batch_norm",
        what="{op} is left out of the delegate and splits it",
    ),
    fix="batch-norm",
    safety="exact",
)
