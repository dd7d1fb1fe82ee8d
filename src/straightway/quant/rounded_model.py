"""The lowered graph as an ONNX graph that says where it rounds: QuantizeLinear, DequantizeLinear."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from straightway.errors import NotYet
from straightway.ir import Graph, Node, Quant, Value, edit
from straightway.ir.source import kept_in_floats
from straightway.lower.control_inside import reads
from straightway.lower.lowering import Lowered
from straightway.passes.arguments import onnx_op
from straightway.passes.control import copy_attribute
from straightway.quant import spelling
from straightway.quant.assignment import Assignment, scheme_for
from straightway.quant.edges import FLOAT32
from straightway.quant.filters import Filters
from straightway.quant.scheme import INT8, INT16, Scheme, stored_scheme
from straightway.quant.spelling import OPSET, Writer
from straightway.remark import Remark
from straightway.tflite.rows import ROWS, Row

STEP = "quant.model"
NOTHING = Assignment(schemes={}, anew={}, floats={}, remarks=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The graph, and under which name each value of the lowered graph is computed in floats there.

    `reals` has what constants of integers were before they were rounded, by what is made of them.
    """

    graph: Graph
    names: Mapping[Value, str]
    remarks: tuple[Remark, ...]
    reals: Mapping[Value, np.ndarray] = field(default_factory=dict)


def floats_of(source: Graph, lowered: Lowered) -> Model:
    """The lowered graph in ONNX's words, nothing rounded."""
    return _Maker(source=source, lowered=lowered, assignment=NOTHING, filters=None).run()


def rounded(
    source: Graph,
    lowered: Lowered,
    assignment: Assignment,
    filters: Filters,
    *,
    float_inputs: bool = False,
) -> Model:
    """The same with each value rounded as it was assigned, weights as `filters` stores them.

    Floats that ops on floats make or, with `float_inputs`, that go in are read by others as they are.
    """
    return _Maker(
        source=source,
        lowered=lowered,
        assignment=assignment,
        filters=filters,
        float_inputs=float_inputs,
    ).run()


@dataclass(slots=True, kw_only=True)
class _Maker:
    source: Graph
    lowered: Lowered
    assignment: Assignment
    filters: Filters | None
    float_inputs: bool = False
    graph: Graph = field(default_factory=Graph)
    env: dict[Value, Value] = field(default_factory=dict)
    others: dict[Value, Value] = field(default_factory=dict)
    whole: dict[Value, Value] = field(default_factory=dict)
    names: dict[Value, str] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    stored: dict[tuple[Value, Scheme], Value] = field(default_factory=dict)
    reals: dict[Value, np.ndarray] = field(default_factory=dict)
    dtypes: frozenset[np.dtype] = frozenset()

    def run(self) -> Model:
        """Write inputs, ops or the nodes that they were made for, outputs."""
        self.graph.name = self.source.name or "graph"
        self.dtypes = self.assignment.dtypes
        for name in (*(v.name for v in self.source.inputs), *self.source.output_names):
            self.graph.taken[name] = 0
        for value in self.lowered.graph.inputs:
            made = Value(value.name, value.type)
            edit.add_input(self.graph, made)
            if self.filters is None:  # so that it can be observed like any other
                made = Writer(self.graph).node("Identity", [made])
                made.type, made.name = value.type, self.graph.fresh(f"{value.name}/input")
            self.names[value] = made.name
            self.env[value] = self.round(value, made)
        kept = self.kept()
        written: set[Node] = set()
        for node in self.lowered.graph.nodes:
            maker = self.lowered.makers.get(node)
            if maker in kept and maker is not None:
                if maker not in written:
                    written.add(maker)
                    self.keep(maker, kept[maker])
            else:
                self.spell(node)
        outputs = [
            self.output(v) if v in self.env else self.plain(v) for v in self.lowered.graph.outputs
        ]
        self.finish(outputs)
        return Model(
            graph=self.graph, names=self.names, remarks=tuple(self.remarks), reals=self.reals
        )

    def output(self, value: Value) -> Value:
        """A value that goes out: as floats, where ops on floats make it."""
        free = value.producer is not None and self.float_inputs and self.is_free(value)
        return self.whole[value] if free else self.env[value]

    def finish(self, outputs: list[Value]) -> None:
        """Outputs under the model's names, each made by a node of its own; inputs may be outputs, too."""
        results = []
        inputs = {value.name: value for value in self.graph.inputs}
        for value, name in zip(outputs, self.source.output_names, strict=True):
            if name in inputs:
                results.append(inputs[name])
                continue
            made = Value(name, value.type)
            edit.append(self.graph, Node(onnx_op("Identity", OPSET), [value], [made], name=name))
            results.append(made)
        edit.set_outputs(self.graph, results)
        self.graph.output_names = list(self.source.output_names)

    def kept(self) -> dict[Node, str]:
        """Nodes of the model of which an op has no spelling, and why."""
        found: dict[Node, str] = {}
        for node in self.lowered.graph.nodes:
            why = spelling.fault(node)
            if why:
                maker = self.lowered.makers.get(node)
                if maker is None:
                    raise NotYet(f"{why}, and no node of the model stands for it")
                found.setdefault(maker, why)
        return found

    def keep(self, maker: Node, why: str) -> None:
        """Write a node of the model as it is."""
        ops = [op for op, of in self.lowered.makers.items() if of is maker]
        real = all(op in self.assignment.floats for op in ops)
        given = {value: self.of_model(value, real=real) for value in reads(maker)}
        inputs = [None if v is None else given[v] for v in maker.inputs]
        attrs = {name: copy_attribute(value, given) for name, value in maker.attrs.items()}
        results = [Value(self.graph.fresh(v.name), v.type) for v in maker.outputs]
        kept = any(map(self.assignment.is_kept, ops))
        origins = kept_in_floats(maker.origins) if kept else maker.origins
        made = Node(maker.op, inputs, results, attrs, name=maker.name, origins=origins)
        edit.append(self.graph, made)
        for value, result in zip(maker.outputs, results, strict=True):
            logical = self.lowered.values.get(value)
            if logical is not None:
                self.names[logical] = result.name
                self.env[logical] = self.round(logical, result)
        if self.is_whole(maker):
            return
        text = f"stays as it is, in floats: {why}"
        self.remarks.append(
            Remark(kind="missed", step=STEP, node=maker.name, op=maker.op.name, text=text)
        )

    def is_whole(self, maker: Node) -> bool:
        """Whether all ops of a node have integers only: those of the model, or rounded ones."""
        nodes = [n for n in self.lowered.graph.nodes if self.lowered.makers.get(n) is maker]
        values = [v for n in nodes for v in (*n.operands(), *n.outputs) if v.const is None]
        real = [v for v in values if v.dtype == FLOAT32]
        return not any(n in self.assignment.floats for n in nodes) and all(
            v in self.assignment.schemes for v in real
        )

    def of_model(self, value: Value, *, real: bool) -> Value:
        """What stands for a value of the model; `real`: for a node that computes with floats."""
        logical = self.lowered.values.get(value)
        if real and logical in self.whole and logical is not None and self.is_free(logical):
            return self.whole[logical]
        if logical is not None and logical in self.env:
            return self.env[logical]
        if value.const is not None:
            return edit.constant(self.graph, value.const, value.name)
        raise NotYet(f"'{value.name}' is used by a node that has no spelling, and is lowered away")

    def spell(self, node: Node) -> None:
        """Write an op in ONNX's words."""
        kept = self.assignment.is_kept(node)
        writer = Writer(self.graph, rounds=self.is_hybrid(node), in_floats=kept)
        results = spelling.spell(writer, node, self.operands(node))
        for value, result in zip(node.outputs, results, strict=True):
            result.type = value.type
            if result.producer is not None and value.name not in self.graph.taken:
                result.name = self.graph.fresh(value.name)
            self.names[value] = result.name
            self.env[value] = self.round(value, result)

    def operands(self, node: Node) -> list[Value | None]:
        """The operands: rounded where the op computes with integers."""
        integer = self.filters is not None and node not in self.assignment.floats
        row = ROWS[node.op.name]
        found: list[Value | None] = []
        for place, value in enumerate(node.inputs):
            if value is None or value.const is None:
                found.append(None if value is None else self.read(node, value))
            elif row.quant == "weights" and (integer or self.is_hybrid(node)):
                found.append(self.weights(node, place))
            elif integer and value.dtype == FLOAT32 and self.is_rounded(node, row):
                found.append(self.constant(value, self.stored_as(node)))
            elif place == 1 and spelling.weights_perm(node):
                found.append(self.plain(value, spelling.weights_perm(node)))
            elif (shift := self.shift(node)) is not None:
                array = np.asarray(value.const) + shift.astype(np.float32)
                found.append(edit.constant(self.graph, array, value.name))
            else:
                found.append(self.plain(value))
        return found

    def read(self, node: Node, value: Value) -> Value:
        """A value as an op reads it."""
        if node in self.assignment.floats and self.is_free(value):
            return self.whole[value]
        known = self.others if self.assignment.apart(node, value) else self.env
        return known[value]

    def is_free(self, value: Value) -> bool:
        """Whether floats are there before they are rounded."""
        maker = value.producer
        if maker is None:
            return self.float_inputs
        return maker in self.assignment.floats

    def is_hybrid(self, node: Node) -> bool:
        """Whether an op multiplies int8 weights with what it rounds as it runs."""
        return self.filters is not None and node in self.assignment.hybrids

    def bias(self, node: Node, value: Value) -> Value:
        """A bias of floats, with the mean error of the weights in it."""
        shift = 0.0 if self.filters is None else self.filters.shifts.get(node, 0.0)
        array = np.asarray(value.const) + np.asarray(shift, np.float32)
        return edit.constant(self.graph, array, value.name)

    def is_rounded(self, node: Node, row: Row) -> bool:
        """Whether constants beside an op's operand are eight bits; what becomes a bias is not."""
        given = [v for v in node.operands() if v.const is None and v.dtype == FLOAT32]
        return row.quant != "same" and all(v in self.assignment.schemes for v in given)

    def shift(self, node: Node) -> np.ndarray | None:
        """What the bias that an op adds to a product takes up besides, aligned to the result."""
        makers = [v.producer for v in node.operands() if v.const is None]
        maker = makers[0] if len(makers) == 1 and node.op.name == "ADD" else None
        if self.filters is None or maker is None or maker not in self.filters.shifts:
            return None
        if maker.output in self.assignment.schemes or len(maker.operands()) > 2:
            return None
        behind = maker.output.rank - 1 - int(maker.attrs.get("axis", maker.output.rank - 1))
        return self.filters.shifts[maker].reshape(-1, *[1] * behind)

    def plain(self, value: Value, perm: tuple[int, ...] | None = None) -> Value:
        """A constant as it is."""
        array = np.asarray(value.const)
        return edit.constant(
            self.graph, array if perm is None else array.transpose(perm), value.name
        )

    def stored_as(self, node: Node) -> np.dtype:
        """The type of the integers that an op computes with."""
        schemes = self.assignment.schemes
        if node in self.assignment.wide:
            return INT16
        return next(
            (
                schemes[v].dtype
                for v in (*node.operands(), *node.outputs)
                if v in schemes and not self.assignment.apart(node, v)
            ),
            INT8,
        )

    def constant(self, value: Value, dtype: np.dtype) -> Value:
        """A constant operand as integers, exactly where that can be, else by its range."""
        array = np.asarray(value.const)
        scheme = stored_scheme(value, dtype) or scheme_for(
            float(array.min(initial=0.0)), float(array.max(initial=0.0)), dtype=dtype
        )
        made = self.dequantized(scheme.stored(array), scheme.quant, value.name)
        self.reals[made] = array
        return made

    def weights(self, node: Node, place: int) -> Value:
        """Weights or bias as integers and scales, or a bias of floats."""
        if self.filters is None:
            raise ValueError("there are no filters")
        stored = self.filters.of(node, place)
        if stored is None:
            return self.bias(node, node.operands()[place])
        array, quant = stored
        real = np.asarray(node.operands()[place].const)
        perm = spelling.weights_perm(node) if place == 1 else None
        if perm is not None:
            axis = None if quant.axis is None else perm.index(quant.axis)
            array, real = array.transpose(perm), real.transpose(perm)
            quant = Quant(scale=quant.scale, zero_point=quant.zero_point, axis=axis)
        made = self.dequantized(array, quant, f"{node.name}/{'weights' if place == 1 else 'bias'}")
        self.reals[made] = real
        return made

    def dequantized(self, array: np.ndarray, quant: Quant, name: str) -> Value:
        """A constant of integers and the node that makes floats of it."""
        scale = np.asarray(quant.scale, np.float32)
        zero_point = np.asarray(quant.zero_point).astype(array.dtype)
        if quant.axis is None:
            scale, zero_point = scale.reshape(()), zero_point.reshape(())
        given = [edit.constant(self.graph, one, name) for one in (array, scale, zero_point)]
        attrs = {} if quant.axis is None else {"axis": quant.axis}
        made = Value(self.graph.fresh(f"{name}/dequantized"), None)
        op = spelling.rounding_op("DequantizeLinear", array.dtype, self.dtypes)
        edit.append(self.graph, Node(op, given, [made], attrs, name=name))
        return made

    def round(self, value: Value, made: Value) -> Value:
        """QuantizeLinear and DequantizeLinear after a value, by the scheme that it was assigned."""
        self.whole[value] = whole = made
        for schemes in (self.assignment.schemes, self.assignment.anew):
            scheme = schemes.get(value)
            if scheme is not None:
                made = self.rounded_once(made, scheme, value)
        other = self.assignment.others.get(value)
        if other is not None:
            source = whole if self.assignment.is_direct(value) else made
            self.others[value] = self.rounded_once(source, other, value)
        return made

    def rounded_once(self, made: Value, scheme: Scheme, like: Value) -> Value:
        """One pair."""
        label = made.producer.name if made.producer is not None else made.name
        parameters = [
            edit.constant(self.graph, np.array(scheme.scale, np.float32), f"{made.name}/scale"),
            edit.constant(
                self.graph, np.array(scheme.zero_point, scheme.dtype), f"{made.name}/zero"
            ),
        ]
        for op, suffix in (("QuantizeLinear", "quantized"), ("DequantizeLinear", "dequantized")):
            result = Value(self.graph.fresh(f"{made.name}/{suffix}"), None)
            kind = spelling.rounding_op(op, scheme.dtype, self.dtypes)
            node = Node(kind, [made, *parameters], [result], name=f"{label}/{suffix}")
            edit.append(self.graph, node)
            made = result
        made.type = like.type
        return made
