"""Squeeze or unsqueeze outside of the delegate.

What it finds: squeeze and unsqueeze that XNNPACK's partitioner leaves, such as of a leading
dimension.

Why it costs: only names change, yet the portable kernel copies the data, and the delegate ends
there.

What to do: write reshape (or view), which is delegated; `straightway fix` does.
"""

from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated

RULE = Rule(
    name="squeeze",
    doc=__doc__ or "",
    find=undelegated(
        "squeeze", "unsqueeze", what="{op} copies outside of the delegate; reshape would not"
    ),
    fix="squeeze",
    safety="exact",
)
