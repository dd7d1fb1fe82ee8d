"""One sweep from the inputs to the outputs: types are inferred, and what is constant is computed.

    before                                    after
      %s = Shape(%x: f32[1,8,4,4])
      %n = Gather(%s, const 0)
      %t = Concat(Unsqueeze(%n), const [-1])
      %y = Reshape(%x, %t)                      %y: f32[1,128] = Reshape(%x, const [1,-1])

A branch whose condition is constant takes the place of its If. What a constant stood for at run time
is gone, so the origins of folded nodes are not kept; the remark counts them.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Graph, Node, Quant, TensorType, Value, edit
from straightway.passes import control, counts
from straightway.passes.arguments import argument, integers, is_onnx
from straightway.passes.evaluate import EVALUATORS, evaluate
from straightway.passes.evaluate_create import MOST_RESULT_BYTES
from straightway.passes.evaluator import UnfoldableError
from straightway.passes.outputs import only_names_output, stand_in
from straightway.passes.renaming import RESHAPES, renamed_axis
from straightway.passes.sequences import Sequences
from straightway.passes.types import Otherwise, infer, nested, subgraphs, unknown
from straightway.remark import Remark

STEP = "passes.fold"
# How much larger than what the file brings constants may become: int4 as float32 is eight times as
# large, and a constant may go through some steps.
WIDENING = 8
STEPS = 16
MOST_ADDED_BYTES = 8 * MOST_RESULT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One result that became a constant: its name in the file, and what it was computed from."""

    name: str
    made: Value
    operands: tuple[Value, ...]


def run(
    graph: Graph, trail: list[Trace] | None = None, otherwise: Otherwise = unknown
) -> list[Remark]:
    """Type all values and fold what is constant; the trail has what was folded, in order.

    `otherwise` types what ONNX's shape functions say nothing of. Raises InvalidModel where operands contradict an operator.
    """
    given_bytes = _given_bytes(graph)
    sweep = Sweep(
        opsets=graph.opsets,
        most_bytes=max(MOST_RESULT_BYTES, WIDENING * max(given_bytes, default=0)),
        left_bytes=MOST_ADDED_BYTES + STEPS * sum(given_bytes),
        kept=graph.kept,
        trail=trail,
        otherwise=otherwise,
    )
    sweep.graph(graph)
    done = []
    if sweep.folded:
        total = sum(sweep.folded.values())
        names = ", ".join(f"{n} {name}" for name, n in sweep.folded.most_common())
        done.append(
            Remark(
                kind="done",
                step=STEP,
                text=f"computed {total} nodes whose operands are constant: {names}",
                numbers={"nodes": total},
            )
        )
    return [*done, *sweep.remarks]


@dataclass(slots=True, kw_only=True)
class Sweep:
    """One sweep over a graph and the graphs inside it.

    A constant takes at most `most_bytes`; `left_bytes` are left for all that will be made.
    """

    opsets: dict[str, int]
    most_bytes: int
    left_bytes: int
    folded: Counter[str] = field(default_factory=Counter)
    remarks: list[Remark] = field(default_factory=list)
    kept: frozenset[str] = frozenset()
    trail: list[Trace] | None = None
    depth: int = 0
    agrees: bool = True
    otherwise: Otherwise = unknown
    sequences: Sequences = field(default_factory=Sequences)

    def graph(self, graph: Graph) -> None:
        """Sweep one graph; what it reads of a graph around it is typed already."""
        node = graph.first
        while node is not None:
            previous = node.previous
            self.node(graph, node)
            if node.graph is graph:
                node = node.next
            else:  # gone: go on with what took its place
                node = previous.next if previous is not None else graph.first

    def node(self, graph: Graph, node: Node) -> None:
        """Type one node, and fold it or put a branch in its place."""
        if subgraphs(node):
            self.control(graph, node)
            return
        if self.sequences.unwound(graph, node):
            return
        kinds = counts.assume(graph, node, self.types(node))
        for value, kind in zip(node.outputs, kinds, strict=True):
            value.type = kind
        if only_names_output(graph, node):
            return
        arrays = self.arrays(node, kinds)
        if arrays is None and not any(map(graph.is_output, node.outputs)):
            arrays = _empty(kinds)
        if arrays is not None:
            self.folded[node.op.name] += 1
            names, operands = [value.name for value in node.outputs], tuple(node.operands())
            made = _replace_by_constants(graph, node, arrays)
            if self.trail is not None:
                self.trail += [
                    Trace(name=name, made=value, operands=operands)
                    for name, value in zip(names, made, strict=True)
                ]

    def control(self, graph: Graph, node: Node) -> None:
        """Type a node with graphs inside, or put the branch that it takes in its place."""
        control.check(node)
        branch = control.constant_branch(node)
        if branch:
            self.folded[node.op.name] += 1
        else:
            branch = control.infer_types(node, self.inner)
            if branch:
                self.say(
                    node, "one branch cannot run with these shapes; the other is taken", "done"
                )
        if branch:
            control.inline(graph, node, node.attrs[branch])

    def inner(self, graph: Graph) -> bool:
        """Sweep a graph inside a node; returns whether its types agree."""
        around, self.agrees = self.agrees, True
        self.depth += 1
        self.graph(graph)
        self.depth -= 1
        agrees, self.agrees = self.agrees, around
        return agrees

    def types(self, node: Node) -> list[TensorType | None]:
        """Infer the types of results. In a graph that may never run, a fault is no error yet."""
        try:
            return infer(node, self.opsets, self.otherwise)
        except InvalidModel as error:
            if not self.depth:
                raise
            self.agrees = False
            self.say(node, f"its operands contradict it, in a graph that may never run: {error}")
            return [None] * len(node.outputs)

    def say(self, node: Node, text: str, kind: Literal["done", "missed"] = "missed") -> None:
        """Remark on one node."""
        self.remarks.append(
            Remark(kind=kind, step=STEP, node=node.name, op=node.op.name, text=text)
        )

    def arrays(self, node: Node, kinds: Sequence[TensorType | None]) -> list[np.ndarray] | None:
        """Compute the results of a node, or return None where they are not constant."""
        known = _dimensions(node)
        if known is not None:
            return [known]
        operands = node.operands()
        if any(value.const is None for value in operands):
            return None
        if node.op.dialect != "onnx" or node.op.name not in EVALUATORS:
            return None
        if not self.kept.isdisjoint(value.name for value in node.outputs):
            return None
        try:
            arrays = evaluate(node, kinds, min(self.most_bytes, self.left_bytes))
        except UnfoldableError as error:
            self.say(node, f"operands are constant, but the node stays: {error}")
            return None
        except InvalidModel as error:
            if not self.depth:
                raise
            self.say(node, f"it can't be computed, in a graph that may never run: {error}")
            return None
        self.left_bytes -= sum(array.nbytes for array in arrays)
        return arrays


def _empty(kinds: Sequence[TensorType | None]) -> list[np.ndarray] | None:
    """Results without elements, whatever computes them; None where one has some."""
    found = []
    for kind in kinds:
        if kind is None or not kind.is_static or 0 not in kind.dims or min(kind.dims) < 0:
            return None
        found.append(np.zeros(kind.dims, kind.dtype))
    return found or None


def _given_bytes(graph: Graph) -> list[int]:
    """The sizes of the constants that the file brings."""
    found: dict[int, int] = {}
    for inner in nested(graph):
        for node in inner.nodes:
            arrays = [v.const for v in node.operands() if v.const is not None]
            arrays += [v for v in node.attrs.values() if isinstance(v, np.ndarray)]
            found |= {id(array): array.nbytes for array in arrays}
    return list(found.values())


def _replace_by_constants(graph: Graph, node: Node, arrays: Sequence[np.ndarray]) -> list[Value]:
    constants, values = [], []
    for value, array in zip(node.outputs, arrays, strict=True):
        made = edit.constant(graph, array, value.name)
        made.quant = _scheme(node)
        if value.name in graph.varying:
            graph.varying.add(made.name)
        constants.append(made)
        values.append(stand_in(graph, node, value, made))
    edit.replace(node, values)
    return constants


def _scheme(node: Node) -> Quant | None:
    """The scale and zero point with which a constant was stored, if not in blocks.

    They stay with it through what only renames dimensions.
    """
    if is_onnx(node, "DequantizeLinear"):
        return None if argument(node, "block_size") else _stored_scheme(node)
    operand = node.inputs[0] if is_onnx(node, "Identity", "Transpose", *RESHAPES) else None
    if operand is None or operand.quant is None or operand.quant.axis is None:
        return None if operand is None else operand.quant
    if is_onnx(node, "Identity"):
        return operand.quant
    axis = renamed_axis(node, operand.quant.axis)
    return None if axis is None else replace(operand.quant, axis=axis)


def _stored_scheme(node: Node) -> Quant | None:
    stored, scale, zero = (*(v.const if v else None for v in node.inputs), None)[:3]
    if stored is None or scale is None:
        return None
    zero_point = np.zeros(scale.shape, stored.dtype) if zero is None else zero
    axis = int(argument(node, "axis", 1)) % max(stored.ndim, 1)
    return Quant(scale=scale, zero_point=zero_point, axis=axis if scale.size > 1 else None)


def _dimensions(node: Node) -> np.ndarray | None:
    """What Shape, Size, or a Gather of a Shape give where the sizes they ask for are known."""
    operand = node.inputs[0] if node.inputs else None
    if operand is None or operand.type is None:
        return None
    if is_onnx(node, "Size") and operand.type.is_static:
        return np.array(operand.type.size, np.int64)
    if is_onnx(node, "Shape"):
        return _sizes(operand.type.shape[slice(argument(node, "start", 0), argument(node, "end"))])
    maker = operand.producer
    if not is_onnx(node, "Gather") or maker is None or not is_onnx(maker, "Shape"):
        return None
    return _gathered(node, maker)


def _gathered(node: Node, maker: Node) -> np.ndarray | None:
    """What a Gather takes of a Shape that is not known as a whole."""
    index, operand = node.inputs[1], maker.inputs[0]
    if index is None or index.const is None or operand is None or operand.type is None:
        return None
    asked = operand.type.shape[slice(argument(maker, "start", 0), argument(maker, "end"))]
    places = integers(index.const) or ()
    if not all(-len(asked) <= place < len(asked) for place in places):
        return None
    found = _sizes(tuple(asked[place] for place in places))
    return None if found is None else found.reshape(index.const.shape)


def _sizes(shape: tuple[int | str, ...]) -> np.ndarray | None:
    known = all(isinstance(size, int) for size in shape)
    return np.array(shape, np.int64) if known else None
