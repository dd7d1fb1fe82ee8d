"""How rules find their matches: the searches that several rules differ in by names alone."""

from collections.abc import Callable, Collection, Iterator, Sequence

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Match
from straightway.diagnosis.rule import Find

COMPARISONS = (
    "gt",
    "ge",
    "lt",
    "le",
    "eq",
    "ne",
    "logical_not",
    "logical_and",
    "logical_or",
    "bitwise_not",
    "bitwise_and",
    "bitwise_or",
    "full_like",
    "full",
    "scalar_tensor",
)
Condition = Callable[[Case, int], bool]


def _always(_case: Case, _place: int) -> bool:
    return True


def undelegated(*names: str, what: str, where: Condition = _always) -> Find:
    """Operators of these names outside of delegates; `what` is the message, about "{op}"."""

    def find(case: Case) -> Iterator[Match]:
        for place in case.outside(*names):
            if where(case, place):
                yield Match(ops=(place,), message=what.format(op=case.told(place)))

    return find


def expression(
    *wanted: str, parts: Collection[str] = (), what: str, without: Collection[str] = ()
) -> Find:
    """Lines whose operators hold all of `wanted`, the first of them outside, and none of `without`.

    The match are those of them and of `parts` that stand outside of delegates, with the layout
    conversions that the rest of the line forces.
    """
    belongs = {*wanted, *parts}

    def find(case: Case) -> Iterator[Match]:
        for members in case.lines().values():
            names = {case.name(place) for place in members}
            if not names.issuperset(wanted) or not names.isdisjoint(without):
                continue
            first = [p for p in members if case.name(p) == wanted[0] and case.is_outside(p)]
            if not first:
                continue
            chosen = [p for p in members if case.is_outside(p) and case.name(p) in belongs]
            yield Match(
                ops=tuple(dict.fromkeys([*first, *chosen])),
                events=_forced(case, members),
                message=what.format(op=case.told(first[0])),
            )

    return find


def _forced(case: Case, members: Sequence[int]) -> tuple[int, ...]:
    """The layout conversions that operators of one line force; none where the line is unknown."""
    known = [place for place in members if case.ops[place].source.file]
    return tuple(event.id for place in known for event in case.forced(place))


def with_feeders(*names: str, feeders: Collection[str], what: str) -> Find:
    """Operators outside of delegates together with those that make their operands there."""

    def find(case: Case) -> Iterator[Match]:
        for place in case.outside(*names):
            also = [
                k for k in case.above(place, 2) if case.is_outside(k) and case.name(k) in feeders
            ]
            yield Match(ops=(place, *also), message=what.format(op=case.told(place)))

    return find


def is_half(case: Case, place: int) -> bool:
    """Whether it computes with float16."""
    return case.has_dtype(place, "float16")
