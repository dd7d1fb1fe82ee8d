"""Convolution of one dimension.

What it finds: conv1d in the delegate, with the reshapes and transposes around it.

Why it costs: XNNPACK has convolutions of two dimensions only. Each conv1d is reshaped to an image of height 1,
turned to channels last, and turned back: a pair of transposes for every layer, not for the network.

What to do: write the network with nn.Conv2d and kernels (1, k) on inputs (N, C, 1, L): then the
layout is turned once at the beginning and once at the end. The weights are those of conv1d with a
dimension more. `straightway fix` does.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule

_RANK = 3


def _find(case: Case) -> Iterator[Match]:
    for place in case.inside("convolution", "conv1d"):
        if case.rank(place) != _RANK:
            continue
        moves = [event.id for event in case.own(place) if event.category == "data movement"]
        yield Match(
            ops=(place,),
            events=tuple(moves),
            message=f"{case.told(place)} is reshaped and turned as an image of height 1",
        )


RULE = Rule(
    name="convolution-1d", doc=__doc__ or "", find=_find, fix="convolution-1d", safety="exact"
)
