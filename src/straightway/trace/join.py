"""From events to the ops they worked for, from ops to the user's nodes, and sums over both."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from straightway.trace.align import align
from straightway.trace.schema import Event, Op, Trace
from straightway.trace.taxonomy import UNACCOUNTED, Category


def join_delegated(
    events: Sequence[Event], ops: Sequence[Op], partitions: Mapping[int, Sequence[int]]
) -> tuple[Event, ...]:
    """Give each event with a partition the op that it worked for.

    `partitions` maps a partition's number to the positions in `ops` that it replaced, in execution
    order. Events without a fitting op, and those outside, come back as they were.
    """
    found: dict[int, Op] = {}
    for number, members in partitions.items():
        inside = [event for event in events if event.partition == number]
        places = align([event.name for event in inside], [ops[member].kind for member in members])
        for event, place in zip(inside, places, strict=True):
            if place is not None:
                found[event.id] = ops[members[place]]
    return tuple(
        replace(event, op_index=found[event.id].index, kind=found[event.id].kind)
        if event.id in found
        else event
        for event in events
    )


def joined_share(trace: Trace) -> float:
    """Which share (0 to 1) of the measured operator time is joined to an op; 1 without events."""
    measured = [event for event in trace.events if event.place != UNACCOUNTED]
    total = sum(event.median_ns for event in measured)
    joined = sum(event.median_ns for event in measured if event.op_index is not None)
    return joined / total if total > 0 else 1.0


def unjoined(trace: Trace) -> tuple[Event, ...]:
    """The events that belong to no known op, slowest first."""
    loose = [e for e in trace.events if e.op_index is None and e.place != UNACCOUNTED]
    return tuple(sorted(loose, key=lambda event: -event.median_ns))


def by_op(trace: Trace) -> Mapping[tuple[int, int], float]:
    """Nanoseconds of each op, keyed (subgraph, op index): the sum of its events' medians."""
    sums: dict[tuple[int, int], float] = defaultdict(float)
    for event in trace.events:
        if event.op_index is not None:
            sums[event.subgraph, event.op_index] += event.median_ns
    return dict(sums)


def by_category(trace: Trace) -> Mapping[Category, float]:
    """Nanoseconds of each category of work, the unaccounted rest among them."""
    sums: dict[Category, float] = defaultdict(float)
    for event in trace.events:
        sums[event.category] += event.median_ns
    return dict(sums)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTime:
    """What a group of the user's nodes costs together.

    A fused op stands for several nodes, and one node may have become several ops: groups that
    share an op or a node are one group. Time within a group can't be split.
    """

    nodes: tuple[str, ...]
    duration_ns: float
    events: tuple[int, ...]


def by_node(trace: Trace, nodes: Mapping[int, Sequence[str]]) -> tuple[NodeTime, ...]:
    """Sum the events by the nodes that their ops came from, slowest group first.

    `nodes` maps an op index of the main subgraph to names of nodes; what runs in a body counts for
    the control-flow op around it. Events whose op is unknown or
    came from no node stand in a last group without names; the unaccounted rest in none.
    """
    group = _groups(nodes)
    members: dict[tuple[str, ...], list[Event]] = defaultdict(list)
    for event in trace.events:
        if event.place != UNACCOUNTED:
            index = event.op_index if event.subgraph == 0 else event.owner
            names = nodes.get(index, ()) if index is not None else ()
            members[group[names[0]] if names else ()].append(event)
    rows = [
        NodeTime(
            nodes=names,
            duration_ns=sum(event.median_ns for event in events),
            events=tuple(event.id for event in events),
        )
        for names, events in members.items()
    ]
    return tuple(sorted(rows, key=lambda row: (not row.nodes, -row.duration_ns)))


def _groups(nodes: Mapping[int, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
    """The connected groups of nodes: each name's group, in the order of first mention."""
    group: dict[str, list[str]] = {}
    for names in nodes.values():
        merged: list[str] = []
        for name in names:
            merged += [one for one in group.get(name, [name]) if one not in merged]
        for name in merged:
            group[name] = merged
    return {name: tuple(names) for name, names in group.items()}
