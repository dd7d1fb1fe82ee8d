"""Batch norm outside of the delegate.

What it finds: a batch norm in inference that is neither part of a convolution nor taken by the
delegate.

Why it costs: a batch norm behind an activation can't be folded into the convolution before it. It
runs as a portable kernel, one element at a time, splits the delegate in two, and what flows in and
out is turned from NHWC to NCHW and back.

What to do: put it directly behind the convolution (conv, norm, activation), or fold it into the
convolution that follows where that one has no padding; ExecuTorch 1.5 and newer delegate it as a
depthwise convolution.
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
    safety="numbers",
)
