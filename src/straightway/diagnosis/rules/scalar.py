"""Constant that can't follow the layout.

What it finds: an addition, subtraction, product or division of an image in the delegate with a number, or with a
constant of fewer than four dimensions, around which the image is turned to NCHW and back.

Why it costs: the number becomes a tensor without dimensions, which XNNPACK's lowering can't turn to NHWC, so it
turns the image instead, twice. A number given as an integer is converted to float by a portable kernel in each
run, too.

What to do: keep the constant as a buffer of shape (1, 1, 1, 1) or (1, C, 1, 1); `straightway fix` does. Around
convolutions it can often be folded into their weights.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule

_IMAGE = 4


def _find(case: Case) -> Iterator[Match]:
    for place in case.inside("add", "sub", "mul", "div"):
        operands = case.ops[place].inputs
        if case.rank(place) != _IMAGE or all(len(one.sizes) == _IMAGE for one in operands):
            continue
        made = [k for k in case.ops[place].feeds_on if _is_number(case, k)]
        if made or case.forced(place):
            yield Match(
                ops=(place, *made),
                message=f"{case.told(place)} has a constant that can't follow the layout",
            )


def _is_number(case: Case, place: int) -> bool:
    """Whether it only converts a number."""
    return case.is_outside(place) and case.rank(place) == 0


RULE = Rule(name="scalar", doc=__doc__ or "", find=_find, fix="scalar", safety="exact")
