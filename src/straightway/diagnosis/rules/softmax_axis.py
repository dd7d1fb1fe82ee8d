"""Softmax over an axis that is not the last.

What it finds: softmax or log_softmax outside of the delegate, such as over channels.

Why it costs: XNNPACK's softmax runs over the last axis only. It runs as a portable kernel, one
element at a time, splits the delegate in two, and what flows in and out is turned from NHWC to NCHW
and back.

What to do: leave it to the caller (argmax does not need it), or move the axis to the end first:
x.flatten(2).transpose(1, 2).softmax(-1); `straightway fix` does.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="softmax-axis",
    doc=__doc__ or "",
    find=undelegated(
        "_softmax",
        "_log_softmax",
        what="{op} runs over an axis that XNNPACK's softmax does not take",
    ),
    fix="softmax-channels",
    safety="exact",
)
