"""Selection outside of the delegate.

What it finds: where, masked_fill and the comparisons that feed them, outside of the delegate.

Why it costs: XNNPACK's partitioner has no rule for truth values. It runs as a portable kernel, one
element at a time, splits the delegate in two, and what flows in and out is turned from NHWC to NCHW
and back.

What to do: write masks as numbers, m * a + (1 - m) * b, and thresholds with clamp, maximum or relu.
`straightway fix` writes comparisons as numbers where all that is selected from is finite, and (fix
--rule masked-softmax) constant masks before a softmax as sums.
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
    fix="selection",
    safety="exact",
)
