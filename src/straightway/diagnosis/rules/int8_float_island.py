"""Float island in an 8-bit program.

What it finds: an operator of a quantized delegate that computes in floats between two conversions: a batch norm
behind an activation, GELU, softmax and others that XNNPACK's quantizer leaves.

Why it costs: the values are dequantized, computed four times as wide, and quantized again.

What to do: put batch norms directly behind their convolutions, where they cost nothing (`straightway fix` has the
others computed in integers); use relu, hardswish or others that are quantized in place of GELU.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.integers import computes_in_floats, conversions_around
from straightway.diagnosis.rule import Rule


def _find(case: Case) -> Iterator[Match]:
    for place, op in enumerate(case.ops):
        if op.partition is None or case.name(place) == "cat":
            continue
        around = conversions_around(case, place)
        if around and computes_in_floats(case, place):
            yield Match(
                ops=(place,),
                events=around,
                message=f"{case.told(place)} computes in floats among 8-bit integers",
            )


RULE = Rule(
    name="int8-float-island", doc=__doc__ or "", find=_find, fix="batch-norm", safety="numbers"
)
