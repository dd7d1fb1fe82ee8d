"""Split, chunk or unbind outside of the delegate.

What it finds: split, chunk, unbind or an index that selects, outside of the delegate.

Why it costs: XNNPACK's partitioner takes slices of step 1 and no operator with several results. It
runs as a portable kernel, one element at a time, splits the delegate in two, and what flows in and
out is turned from NHWC to NCHW and back.

What to do: write slices (x[:, :a], x[:, a:]), or two layers in place of one whose result is split;
`straightway fix` does both.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="split",
    doc=__doc__ or "",
    find=undelegated(
        "split_with_sizes",
        "split",
        "chunk",
        "unbind",
        "select",
        what="{op} copies outside of the delegate what slices would take inside",
    ),
    fix="split",
    safety="exact",
)
