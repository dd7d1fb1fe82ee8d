"""From LiteRT's profiler events to a `Trace`: each op's time counted once, joined to its op."""

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from straightway.run.device import local_run
from straightway.run.partition import Placement
from straightway.trace import work
from straightway.trace.join import join_delegated
from straightway.trace.schema import Event, Op, Trace, unaccounted
from straightway.trace.statistics import median
from straightway.trace.taxonomy import xnnpack_operator

# Event types of tflite/core/api/profiler.h.
_DEFAULT, _OPERATOR, _DELEGATE_OPERATOR, _TELEMETRY = 1, 2, 8, 32
_INVOKE = "Invoke"
_BUFFER_SYNC = "LiteRT::Run[Buffer sync]"
# The parts may exceed the whole by this much before the trace says so: the two are not the same run.
_EXCESS = 1.1
# What the profiler may take for an event beyond a clock reading, in clock readings: it keeps the
# event, and between kernels a reading takes longer than in the loop that calibrates it.
_BOOKKEEPING = 1.5
# How much of what an operator took may be that: half, but all in a loop, whose operators may take
# less than the profiler, and which may itself do nothing but call its body.
_MOST, _MOST_LOOPED = 0.5, 1.0
# A correction below this share of the run is not worth a remark.
_TOLD = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One event of a run without its time: name, type, op index and subgraph as LiteRT gives them."""

    name: str
    type: int
    index: int
    subgraph: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawProfile:
    """What the child measured: `elapsed` is runs × markers, in the profiler's microseconds.

    `ops` and `placement` are the main subgraph's; `bodies` lists the op names of every subgraph
    where there are several.
    """

    markers: tuple[Marker, ...]
    elapsed: NDArray[np.int64]
    total_ns: tuple[float, ...]
    ops: tuple[Op, ...]
    placement: Placement
    bodies: tuple[tuple[str, ...], ...] = ()
    clock: Mapping[str, float | str]
    versions: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    model: str = ""
    warmup: int = 0
    threads: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A measured operator: its marker, the delegate call it ran in, the op whose body it belongs to.

    `group` counts the delegate calls of one invocation of a subgraph (None for a built-in op);
    `owner` is the position of the control-flow op around it, None in the main subgraph.
    """

    position: int
    group: int | None
    owner: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """How often the profiler recorded an operator, and what lies directly inside it."""

    own: int
    inside: int


class _Invocation:
    """One invocation of a subgraph while its events are read."""

    def __init__(self, subgraph: int, owner: int | None) -> None:
        self.subgraph = subgraph
        self.owner = owner
        self.last_operator: int | None = None
        self._group = -1
        self._last_index = sys.maxsize

    def builtin(self, position: int) -> None:
        """What follows a built-in op is another delegate call."""
        self.last_operator = position
        self._last_index = sys.maxsize

    def delegated(self, index: int) -> int:
        """Each delegate call counts its operators up from 0: a smaller index begins another."""
        if index <= self._last_index:
            self._group += 1
        self._last_index = index
        return self._group


def spans(markers: Sequence[Marker]) -> tuple[list[Span], Counter[int]]:
    """The operators of a run, and how many other events lie directly inside each control-flow op.

    Invocations of subgraphs nest between an "Invoke" and its telemetry event.
    """
    found: list[Span] = []
    others: Counter[int] = Counter()
    stack = [_Invocation(0, None)]
    for position, marker in enumerate(markers):
        here = stack[-1]
        if marker.type == _DELEGATE_OPERATOR:
            group = here.delegated(marker.index)
            found.append(Span(position=position, group=group, owner=here.owner))
        elif marker.type == _OPERATOR:
            here.builtin(position)
            found.append(Span(position=position, group=None, owner=here.owner))
        elif marker.type == _DEFAULT and marker.subgraph != here.subgraph:
            if here.last_operator is not None:
                others[here.last_operator] += 1
            if marker.name == _INVOKE:
                stack.append(_Invocation(marker.subgraph, here.last_operator))
        elif marker.type == _TELEMETRY and marker.name == _INVOKE and len(stack) > 1:
            stack.pop()
    return found, others


def _own_ns(raw: RawProfile, found: Sequence[Span], others: Counter[int]) -> NDArray[np.float64]:
    """Runs × spans: each operator's own nanoseconds, without what ran inside it.

    The profiler reads the memory statistics at both ends of each event that is no operator
    (tflite/profiling/profile_buffer.h), which costs more than many an op; the time of an event
    around nothing else tells how much, and it is taken off the control-flow op around.
    """
    tick_ns, cost_ns = float(raw.clock["tick_ns"]), float(raw.clock["cost_ns"])
    elapsed_ns = raw.elapsed * tick_ns
    sync = [i for i, marker in enumerate(raw.markers) if marker.name == _BUFFER_SYNC]
    reading_ns = float(np.median(elapsed_ns[:, sync])) if sync else 0.0
    own_ns = (elapsed_ns - cost_ns).astype(np.float64)
    for span in found:
        if span.owner is not None:
            own_ns[:, span.owner] -= elapsed_ns[:, span.position]
    for owner, count in others.items():
        own_ns[:, owner] -= 2 * reading_ns * count
    chosen: NDArray[np.float64] = own_ns[:, [span.position for span in found]]
    return np.maximum(chosen, 0.0)


def _events(raw: RawProfile) -> tuple[list[Event], list[Readings]]:
    """One event for each operator, the turns of a loop added up, and what each was recorded with."""
    found, others = spans(raw.markers)
    own_ns = _own_ns(raw, found, others)
    inner = others + Counter(span.owner for span in found if span.owner is not None)
    main = _main_owners(raw, found)
    columns: dict[tuple[Marker, int | None, int | None], list[int]] = defaultdict(list)
    for column, span in enumerate(found):
        columns[raw.markers[span.position], span.group, main[span.position]].append(column)
    events: list[Event] = []
    readings: list[Readings] = []
    start_ns = 0.0
    for (marker, group, owner), members in columns.items():
        samples_ns = tuple(float(one) for one in own_ns[:, members].sum(axis=1))
        event = _event(len(events), marker, group, samples_ns)
        events.append(replace(event, owner=owner, start_ns=start_ns))
        inside = sum(inner[found[column].position] for column in members)
        readings.append(Readings(own=len(members), inside=inside))
        start_ns += event.median_ns
    return events, readings


def _main_owners(raw: RawProfile, found: Sequence[Span]) -> Mapping[int, int | None]:
    """By position: the op of the main subgraph in whose body the operator ran, None outside."""
    owners: dict[int, int | None] = {}
    for span in found:  # an owner stands before what it owns
        above = None if span.owner is None else owners[span.owner]
        direct = None if span.owner is None else raw.markers[span.owner].index
        owners[span.position] = direct if above is None else above
    return owners


def _event(number: int, marker: Marker, group: int | None, samples_ns: tuple[float, ...]) -> Event:
    """LiteRT tells when built-in ops begin, but not XNNPACK's: all are laid end to end."""
    delegated = group is not None
    return Event(
        id=number,
        name=marker.name,
        kind="" if delegated else marker.name,
        op_index=None if delegated else marker.index,
        subgraph=marker.subgraph,
        partition=group,
        place="xnnpack" if delegated else "builtin",
        kernel=xnnpack_operator(marker.name)[1] if delegated else "",
        samples_ns=samples_ns,
    )


def _joined(events: Sequence[Event], raw: RawProfile) -> list[Event]:
    """Join the events of the main subgraph and of the bodies to their ops."""
    joined = {event.id: event for event in _joined_main(events, raw)}
    for owner, subgraph in dict.fromkeys((e.owner, e.subgraph) for e in events if e.subgraph):
        here = [event for event in events if (event.owner, event.subgraph) == (owner, subgraph)]
        joined |= {event.id: event for event in _joined_body(here, raw.bodies[subgraph])}
    return [joined.get(event.id, event) for event in events]


def _joined_main(events: Sequence[Event], raw: RawProfile) -> list[Event]:
    inside = [event for event in events if event.subgraph == 0 and event.partition is not None]
    partitions = raw.placement.partitions
    if len({event.partition for event in inside}) != len(partitions):
        # A partition without any operator, or another partitioning than the interpreter's: align
        # all of them at once.
        inside = [replace(event, partition=0) for event in inside]
        partitions = (tuple(member for members in partitions for member in members),)
    homes = {
        op: number for number, members in enumerate(raw.placement.partitions) for op in members
    }
    return [
        event if event.op_index is None else replace(event, partition=homes[event.op_index])
        for event in join_delegated(inside, raw.ops, dict(enumerate(partitions)))
    ]


def _joined_body(here: Sequence[Event], kinds: Sequence[str]) -> list[Event]:
    """Nothing tells the partitions of a body: all ops that did not run outside are aligned."""
    outside = {event.op_index for event in here if event.partition is None}
    inside = [event for event in here if event.partition is not None]
    ops = [Op(index=index, kind=kind) for index, kind in enumerate(kinds)]
    members = [op.index for op in ops if op.index not in outside]
    joined = join_delegated([replace(event, partition=0) for event in inside], ops, {0: members})
    return [
        replace(event, partition=before.partition)
        for event, before in zip(joined, inside, strict=True)
    ]


def _corrected(events: Sequence[Event], raw: RawProfile) -> list[Event]:
    """Take off the further clock readings of a concatenation.

    XNNPACK copies each operand by an operator of its own and reads the clock after each
    (`src/runtime.c`, `xnn_invoke_runtime`).
    """
    cost_ns = float(raw.clock["cost_ns"])
    corrected = []
    for event in events:
        ours = event.kind == "CONCATENATION" and event.place == "xnnpack" and not event.subgraph
        further = len(raw.ops[event.op_index or 0].inputs) - 1 if ours else 0
        samples_ns = tuple(max(0.0, one - further * cost_ns) for one in event.samples_ns)
        corrected.append(replace(event, samples_ns=samples_ns) if further > 0 else event)
    return corrected


def _with_work(events: Sequence[Event], ops: Sequence[Op]) -> list[Event]:
    """Put each op's multiplications and bytes on the longest of its events."""
    longest: dict[int, Event] = {}
    for event in events:
        if event.subgraph == 0 and event.op_index is not None and event.op_index < len(ops):
            best = longest.get(event.op_index)
            if best is None or event.median_ns > best.median_ns:
                longest[event.op_index] = event
    counted = {
        event.id: replace(
            event, macs=work.macs(ops[index]), moved_bytes=work.moved_bytes(ops[index])
        )
        for index, event in longest.items()
    }
    return [counted.get(event.id, event) for event in events]


def _settled(
    events: Sequence[Event], readings: Sequence[Readings], raw: RawProfile
) -> tuple[list[Event], str]:
    """Take off what the profiler spends on each reading, and say so; or what remains doubtful.

    Unprofiled runs tell what the whole takes. By what the parts exceed it, the profiler's
    bookkeeping has cost: the same for each reading, yet no more than may be of an operator's time.
    """
    medians_ns = np.array([event.median_ns for event in events])
    counts = np.array([one.own + one.inside for one in readings])
    looped = [
        one.inside or event.owner is not None for one, event in zip(readings, events, strict=True)
    ]
    most_ns = medians_ns * np.where(looped, _MOST_LOOPED, _MOST)
    total_ns = median(raw.total_ns)
    tick_ns, cost_ns = float(raw.clock["tick_ns"]), float(raw.clock["cost_ns"])
    each_ns = min(
        _share_ns(medians_ns.sum() - total_ns, counts, most_ns), tick_ns + _BOOKKEEPING * cost_ns
    )
    taken_ns = np.minimum(each_ns * counts, most_ns)
    settled = [
        replace(event, samples_ns=tuple(max(0.0, sample - off) for sample in event.samples_ns))
        for event, off in zip(events, taken_ns.tolist(), strict=True)
    ]
    kept_ns = float((medians_ns - taken_ns).sum())
    if kept_ns > _EXCESS * total_ns:
        return (
            settled,
            f"the operators sum to {kept_ns:.0f} ns, the whole model to {total_ns:.0f} ns",
        )
    if taken_ns.sum() > _TOLD * total_ns:
        return settled, f"took off {each_ns:.0f} ns an event, the profiler's own bookkeeping"
    return settled, ""


def _share_ns(excess_ns: float, counts: NDArray[np.int64], most_ns: NDArray[np.float64]) -> float:
    """What each reading has to give, no operator more than its most, to make up for the excess."""
    if excess_ns <= 0:
        return 0.0
    order = np.argsort(most_ns / counts)
    given_ns = np.concatenate([[0.0], np.cumsum(most_ns[order])[:-1]])  # by those that give all
    left = np.cumsum(counts[order][::-1])[::-1]
    shares_ns = (excess_ns - given_ns) / left
    fits = shares_ns <= (most_ns / counts)[order]
    return float(shares_ns[int(fits.argmax())]) if fits.any() else math.inf


def _measured(raw: RawProfile) -> tuple[list[Event], str]:
    events, readings = _events(raw)
    settled, remark = _settled(_corrected(_joined(events, raw), raw), readings, raw)
    return _with_work(settled, raw.ops), remark


def to_trace(raw: RawProfile, doubt: str = "") -> Trace:
    """Make a trace: operators with their ops, and the unaccounted rest as the last event.

    `doubt` is what the caller already knows against the measurement; it is kept in `run.reason`.
    Without operators, the reason says why.
    """
    events, remark = _measured(raw) if raw.markers else ([], "")
    operator_level = bool(events)
    reason = "; ".join(filter(None, [raw.reason, doubt, remark]))
    run = local_run(
        runtime="LiteRT",
        clock=raw.clock,
        versions=raw.versions,
        counts={"warmup": raw.warmup, "runs": len(raw.total_ns), "threads": raw.threads},
        model=raw.model,
        reason=reason,
    )
    if operator_level:
        explained_ns = sum(event.median_ns for event in events)
        events.append(unaccounted(len(events), median(raw.total_ns), explained_ns))
    run = replace(run, operator_level=operator_level)
    return Trace(run=run, events=tuple(events), total_ns=raw.total_ns, ops=raw.ops)
