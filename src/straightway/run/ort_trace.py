"""From onnxruntime's profile to a `Trace`: one event for each node of the optimised graph."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from straightway.run.device import local_run
from straightway.trace import work
from straightway.trace.schema import Event, Op, Tensor, Trace, unaccounted
from straightway.trace.statistics import median

_KERNEL = "_kernel_time"
_MODEL_RUN = "model_run"
_DTYPES = {"float": "float32", "double": "float64"}


Node = Mapping[str, Any]


def to_trace(answer: Mapping[str, Any], *, model: str, warmup: int, threads: int) -> Trace:
    """Group the events by node and run; nodes inside a Loop or If are taken off the node around.

    `op_index` is the position in `ops`, whose kinds are onnxruntime's: layout conversions of its own
    ("ReorderInput") and fused ops ("FusedConv") stand beside ONNX's.
    """
    clock = answer["clock"]
    tick_ns, cost_ns = float(clock["tick_ns"]), float(clock["cost_ns"])
    runs = _runs(answer["events"])[warmup:]
    nodes: dict[tuple[str, int], Node] = {}
    samples: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0] * len(runs))
    for number, run in enumerate(runs):
        for node, own in run:
            key = (node["name"], int(node["args"]["node_index"]))
            nodes.setdefault(key, node)
            samples[key][number] += max(0.0, own * tick_ns - cost_ns)
    ops = tuple(_op(index, node) for index, node in enumerate(nodes.values()))
    total_ns = tuple(float(one) for one in answer["total_ns"])
    spent_ns = _profiler_ns(list(samples.values()), total_ns)
    run_facts = local_run(
        runtime="onnxruntime",
        clock=clock,
        versions=answer["versions"],
        counts={"warmup": warmup, "runs": len(total_ns), "threads": threads},
        model=model,
        reason=f"took off {spent_ns:.0f} ns a node, onnxruntime's own bookkeeping"
        if spent_ns
        else "",
    )
    durations = [tuple(max(0.0, one - spent_ns) for one in samples[key]) for key in nodes]
    events = _events(ops, durations)
    rest = unaccounted(len(events), median(total_ns), sum(one.median_ns for one in events))
    return Trace(run=run_facts, events=(*events, rest), total_ns=total_ns, ops=ops)


def _profiler_ns(samples: Sequence[Sequence[float]], total_ns: Sequence[float]) -> float:
    """What the profiler spends within each node's time: the excess of all nodes over the model.

    It writes shapes and sizes to text before it reads the clock (sequential_executor.cc,
    `~KernelScope`), which takes longer than many a node.
    """
    excess_ns = sum(median(one) for one in samples) - median(total_ns)
    return max(0.0, excess_ns / max(1, len(samples)))


def _runs(events: Sequence[Node]) -> list[list[tuple[Node, int]]]:
    """The nodes of each run with their own ticks; a run is what a "model_run" event spans."""
    around: list[tuple[int, int]] = []  # position and end of the nodes that are still running
    order = sorted(range(len(events)), key=lambda i: (events[i]["ts"], -events[i]["dur"]))
    own = [event["dur"] for event in events]
    members: list[list[int]] = []
    for position in order:
        event, end = events[position], events[position]["ts"] + events[position]["dur"]
        if event["name"] == _MODEL_RUN:
            members.append([])
            around.clear()
        elif members:
            while around and around[-1][1] < end:
                around.pop()
            if around:
                own[around[-1][0]] -= event["dur"]
            around.append((position, end))
            members[-1].append(position)
    return [[(events[position], own[position]) for position in run] for run in members]


def _op(index: int, node: Node) -> Op:
    arguments = node["args"]
    return Op(
        index=index,
        kind=arguments["op_name"],
        name=node["name"].removesuffix(_KERNEL),
        inputs=_tensors(arguments.get("input_type_shape", [])),
        outputs=_tensors(arguments.get("output_type_shape", [])),
    )


def _tensors(described: Sequence[Mapping[str, Sequence[int]]]) -> tuple[Tensor, ...]:
    """Each is {type: shape}, as in {"float": [1, 3, 224, 224]}."""
    return tuple(
        Tensor(shape=tuple(shape), dtype=_DTYPES.get(dtype, dtype))
        for one in described
        for dtype, shape in one.items()
    )


def _events(ops: Sequence[Op], durations: Sequence[tuple[float, ...]]) -> list[Event]:
    """Laid end to end in the order in which they first ran."""
    events: list[Event] = []
    start_ns = 0.0
    for op, samples_ns in zip(ops, durations, strict=True):
        event = Event(
            id=op.index,
            name=op.name,
            kind=op.kind,
            op_index=op.index,
            place="onnxruntime",
            start_ns=start_ns,
            samples_ns=samples_ns,
            macs=work.macs(op),
            moved_bytes=None if _lacks_weights(op) else work.moved_bytes(op),
        )
        events.append(event)
        start_ns += event.median_ns
    return events


def _lacks_weights(op: Op) -> bool:
    """The profile leaves out weights that onnxruntime has packed for its kernels."""
    return work.macs(op) != 0 and len(op.inputs) < 2
