"""Two traces side by side: by category, by line of the model, by operator."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from straightway.trace.schema import Event, Trace
from straightway.trace.statistics import Ratio, median, paired_ratio, ratio_of_medians
from straightway.trace.taxonomy import UNACCOUNTED, operator_name

# Below this share of the slower run a row is not worth telling apart.
_LEAST_SHARE = 0.002
# How a row is named that an event of a trace counts for.
Key = Callable[[Trace, Event], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What both spend on one thing, in nanoseconds; `ratio` is the second's time over the first's.

    None where one of them spends nothing there.
    """

    name: str
    a_ns: float
    b_ns: float
    ratio: Ratio | None

    @property
    def is_shared(self) -> bool:
        """Whether both spend time on it."""
        return self.a_ns > 0 and self.b_ns > 0

    @property
    def gain_ns(self) -> float:
        """What the second saves; negative where it spends more."""
        return self.a_ns - self.b_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Two traces compared. `whole` is the second's whole run over the first's.

    `pairs` counts the runs that were measured in turns and are compared with their neighbours; 0
    where the two were measured one after the other.
    """

    whole: Ratio
    pairs: int = 0
    a_ns: float
    b_ns: float
    categories: tuple[Row, ...]
    places: tuple[Row, ...]
    operators: tuple[Row, ...]

    @property
    def shared(self) -> tuple[float, float]:
        """Which share of either trace's time in the table of places stands in rows of both."""
        parts = [sum(one.a_ns for one in self.places), sum(one.b_ns for one in self.places)]
        both = [one for one in self.places if one.is_shared]
        met = [sum(one.a_ns for one in both), sum(one.b_ns for one in both)]
        first, second = (m / part if part > 0 else 1.0 for m, part in zip(met, parts, strict=True))
        return first, second


def difference(
    a: Trace, b: Trace, *, in_turns: bool = False, places: Key | None = None
) -> Difference:
    """Compare two traces row by row, the largest gains and losses first.

    Where the two were not measured in turns, the intervals hold their own noise only. `in_turns`:
    run k of one stands beside run k of the other; a trace that lost a run is compared as if not.
    `places` names the place of an event in the model, where more than its line tells that. Operators of
    two runtimes go by one name for both.
    """
    paired = in_turns and len(a.total_ns) == len(b.total_ns)
    compared = paired_ratio if paired else ratio_of_medians
    least_ns = _LEAST_SHARE * max(a.median_ns, b.median_ns)

    def rows(key: Key) -> tuple[Row, ...]:
        found = [row for row in _rows(a, b, key, compared) if max(row.a_ns, row.b_ns) >= least_ns]
        return tuple(sorted(found, key=lambda row: -abs(row.gain_ns)))

    return Difference(
        whole=compared(b.total_ns, a.total_ns),
        pairs=len(a.total_ns) if paired else 0,
        a_ns=a.median_ns,
        b_ns=b.median_ns,
        categories=rows(lambda _, event: event.category),
        places=rows(places or _place),
        operators=rows(_operator if a.run.runtime == b.run.runtime else _any_operator),
    )


Compared = Callable[[Sequence[float], Sequence[float]], Ratio]


def _rows(a: Trace, b: Trace, key: Key, compared: Compared) -> list[Row]:
    first, second = _sums(a, key), _sums(b, key)
    return [
        Row(
            name=name,
            a_ns=median(first[name]) if name in first else 0.0,
            b_ns=median(second[name]) if name in second else 0.0,
            ratio=_ratio(first.get(name, ()), second.get(name, ()), compared),
        )
        for name in dict.fromkeys((*first, *second))
    ]


def _ratio(first: tuple[float, ...], second: tuple[float, ...], compared: Compared) -> Ratio | None:
    if not first or not second or median(first) <= 0 or median(second) <= 0:
        return None
    return compared(second, first)


def _sums(trace: Trace, key: Key) -> Mapping[str, tuple[float, ...]]:
    """Run by run: the sum of the events of each key. The unaccounted rest has no runs of its own."""
    columns: dict[str, list[Event]] = defaultdict(list)
    for event in trace.events:
        if event.place != UNACCOUNTED:
            columns[key(trace, event)].append(event)
    return {
        name: tuple(sum(run) for run in zip(*(event.samples_ns for event in events), strict=False))
        for name, events in columns.items()
    }


def _operator(_: Trace, event: Event) -> str:
    """As its runtime calls it."""
    return event.kind or event.name


def _any_operator(_: Trace, event: Event) -> str:
    """As all runtimes call it."""
    return operator_name(event.kind, event.name if event.place == "xnnpack" else "") or event.name


def _place(trace: Trace, event: Event) -> str:
    """The line of the model, so that two runtimes' operators meet; else the operator."""
    index = event.op_index if event.subgraph == 0 else event.owner
    if index is None:
        return event.name
    op = trace.ops[index]
    if not op.file:
        return op.name or op.kind
    line = f"{op.file.rpartition('/')[2]}:{op.line}"
    return f"{op.module} {line}" if op.module else line
