"""What a report sums up from its rows: time by category, nearness to the limit, refusals by cause.

Whoever builds a `View` calls these, so that every report counts in the same way.
"""

from collections.abc import Iterable, Sequence

from straightway.remark import Remark
from straightway.report.quantity import significant, size
from straightway.report.view import (
    CATEGORIES,
    OVERHEAD,
    UNACCOUNTED,
    Bandwidth,
    CategoryTime,
    Machine,
    OperatorRow,
    Refusal,
    RefusedNode,
    View,
)

# A rest below this share of the run is none: five digits are more than a measurement has.
_REST = 1e-5
# A bandwidth is listed where it is below this share of the one listed before.
_FALLEN = 0.8
# A size still has the nearest cache's bandwidth where it reaches this share of it.
_REACHED = 0.95


def category_times(operators: Sequence[OperatorRow], run_ns: float) -> tuple[CategoryTime, ...]:
    """Time by category in the order of `CATEGORIES`, and what of `run_ns` no operator explains.

    Where the operators sum to more than the run, that rest is negative.
    """
    times: dict[str, float] = {}
    counts: dict[str, int] = {}
    for row in operators:
        times[row.category] = times.get(row.category, 0.0) + (row.time_ns or 0.0)
        counts[row.category] = counts.get(row.category, 0) + 1
    rest_ns = run_ns - sum(times.values())
    if abs(rest_ns) > _REST * run_ns:
        times[UNACCOUNTED] = rest_ns
    return tuple(
        CategoryTime(
            name=name,
            time_ns=times[name],
            share=times[name] / run_ns if run_ns > 0 else 0.0,
            count=counts.get(name, 0),
        )
        for name in sorted(times, key=category_rank)
    )


def category_rank(name: str) -> tuple[int, bool, str]:
    """Sorts categories in the order of `CATEGORIES`; unknown ones go before "other"."""
    known = name in CATEGORIES
    return CATEGORIES.index(name if known else "other"), known, name


def peaks_text(machine: Machine | None) -> str:
    """The peaks that operators are held against, or "": bandwidths by the bytes moved.

    Sizes at which the bandwidth has hardly fallen are left out.
    """
    if machine is None or not machine.peak_gmacs or not machine.bandwidths:
        return ""
    steps = [machine.bandwidths[0]]
    for one in machine.bandwidths:
        if one.gbs < _FALLEN * steps[-1].gbs:
            steps.append(one)
    rates = ", ".join(f"{significant(one.gbs)} at {size(one.bytes)}" for one in steps)
    return f"measured peaks: {significant(machine.peak_gmacs)} GMAC/s; GB/s by bytes moved: {rates}"


def nearest_bandwidth(machine: Machine) -> Bandwidth:
    """The bandwidth of what fits in the nearest caches, and the most bytes that still reach it."""
    best = machine.bandwidths[0].gbs
    reached = [one for one in machine.bandwidths if one.gbs >= _REACHED * best]
    return Bandwidth(bytes=reached[-1].bytes, gbs=best)


def group_refusals(remarks: Iterable[Remark]) -> tuple[Refusal, ...]:
    """Refused nodes by (reason, remedy), the cause with the most nodes first.

    Pass the remarks of an `Unsupported` error: each names one refused node.
    """
    groups: dict[tuple[str, str], list[RefusedNode]] = {}
    for remark in remarks:
        node = RefusedNode(name=remark.node, op=remark.op, source=remark.source)
        groups.setdefault((remark.text, remark.remedy), []).append(node)
    refusals = [
        Refusal(cause=cause, remedy=remedy, nodes=tuple(nodes))
        for (cause, remedy), nodes in groups.items()
    ]
    return tuple(sorted(refusals, key=lambda refusal: -len(refusal.nodes)))


def missed_remarks(view: View) -> tuple[Remark, ...]:
    """What was left undone, without the nodes that `view.refusals` lists already."""
    refused = {(refusal.cause, refusal.remedy) for refusal in view.refusals}
    return tuple(
        remark
        for remark in view.remarks
        if remark.kind == "missed" and (remark.text, remark.remedy) not in refused
    )


def overhead_share(view: View) -> float:
    """The share of the run that only moves or converts data and changes no result."""
    return sum(item.share for item in view.categories if item.name in OVERHEAD)


def accounted_share(view: View) -> float:
    """The share of the run that operators explain."""
    return sum(item.share for item in view.categories if item.name != UNACCOUNTED)


def peak_share(view: View) -> float | None:
    """The time that the run would take at the machine's limit, over what those operators take."""
    rated = [row for row in view.operators if row.roofline is not None and row.time_ns]
    time_ns = sum(row.time_ns or 0.0 for row in rated)
    return sum(ideal_ns(row) for row in rated) / time_ns if time_ns else None


def farthest(view: View, count: int) -> tuple[OperatorRow, ...]:
    """The operators that lose the most time against the machine's limit, the worst first."""
    rated = [row for row in view.operators if row.roofline is not None and row.time_ns]
    losing = [row for row in rated if ideal_ns(row) < (row.time_ns or 0.0)]
    return tuple(sorted(losing, key=lambda row: ideal_ns(row) - (row.time_ns or 0.0))[:count])


def ideal_ns(row: OperatorRow) -> float:
    """The time that an operator would take at the machine's limit; its own where none is known."""
    time_ns = row.time_ns or 0.0
    if row.roofline is None:
        return time_ns
    return time_ns * min(row.roofline.percent_of_peak, 100.0) / 100.0
