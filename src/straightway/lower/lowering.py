"""Lowers a whole graph: every node by its declaration, all refusals collected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from straightway.errors import Bug, Impossible, InvalidModel, NotYet, Unsupported
from straightway.ir import Graph, Node, TensorType, Value, edit
from straightway.lower import families, preparation
from straightway.lower.bind import bind, check
from straightway.lower.builder import MOST_DIMENSIONS, Builder, Inner
from straightway.lower.control_inside import isolated, reads
from straightway.lower.declare import LOWERINGS, given
from straightway.lower.refusals import no_lowering, refusal
from straightway.lower.results import result_types
from straightway.onnx_io.schema import infer_types
from straightway.remark import Remark

families.load()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """The graph of TFLite ops, still in the model's dimension order; refusals, if any; other remarks.

    `outputs` are the model's names of the graph's outputs, in order. `values` maps each value of the
    model that survives to the value that stands for it, `makers` each op to the node it was made for.
    `unjudged` are nodes that read what one of those `refused` should make.
    """

    graph: Graph
    outputs: tuple[str, ...]
    values: dict[Value, Value]
    refusals: tuple[Remark, ...]
    remarks: tuple[Remark, ...]
    makers: Mapping[Node, Node] = field(default_factory=dict)
    unjudged: tuple[Node, ...] = ()
    refused: tuple[Node, ...] = ()


def lower_graph(
    source: Graph, *, any_size: bool = False, delegate: bool = True, modulo: bool = True
) -> Lowered:
    """Lower every node. Nothing is raised for a refused node: see `refusals`.

    With `any_size`, only to ops that hold at other sizes of all dimensions, else of those that the
    graph has as open. With `delegate`, to those among equal spellings that XNNPACK's delegate runs.
    `modulo`: the engine has FLOOR_MOD of whole numbers.
    """
    return _Lowerer(source, any_size=any_size, delegate=delegate, modulo=modulo).run()


ALL_DIMENSIONS = frozenset(range(MOST_DIMENSIONS))


class _Lowerer:
    """The state of one lowering."""

    def __init__(self, source: Graph, *, any_size: bool, delegate: bool, modulo: bool) -> None:
        self.source = source
        self.any_size = any_size
        self.target = Graph(name=source.name)
        self.builder = _Builder(self)
        self.builder.delegate = delegate
        self.builder.modulo = modulo
        self.env: dict[Value, Value] = {}
        self.lost: set[Value] = set()
        self.named: set[Value] = set()
        self.refusals: list[Remark] = []
        self.unjudged: list[Node] = []
        self.refused: list[Node] = []
        self.makers: dict[Node, Node] = {}

    def run(self) -> Lowered:
        """Lower inputs, nodes, outputs."""
        for name in (*(v.name for v in self.source.inputs), *self.source.output_names):
            self.target.taken[name] = 0
        for value in self.source.inputs:
            made = Value(value.name, value.type)
            self.env[value] = made
            edit.add_input(self.target, made)
        for node in self.source.nodes:
            self.lower_node(node)
        if not self.refusals:
            found = [self.operand(v) for v in self.source.outputs]
            edit.set_outputs(self.target, [v for v in found if v is not None])
        return Lowered(
            graph=self.target,
            outputs=tuple(self.source.output_names),
            values=self.env,
            refusals=tuple(self.refusals),
            remarks=tuple(self.builder.remarks),
            makers=self.makers,
            unjudged=tuple(self.unjudged),
            refused=tuple(self.refused),
        )

    def operand(self, value: Value | None) -> Value | None:
        """Return what stands for an operand; constants are taken over."""
        if value is None:
            return None
        if value not in self.env and value.const is not None:
            kind = Value(self.target.fresh(value.name), value.type, value.const)
            kind.quant = value.quant
            self.env[value] = kind
        return self.env[value]

    def lower_node(self, node: Node) -> None:
        """Lower one node, or remember why not; what depends on a refused node is not judged."""
        if any(v in self.lost for v in reads(node)):
            self.refuse_unknown(node)
            self.unjudged.append(node)
            self.lost.update(node.outputs)
            return
        self.builder.origins = node.origins
        self.builder.stem = next((v.name for v in node.outputs if v.name), node.name)
        self.builder.node = node.name
        self.builder.open_dims = self.open_dims(next(iter(node.inputs), None))
        self.builder.open_results = self.open_dims(next(iter(node.outputs), None))
        last = self.target.last
        self.builder.keeps = any(value.name in self.source.kept for value in node.outputs)
        try:
            results = self.results(node)
        except Unsupported as error:
            self.refuse(node, error)
            return
        except InvalidModel as error:
            raise InvalidModel(f"node '{node.name}': {error}") from error
        for value, result in zip(node.outputs, results, strict=True):
            self.settle(node, value, result)
        made = self.target.first if last is None else last.next
        while made is not None:
            self.makers[made] = node
            made = made.next

    def open_dims(self, value: Value | None) -> frozenset[int]:
        """The dimensions of a value whose sizes stay open."""
        if self.any_size:
            return ALL_DIMENSIONS
        return frozenset() if value is None else self.source.open_dims.get(value, frozenset())

    def results(self, node: Node) -> list[Value | None]:
        """Bind, check the needs, run the declaration."""
        lowering = LOWERINGS.get((node.op.dialect, node.op.name))
        if lowering is None:
            raise no_lowering(node)
        arguments = bind(lowering, node, [self.operand(v) for v in node.inputs])
        for value in node.outputs:
            unknown = value.type is None or not value.type.is_static
            if value.uses and unknown and not node.graphs():  # those say what makes it so
                if value.type is None:
                    result_types(node, refuse=True)
                elif value.type.dtype == object:  # texts have a reason of their own
                    check(lowering.needs, arguments)
                raise NotYet(
                    f"the type of result '{value.name}' is not known: {value.type}",
                    remedy="declare it in the model, or let what it depends on be constant",
                )
        check(lowering.needs, arguments)
        positional, keywords = given(lowering, arguments)
        result = lowering.function(self.builder, *positional, **keywords)
        self.check_results(node)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def check_results(self, node: Node) -> None:
        """Raise Impossible where the model returns a tensor without elements, InvalidModel for less.

        Callers read it only where the runtime has given it no memory, which no file decides.
        """
        for value in node.outputs:
            if value.type is not None and value.type.is_static and min(value.shape, default=0) < 0:
                raise InvalidModel(f"no result is {value.type}, as '{value.name}' would be")
            if self.source.is_output(value) and value.known_type.size == 0:
                raise Impossible(
                    f"LiteRT's interpreter hands out no empty tensor; got {value.type}",
                    kernel="python/interpreter_wrapper/interpreter_wrapper.cc:871",
                    remedy=f"leave '{value.name}' out of the model's outputs",
                )

    def settle(self, node: Node, value: Value, result: Value | None) -> None:
        """Let `result` stand for the model's value, under its name, if its type is the same.

        It may be None where nobody reads the value.
        """
        if result is None or (value.type is None and not value.uses):
            return
        if result.type != value.type:
            if not self.is_inferred(node, value):  # then the type is what the model declares
                raise InvalidModel(
                    f"node '{node.name}' ({node.op}) gives {result.type} for '{value.name}'; the "
                    f"model declares {value.type}"
                )
            raise Bug(
                f"lowering of {node.op} '{node.name}' gives {result.type} for '{value.name}', "
                f"which is {value.type}"
            )
        if result.producer is not None and result not in self.named:
            result.name = value.name
            self.named.add(result)
        self.env[value] = result

    def is_inferred(self, node: Node, value: Value) -> bool:
        """Whether ONNX's shape functions say something of a result."""
        kinds = infer_types(node, dict(self.source.opsets))
        return kinds[node.outputs.index(value)] is not None

    def refuse(self, node: Node, error: Unsupported) -> None:
        """Remember a refusal and what can be done about it."""
        self.lost.update(node.outputs)
        self.refused.append(node)
        self.refusals += error.remarks or [refusal(node, error)]

    def refuse_unknown(self, node: Node) -> None:
        """Name an op that nothing lowers even where its operands are lost."""
        if (node.op.dialect, node.op.name) not in LOWERINGS:
            self.refusals.append(refusal(node, no_lowering(node)))


class _Builder(Builder):
    """A builder that lowers the graphs inside nodes as well."""

    def __init__(self, lowerer: _Lowerer) -> None:
        super().__init__(lowerer.target)
        self.lowerer = lowerer

    def inside(self, graph: Graph, given: Sequence[TensorType | np.ndarray]) -> Inner:
        """See Builder. Raises Unsupported with all that is refused there."""
        copy, read = isolated(graph, given)
        remarks = preparation.before(copy)
        found = lower_graph(
            copy,
            any_size=self.lowerer.any_size or bool(self.lowerer.source.open_dims),
            delegate=self.delegate,
            modulo=self.modulo,
        )
        if found.refusals:
            raise Unsupported(f"the graph '{graph.name}' inside can't be lowered", found.refusals)
        self.remarks += [*remarks, *found.remarks, *preparation.after(found.graph)]
        captured = [self.lowerer.operand(value) for value in read]
        return Inner(graph=found.graph, captured=tuple(v for v in captured if v is not None))
