"""Mean that drops its dimensions.

What it finds: mean over the spatial dimensions of an image without keepdim=True, outside of the
delegate.

Why it costs: XNNPACK's partitioner takes a global average pool only where the dimensions stay, of
size 1. The portable kernel reads the whole image, and the delegate ends there.

What to do: write x.mean((2, 3), keepdim=True).flatten(1), or nn.AdaptiveAvgPool2d(1).
"""

from straightway.diagnosis.case import Case
from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated


def _drops(case: Case, place: int) -> bool:
    """Whether the result has fewer dimensions than the operand."""
    inputs = case.ops[place].inputs
    return bool(inputs) and 0 <= case.rank(place) < len(inputs[0].sizes)


RULE = Rule(
    name="mean-keepdim",
    doc=__doc__ or "",
    find=undelegated(
        "mean", what="{op} drops the dimensions it averages; kept, it is delegated", where=_drops
    ),
    fix="mean",
    safety="exact",
)
