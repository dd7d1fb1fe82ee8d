"""Work on int64 indices.

What it finds: arithmetic, comparisons, argmax and gathers by int64 values outside of the delegate.

Why it costs: XNNPACK computes with floats and 8-bit integers. Portable kernels do the rest, and the
graph is cut where indices come from activations.

What to do: compute positions and masks once when the module is made (buffers), take argmax out of
the model, and index with slices where the positions are known: `straightway fix` does so with pads that
reflect or repeat, flips, rolls and indices that are constants.
"""

from straightway.diagnosis.case import Case
from straightway.diagnosis.rule import Rule
from straightway.diagnosis.search import undelegated


def _whole(case: Case, place: int) -> bool:
    """Whether it reads or writes whole numbers, and does not only convert them."""
    return "dim_order" not in case.name(place) and case.has_dtype(place, "int64", "int32")


RULE = Rule(
    name="index-work",
    doc=__doc__ or "",
    find=undelegated(
        what="{op} works on whole numbers outside of the delegate",
        where=_whole,
    ),
    fix="rearrangements",
    safety="exact",
)
