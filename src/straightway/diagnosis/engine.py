"""Runs the rules over a case: each operator and event counts for one finding, the most specific.

So no nanosecond is promised twice: the findings of a program never save more than it takes.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from straightway.diagnosis.case import Case
from straightway.diagnosis.finding import Finding, Match
from straightway.diagnosis.rule import Rule
from straightway.ir.source import Source
from straightway.trace.schema import Event
from straightway.trace.statistics import Spread

_MOST_EVIDENCE = 6


@dataclass(slots=True, kw_only=True)
class _Group:
    """Matches of one rule at one line."""

    rule: Rule
    message: str
    cost: list[Event] = field(default_factory=list)
    saves: list[Event] = field(default_factory=list)
    places: list[Source] = field(default_factory=list)
    evidence: list[str] = field(default_factory=list)


def diagnose(case: Case, rules: Sequence[Rule]) -> tuple[Finding, ...]:
    """Findings, those first that may save most. Rules come in order, the specific ones first."""
    claimed = _Claimed()
    groups: dict[tuple[str, ...], _Group] = {}
    for rule in rules:
        for match in rule.find(case):
            ops = claimed.ops_of(match)
            if match.ops and not ops:
                continue
            cost, saves = _times(case, match, ops, claimed)
            if not saves:
                continue
            source = case.ops[match.place].source
            key = (rule.name, *_line(case, match.place))
            group = groups.setdefault(key, _Group(rule=rule, message=match.message))
            group.cost += cost
            group.saves += saves
            group.places.append(source)
            group.evidence += _evidence(case, ops, saves)
    found = [_finding(group) for group in groups.values()]
    return tuple(sorted(found, key=lambda one: (-one.saves.median, one.rule, str(one.cause))))


class _Claimed:
    """The operators and events that a finding has already."""

    def __init__(self) -> None:
        self._ops: set[int] = set()
        self._events: set[int] = set()

    def ops_of(self, match: Match) -> list[int]:
        """The match's operators; none where its first one is taken."""
        if match.ops and match.ops[0] in self._ops:
            return []
        ops = [one for one in dict.fromkeys(match.ops) if one not in self._ops]
        self._ops |= set(ops)
        return ops

    def take(self, events: Sequence[Event]) -> list[Event]:
        """Those that are free."""
        free = {event.id: event for event in events if event.id not in self._events}
        self._events |= set(free)
        return list(free.values())


def _times(
    case: Case, match: Match, ops: Sequence[int], claimed: _Claimed
) -> tuple[list[Event], list[Event]]:
    """The events that a match costs, and those of them that it may save."""
    saved: list[Event] = [case.events[one] for one in match.events]
    kept: list[Event] = []
    for place in ops:
        saved += case.forced(place)
        goes = case.is_outside(place) if match.saves_own is None else match.saves_own
        (saved if goes else kept).extend(case.own(place))
    saves = claimed.take(saved)
    return saves + claimed.take(kept), saves


def _line(case: Case, place: int) -> tuple[str, ...]:
    source = case.ops[place].source
    if source.file:
        return source.file, str(source.line)
    return "", case.ops[place].target


def _evidence(case: Case, ops: Sequence[int], events: Sequence[Event]) -> list[str]:
    """What the claim rests on: the partitioner's reasons and the conversions' causes."""
    reasons = [
        f"{case.ops[place].target}: {case.ops[place].reason}"
        for place in ops
        if case.ops[place].reason
    ]
    return [*reasons, *(event.cause for event in events if event.cause)]


def _finding(group: _Group) -> Finding:
    told = group.rule.documentation
    evidence = list(dict.fromkeys(group.evidence))
    if len(evidence) > _MOST_EVIDENCE:
        left = len(evidence) - _MOST_EVIDENCE
        evidence = [*evidence[:_MOST_EVIDENCE], f"and {left} more"]
    return Finding(
        rule=group.rule.name,
        title=told.title,
        message=group.message,
        cost=total(group.cost),
        saves=total(group.saves),
        cause=group.places[0],
        places=tuple(dict.fromkeys(group.places)),
        evidence=tuple(evidence),
        fix=group.rule.fix,
        safety=group.rule.safety,
        advice=told.advice,
    )


def total(events: Sequence[Event]) -> Spread:
    """The time of events together, run by run."""
    runs: dict[int, float] = defaultdict(float)
    for event in events:
        for run, sample_ns in enumerate(event.samples_ns):
            runs[run] += sample_ns
    return Spread.of(list(runs.values()))
