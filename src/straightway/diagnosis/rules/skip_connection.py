"""Tensors turned between two partitions.

What it finds: layout conversions of values that leave one partition and are read in another: skip connections
across whatever splits the delegate.

Why it costs: partitions exchange NCHW. A value of a convolution is turned as it leaves, and turned back in front
of the convolution that reads it.

What to do: remove what splits the delegate (the other findings), so that both ends stand in one partition; else
give the input channels last, which lets partitions exchange NHWC.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule


def _find(case: Case) -> Iterator[Match]:
    for event in case.conversions():
        if event.forced_by is None or event.op_index is None:
            continue
        other = case.ops[event.forced_by].partition
        if other is not None and other != event.partition:
            yield Match(
                at=event.op_index,
                events=(event.id,),
                message=(
                    f"at {case.told(event.op_index)} a tensor is turned that "
                    f"{case.told(event.forced_by)} in another partition shares"
                ),
            )


RULE = Rule(name="skip-connection", doc=__doc__ or "", find=_find, safety="exact")
