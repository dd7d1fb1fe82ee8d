"""The rows of a report's operator table: each written op, and what ran in its bodies."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import count

from straightway.flow.convert import Conversion
from straightway.flow.measure import Measurement
from straightway.ir import Node
from straightway.report.view import OperatorRow, Roofline
from straightway.run.partition import Placement
from straightway.tflite.rows import ROWS
from straightway.trace.schema import Event, Trace
from straightway.trace.taxonomy import UNACCOUNTED, category
from straightway.trace.work import Peak, rate


def operator_rows(
    conversion: Conversion, placement: Placement, measurement: Measurement | None
) -> list[OperatorRow]:
    """One row for each written op, in execution order, its bodies' after it; the rest comes last.

    Rows of bodies, and of events that no op explains, are numbered after those of the main graph.
    Each event counts in one row only: a control-flow op's own time is without its bodies'.
    """
    scale = _Scale(
        trace=measurement.trace if measurement is not None else None,
        peak=measurement.peak if measurement is not None else None,
    )
    main, bodies, loose = _grouped(scale.trace)
    homes = {op: k for k, members in enumerate(placement.partitions) for op in members}
    operators = conversion.translation.written.operators
    numbers = count(len(operators))
    rows: list[OperatorRow] = []
    for node, index in operators.items():
        row = _row(index, node, homes.get(index), main.get(index, []), scale)
        inner = [_body_row(next(numbers), row, events, scale) for events in bodies.get(index, ())]
        rows += [row, *inner]
    return rows + [_loose_row(next(numbers), event, scale) for event in loose]


class _Scale:
    """What a row's numbers are relative to."""

    def __init__(self, *, trace: Trace | None, peak: Peak | None) -> None:
        self.trace = trace
        self.peak = peak
        self.measured = trace is not None and trace.run.operator_level

    def share(self, time_ns: float | None) -> float | None:
        """Of the whole run."""
        if self.trace is None or time_ns is None or self.trace.median_ns <= 0:
            return None
        return time_ns / self.trace.median_ns


Grouped = tuple[dict[int, list[Event]], dict[int, list[list[Event]]], list[Event]]


def _grouped(trace: Trace | None) -> Grouped:
    """The events of each op; of each op in the bodies of each op; and those of no known op."""
    main: dict[int, list[Event]] = defaultdict(list)
    inner: dict[tuple[int, int, int], list[Event]] = defaultdict(list)
    loose = []
    for event in trace.events if trace is not None else ():
        if event.place == UNACCOUNTED:
            continue
        if event.op_index is None or (event.subgraph and event.owner is None):
            loose.append(event)
        elif event.owner is None:
            main[event.op_index].append(event)
        else:
            inner[event.owner, event.subgraph, event.op_index].append(event)
    bodies: dict[int, list[list[Event]]] = defaultdict(list)
    for (owner, _, _), events in inner.items():
        bodies[owner].append(events)
    return main, bodies, loose


def _row(
    index: int, node: Node, partition: int | None, events: list[Event], scale: _Scale
) -> OperatorRow:
    # the node that the op mainly computes comes first
    sources = sorted(node.origins, key=lambda source: (source.node != node.name, source))
    time_ns = sum(event.median_ns for event in events) if scale.measured else None
    spread = sum(event.spread.p90 - event.spread.p10 for event in events)
    longest = max(events, key=lambda event: event.median_ns, default=None)
    output = node.outputs[0]
    return OperatorRow(
        index=index,
        kind=node.op.name,
        category=longest.category if longest is not None else category(node.op.name),
        kernel=longest.name if longest is not None and longest.place == "xnnpack" else "",
        time_ns=time_ns,
        spread_ns=spread if scale.measured else None,
        share=scale.share(time_ns),
        macs=(longest.macs or 0) if longest is not None else 0,
        moved_bytes=(longest.moved_bytes or 0) if longest is not None else 0,
        roofline=_roofline(index, time_ns, scale),
        place=f"xnnpack #{partition}" if partition is not None else "builtin",
        partition=partition,
        origins=tuple(dict.fromkeys(source.node for source in sources)),
        op_types=tuple(dict.fromkeys(source.op for source in sources)),
        source=next((str(source) for source in sources if str(source)), ""),
        output_shape=_measured_shape(index, scale) or output.shape,
        dtype=output.dtype.name,
        remarks=() if partition is not None else (ROWS[node.op.name].refused_by_xnnpack(node),),
    )


def _measured_shape(index: int, scale: _Scale) -> tuple[int, ...]:
    """The shape of a result in the run: the file has other sizes where they are open."""
    if scale.trace is None or index >= len(scale.trace.ops):
        return ()
    return next((tensor.shape for tensor in scale.trace.ops[index].outputs), ())


def _roofline(index: int, time_ns: float | None, scale: _Scale) -> Roofline | None:
    if scale.trace is None or scale.peak is None or not time_ns or index >= len(scale.trace.ops):
        return None
    found = rate(scale.trace.ops[index], time_ns, scale.peak)
    if found is None:
        return None
    return Roofline(
        gmacs=found.gmacs or None,
        gbs=found.gbs,
        limit_gbs=found.limit_gbs,
        percent_of_peak=100 * found.roofline,
        bound="compute" if found.bound == "compute" else "memory",
    )


def _body_row(
    index: int, owner: OperatorRow, events: Sequence[Event], scale: _Scale
) -> OperatorRow:
    """An op of a body: all its turns together, for the nodes that the op around stands for."""
    longest = max(events, key=lambda event: event.median_ns)
    time_ns = sum(event.median_ns for event in events)
    return OperatorRow(
        index=index,
        kind=longest.kind,
        category=longest.category,
        kernel=longest.name if longest.place == "xnnpack" else "",
        time_ns=time_ns,
        spread_ns=sum(event.spread.p90 - event.spread.p10 for event in events),
        share=scale.share(time_ns),
        place=f"{longest.place} in {owner.kind} #{owner.index}",
        origins=owner.origins,
        op_types=owner.op_types,
        source=owner.source,
        remarks=(f"in a body of {owner.kind} #{owner.index}, all its turns together",),
    )


def _loose_row(index: int, event: Event, scale: _Scale) -> OperatorRow:
    return OperatorRow(
        index=index,
        kind=event.name,
        category=event.category,
        kernel=event.kernel or event.name,
        time_ns=event.median_ns,
        spread_ns=event.spread.p90 - event.spread.p10,
        share=scale.share(event.median_ns),
        place=event.place,
        partition=event.partition,
        remarks=("joined to no operator",),
    )
