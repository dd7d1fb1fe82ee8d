"""Image turned to NCHW and back inside a partition.

What it finds: layout conversions around an operator of the delegate that can't run channels last, between others
that do: permutations, reshapes, matrix products, means over other axes.

Why it costs: the conversion reads and writes the whole tensor and computes nothing, once on each side.

What to do: do such work before the first convolution or behind the last; keep reductions over the spatial
dimensions with keepdim=True; give constants four dimensions.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule


def _find(case: Case) -> Iterator[Match]:
    for event in case.conversions():
        if event.forced_by is None or event.op_index is None:
            continue
        if case.ops[event.forced_by].partition == event.partition:
            yield Match(
                at=event.forced_by,
                events=(event.id,),
                message=f"{case.told(event.forced_by)} wants NCHW between operators that want NHWC",
            )


RULE = Rule(name="layout-ping-pong", doc=__doc__ or "", find=_find, safety="exact")
