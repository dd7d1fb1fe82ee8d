"""Slice with a step outside of the delegate.

What it finds: a slice that XNNPACK does not take, such as x[:, :, ::2, ::2].

Why it costs: XNNPACK's slices have a step of 1. It runs as a portable kernel, one element at a
time, splits the delegate in two, and what flows in and out is turned from NHWC to NCHW and back.

What to do: make the layer that follows read the full image with a stride (focus: a convolution of
twice the kernel and stride 2 with its weights spread out), or give the step a dimension of its own
by a reshape and index that; `straightway fix` does.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="strided-slice",
    doc=__doc__ or "",
    find=undelegated("slice", what="{op} takes steps, which XNNPACK's slice does not"),
    fix="strided-slice",
    safety="exact",
)
