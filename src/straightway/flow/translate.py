"""ONNX to TFLite without running anything: ingest, passes, lowering, layout, writing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from straightway.domains.borders import narrow
from straightway.domains.dynamic import unify
from straightway.domains.layout import Layout, lay_out
from straightway.domains.packing import pack
from straightway.errors import Bug, InvalidModel, NotYet, Unsupported
from straightway.flow import counted, kernels, limits
from straightway.flow.suggestion import Shapes, accepted
from straightway.ingest.onnx import ShapeRequest, ingest
from straightway.ingest.shapes import refuse_open
from straightway.ir import Graph, Value
from straightway.ir.verify import verify
from straightway.lower import preparation
from straightway.lower.lowering import Lowered, lower_graph
from straightway.lower.results import result_types
from straightway.passes import counts, depthwise, opening
from straightway.quant import asymmetric, ends, integer, narrowing, substitutes
from straightway.remark import Remark
from straightway.targets.engine import Engine
from straightway.targets.target import Target
from straightway.tflite.write import Written, write

INT32 = np.dtype(np.int32)
# What Python raises where a graph is not as its readers expect; Bug, where a check of ours says so.
UNFORESEEN = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
    Bug,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What is asked of a file besides its numbers.

    `channels_last_io`: images that go in or out have their channels last. `io_type`: see
    `quant.ends`. `engine` and `accelerated`: see `targets.target`. `delegate`: among equal spellings of an op, the one that XNNPACK's delegate runs. `device`: title of a target that is not this machine.
    """

    channels_last_io: bool = False
    io_type: str = "float"
    delegate: bool = True
    engine: Engine | None = None
    accelerated: bool = False
    device: str = ""

    @property
    def modulo(self) -> bool:
        """Whether the engine has FLOOR_MOD of whole numbers."""
        kernel = None if self.engine is None else self.engine.kernels.get("FLOOR_MOD")
        return self.engine is None or (kernel is not None and INT32 in kernel.types)


PLAIN = Form()


def form_for(target: Target, *, channels_last_io: bool = False, io_type: str = "") -> Form:
    """What a target asks of a file; its own type of inputs and outputs unless told."""
    return Form(
        channels_last_io=channels_last_io,
        io_type=io_type or target.io_type,
        delegate=target.delegate,
        engine=target.engine,
        accelerated=target.accelerated,
        device="" if target.delegate else target.title,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """A TFLite file in memory, and how it came to be.

    `source` is the prepared graph of the model, `node_count` its nodes and `names` its values before. `steps_s` is the CPU
    time of each step, in seconds.
    """

    source: Graph
    node_count: int
    names: frozenset[str]
    form: Form
    lowered: Lowered
    layout: Layout
    written: Written
    remarks: tuple[Remark, ...]
    steps_s: dict[str, float]

    def telling(self, remarks: Sequence[Remark]) -> "Translation":
        """The same with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))

    def interior(self) -> dict[str, Value]:
        """Values of the model that can be compared, by the model's names, in order.

        The written tensor of each holds the same numbers, perhaps in another order.
        """
        found: dict[str, Value] = {}
        tensors = set()
        ends = {*self.source.output_names, *(v.name for v in self.source.inputs)}
        for node in self.source.nodes:
            for value in node.outputs:
                logical = self.lowered.values.get(value)
                place = self.layout.places.get(logical) if logical is not None else None
                if place is None or value.name in ends or value.name not in self.names:
                    continue
                if place.tensor in tensors:
                    continue
                if place.tensor in self.written.tensors and place.tensor.producer is not None:
                    tensors.add(place.tensor)
                    found[value.name] = value
        return found


@dataclass(slots=True)
class Stopwatch:
    """CPU time of named steps, in seconds."""

    steps_s: dict[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.process_time)

    def start(self) -> None:
        """Begin a step anew."""
        self.started = time.process_time()

    def lap(self, name: str) -> None:
        """End a step."""
        now = time.process_time()
        self.steps_s[name] = self.steps_s.get(name, 0.0) + now - self.started
        self.started = now


def read(path: Path, request: ShapeRequest | None = None) -> Graph:
    """Read the model with the requested shapes.

    Where some stay open, Unsupported suggests such as the model takes.
    """
    asked = request or ShapeRequest()
    graph = ingest(path, replace(asked, keep_open=True))
    if asked.keep_open or all(value.known_type.is_static for value in graph.inputs):
        return graph
    refuse_open(graph, path, sizes=fitting(graph))
    return graph


def fitting(declared: Graph) -> Shapes:
    """Shapes for all inputs, as far as can be found such as the model takes."""
    return accepted(declared, lambda shapes: _tried(declared, shapes))


def _tried(declared: Graph, shapes: Shapes) -> str | None:
    """Whether a model can be converted at these sizes: see `suggestion.Trial`."""
    graph = counted.copied(declared)
    for value in graph.inputs:
        value.type = replace(value.known_type, shape=shapes[value.name])
    try:
        translate(graph)
    except Unsupported:
        return "refused"
    except (InvalidModel, MemoryError, *UNFORESEEN):
        return None
    return "converts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A model laid out for TFLite, not written yet. The fields are those of `Translation`."""

    source: Graph
    node_count: int
    names: frozenset[str]
    form: Form
    lowered: Lowered
    layout: Layout
    remarks: tuple[Remark, ...]
    watch: Stopwatch

    def written(self) -> Translation:
        """Move integers rather than floats, pack what does not fill the lanes, write the file."""
        self.watch.start()
        narrow(self.layout.graph)
        packed = pack(self.layout.graph)
        if not self.layout.graph.signatures:
            verify(self.layout.graph, typed=True)
        self.watch.lap("layout")
        data = write(self.layout.graph)
        self.watch.lap("write")
        return Translation(
            source=self.source,
            node_count=self.node_count,
            names=self.names,
            form=self.form,
            lowered=self.lowered,
            layout=self.layout,
            written=data,
            remarks=(*self.remarks, *packed, *self.untaken()),
            steps_s=self.watch.steps_s,
        )

    def untaken(self) -> list[Remark]:
        """What the target's engine can't run of the file."""
        if self.form.engine is None:
            return []
        return kernels.untaken(
            self.layout.graph, self.form.engine, accelerated=self.form.accelerated
        )


def translate(source: Graph, form: Form = PLAIN) -> Translation:
    """Turn an ingested graph into a TFLite file.

    Results of which only the run tells how many elements they have keep that open. Raises Unsupported
    for all refused nodes together.
    """
    if not counts.counts(source):
        return draft(prepare(source), form).written()
    first = next(counted.samples([source]))
    try:
        made = draft(prepare(first), form)
        if not first.assumed:
            return made.written()
        samples = list(counted.samples([source] * len(counted.ASSUMED_COUNTS)))
        return joined(samples, [], form)
    except (InvalidModel, NotYet) as error:
        if not first.assumed:
            raise
        names = ", ".join(f"'{name}'" for name in first.assumed)
        raise Unsupported(
            f"only the run tells how many elements {names} has, and not all that follows holds at "
            f"every size: {error}"
        ) from error


def joined(sources: Sequence[Graph], batch: Sequence[tuple[int, int]], form: Form) -> Translation:
    """Translate one model at several sizes, and keep what holds at every one.

    `batch` are the open dimensions (input number, dimension) that the file shows as 1. Raises
    NotYet where the sizes lead to other ops, else as `translate`.
    """
    opening.note(sources, [counted.copied(source) for source in sources], result_types)
    for source in sources:
        source.resizable = True
    prepared = [prepare(source) for source in sources]
    opening.mark([one.source for one in prepared])
    made = [draft(one, form) for one in prepared]
    unify([one.layout.graph for one in made], batch)
    return made[0].written()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A simplified graph, and what the model had before. The fields are those of `Translation`."""

    source: Graph
    node_count: int
    names: frozenset[str]
    remarks: tuple[Remark, ...]
    watch: Stopwatch


def prepare(source: Graph) -> Prepared:
    """Simplify an ingested graph."""
    watch = Stopwatch()
    node_count = sum(1 for _ in source.nodes)
    # who has no name in the file has no reader either
    names = frozenset(v.name for node in source.nodes for v in node.outputs if v.uses)
    remarks = tuple(preparation.before(source))
    watch.lap("prepare")
    return Prepared(source=source, node_count=node_count, names=names, remarks=remarks, watch=watch)


def draft(prepared: Prepared, form: Form) -> Draft:
    """Lower and lay out a prepared graph."""
    source, watch = prepared.source, prepared.watch
    watch.start()
    lowered = _lowered(source, form)
    remarks = [
        *prepared.remarks,
        *asymmetric.run(source),
        *lowered.remarks,
        *preparation.after(lowered.graph),
    ]
    made = integer.run(lowered.graph)
    remarks += made.remarks
    values = {source: made.stand_in(value) for source, value in lowered.values.items()}
    if form.engine is not None:
        remarks += narrowing.run(lowered.graph, form.engine)
        remarks += substitutes.run(lowered.graph, form.engine, accelerated=form.accelerated)
    remarks += ends.run(lowered.graph, form.io_type)
    lowered = replace(lowered, values=values)
    watch.lap("lower")
    layout = lay_out(lowered.graph, lowered.outputs, channels_last_io=form.channels_last_io)
    inputs = [(value.name, value) for value in lowered.graph.inputs]
    outputs = zip(lowered.outputs, lowered.graph.outputs, strict=True)
    remarks += [*layout.plan.remarks(), *layout.remarks([*inputs, *outputs])]
    watch.lap("layout")
    return Draft(
        source=source,
        node_count=prepared.node_count,
        names=prepared.names,
        form=form,
        lowered=lowered,
        layout=layout,
        remarks=tuple(remarks),
        watch=watch,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredTwice:
    """A prepared graph, lowered op by op; `hidden` names what vanishes when ops are joined."""

    source: Graph
    lowered: Lowered
    hidden: frozenset[str]


def lowered_twice(
    source: Graph, respell: Callable[[Graph], None], form: Form = PLAIN
) -> LoweredTwice:
    """Lower an ingested graph of known shapes, before its ops are joined and as if they were.

    `respell` changes what is lowered before.

    Raises Unsupported for all refused nodes together.
    """
    preparation.before(source)
    return twice(source, respell, form)


def twice(source: Graph, respell: Callable[[Graph], None], form: Form) -> LoweredTwice:
    """The same of a graph that is prepared."""
    first, second = (_lowered(source, form) for _ in range(2))
    for one in (first, second):
        respell(one.graph)
    preparation.after(second.graph)
    left = {value.name for value in second.graph.values()}
    hidden = frozenset(value.name for value in first.graph.values()) - left
    return LoweredTwice(source=source, lowered=first, hidden=hidden)


def _lowered(source: Graph, form: Form) -> Lowered:
    """Lower the graph, or raise Unsupported with all that stands against it."""
    oversized = limits.oversized(source)
    if oversized:  # a lowering may make constants of these shapes
        raise refused(source, oversized)
    lowered = lower_graph(source, delegate=form.delegate, modulo=form.modulo)
    refusals = [*lowered.refusals, *limits.foreign(source)]
    if refusals:
        raise refused(source, refusals)
    return replace(lowered, remarks=(*lowered.remarks, *depthwise.run(lowered.graph)))


def refused(source: Graph, refusals: Sequence[Remark]) -> Unsupported:
    """Name every refused node at once, grouped by reason."""
    return Unsupported(grouped(sum(1 for _ in source.nodes), refusals), refusals)


def grouped(total: int, refusals: Sequence[Remark]) -> str:
    """The refused of `total` nodes by reason, with what works instead."""
    count = sum(1 for remark in refusals if remark.op)
    lines = [f"{count} of {total} nodes can't become TFLite ops:"]
    if not count:
        lines = ["the model can't become a TFLite file:"]
    for group in group_by_reason(refusals):
        lines.append(f"  {group[0].text}")
        for op in dict.fromkeys(remark.op for remark in group if remark.op):
            nodes = [f"'{remark.node}'" for remark in group if remark.op == op]
            more = f" and {len(nodes) - 4} more" if len(nodes) > 4 else ""
            lines.append(f"    {op}: {', '.join(nodes[:4])}{more}")
        if group[0].source:
            lines.append(f"    from {group[0].source}")
        if group[0].remedy:
            lines.append(f"    what works: {group[0].remedy}")
    return "\n".join(lines)


def group_by_reason(refusals: Sequence[Remark]) -> list[list[Remark]]:
    """Put refusals with the same text and remedy together."""
    groups: dict[tuple[str, str], list[Remark]] = {}
    for remark in refusals:
        groups.setdefault((remark.text, remark.remedy), []).append(remark)
    return list(groups.values())
