"""Work that never changes, done in each run.

What it finds: operators whose operands are all constants: tables, masks and positions made from buffers, arange
and full, numbers converted to another type.

Why it costs: the same numbers are computed in each run; outside of the delegate they also cost a call each, and
where they join the rest they cut it.

What to do: compute them once in __init__ and keep them with register_buffer, in the type in which
they are used; `straightway fix` does.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule


def _find(case: Case) -> Iterator[Match]:
    for place, op in enumerate(case.ops):
        if op.is_constant:
            yield Match(
                ops=(place,),
                message=f"{case.told(place)} computes the same in each run",
                saves_own=True,
            )


RULE = Rule(name="constant-work", doc=__doc__ or "", find=_find, fix="constants", safety="exact")
