"""Results that nobody needs.

What it finds: operators whose results are neither read nor returned, and results of the program that are the same
in each run.

Why it costs: they are computed, and each output of a delegate is written to memory of its own.

What to do: return what the caller reads, and nothing else; keep constants outside of the model.
"""

from collections.abc import Iterator

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Rule

# They work by what they write.
_WRITES = {"copy_", "index_put", "index_put_", "update_cache", "copy"}


def _find(case: Case) -> Iterator[Match]:
    for place, op in enumerate(case.ops):
        if op.is_result and op.is_constant:
            yield Match(
                ops=(place,),
                message=f"{case.told(place)} is returned, and the same in each run",
                saves_own=True,
            )
        elif _is_dead(case, place):
            yield Match(
                ops=(place,),
                message=f"what {case.told(place)} computes is neither read nor returned",
                saves_own=True,
            )


def _is_dead(case: Case, place: int) -> bool:
    """Whether nobody needs it; never where the map does not tell what makes the results."""
    op, knows = case.ops[place], any(one.is_result for one in case.ops)
    needed = op.is_result or case.readers(place) or case.name(place) in _WRITES
    return knows and not needed


RULE = Rule(name="dead-output", doc=__doc__ or "", find=_find, safety="interface")
