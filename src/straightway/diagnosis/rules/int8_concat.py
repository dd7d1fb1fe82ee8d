"""Conversion around a concatenation in 8 bits.

What it finds: a concatenation of a quantized delegate whose operands are converted to floats or to another scale.

Why it costs: the operands have scales of their own, so each is read, scaled and written once more.

What to do: let the operands share one scale: quantize with the concatenation's observer for all of them, or
concatenate behind an activation with a fixed range (relu6, sigmoid).
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.integers import conversions_around
from straightway.diagnosis.rule import Rule


def _find(case: Case) -> Iterator[Match]:
    for place in case.inside("cat"):
        around = conversions_around(case, place)
        if around:
            yield Match(
                ops=(place,),
                events=around,
                message=f"{case.told(place)} joins operands of different scales",
            )


RULE = Rule(name="int8-concatenation", doc=__doc__ or "", find=_find, safety="numbers")
