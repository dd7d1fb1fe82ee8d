"""Selection outside of the delegate.

What it finds: where, masked_fill and the comparisons that feed them, outside of the delegate.

Why it costs: XNNPACK's partitioner has no rule for truth values. It runs as a portable kernel, one
element at a time, splits the delegate in two, and what flows in and out is turned from NHWC to NCHW
and back.

What to do: write masks as numbers: x * mask, or x + (1 - mask) * -1e9 before a softmax
(`straightway fix` does that where the mask is constant); write thresholds with clamp, maximum or
relu.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import COMPARISONS, with_feeders

RULE = Rule(
    name="where",
    doc=__doc__ or "",
    find=with_feeders(
        "where",
        "masked_fill",
        feeders=COMPARISONS,
        what="{op} selects outside of the delegate",
    ),
    fix="masked-softmax",
    safety="exact",
)
