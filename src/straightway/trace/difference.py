"""Two traces side by side: by category, by line of the model, by operator."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from straightway.trace.schema import Event, Trace
from straightway.trace.statistics import Ratio, median, paired_ratio, ratio_of_medians
from straightway.trace.taxonomy import UNACCOUNTED

# Below this share of the slower run a row is not worth telling apart.
_LEAST_SHARE = 0.002


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


def difference(a: Trace, b: Trace, *, in_turns: bool = False) -> Difference:
    """Compare two traces row by row, the largest gains and losses first.

    Where the two were not measured in turns, the intervals hold their own noise only. `in_turns`:
    run k of one stands beside run k of the other; a trace that lost a run is compared as if not.
    """
    paired = in_turns and len(a.total_ns) == len(b.total_ns)
    compared = paired_ratio if paired else ratio_of_medians
    least_ns = _LEAST_SHARE * max(a.median_ns, b.median_ns)

    def rows(key: Callable[[Trace, Event], str]) -> tuple[Row, ...]:
        found = [row for row in _rows(a, b, key, compared) if max(row.a_ns, row.b_ns) >= least_ns]
        return tuple(sorted(found, key=lambda row: -abs(row.gain_ns)))

    return Difference(
        whole=compared(b.total_ns, a.total_ns),
        pairs=len(a.total_ns) if paired else 0,
        a_ns=a.median_ns,
        b_ns=b.median_ns,
        categories=rows(lambda _, event: event.category),
        places=rows(_place),
        operators=rows(lambda _, event: event.kind or event.name),
    )


Compared = Callable[[Sequence[float], Sequence[float]], Ratio]


def _rows(a: Trace, b: Trace, key: Callable[[Trace, Event], str], compared: Compared) -> list[Row]:
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


def _sums(trace: Trace, key: Callable[[Trace, Event], str]) -> Mapping[str, tuple[float, ...]]:
    """Run by run: the sum of the events of each key. The unaccounted rest has no runs of its own."""
    columns: dict[str, list[Event]] = defaultdict(list)
    for event in trace.events:
        if event.place != UNACCOUNTED:
            columns[key(trace, event)].append(event)
    return {
        name: tuple(sum(run) for run in zip(*(event.samples_ns for event in events), strict=False))
        for name, events in columns.items()
    }


def _place(trace: Trace, event: Event) -> str:
    """The line of the model, so that two runtimes' operators meet; else the operator."""
    if event.op_index is None:
        return event.name
    op = trace.ops[event.op_index]
    if not op.file:
        return op.name or op.kind
    line = f"{op.file.rpartition('/')[2]}:{op.line}"
    return f"{op.module} {line}" if op.module else line
