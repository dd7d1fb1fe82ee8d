"""A slice of a padded tensor is the tensor, padded or cropped otherwise.

    before                                              after
      %p: f32[?,?] = Pad(%x: f32[6,8], %pads)             %y: f32[5,9] = Pad(%x, [%left - %start,
      %s: i64[2] = Shape(%p)                                               5 - 6 - (%left - %start), ...])
      %y: f32[5,9] = Slice(%p, %start, %end)

Only where the amounts come at run time and the size between the two is not known: what CenterCropPad
is spelled out as. The size of the result is.
"""

from collections.abc import Sequence

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.passes.arguments import (
    RuntimeOperandError,
    argument,
    integers,
    is_onnx,
    onnx_op,
    operand,
)
from straightway.passes.outputs import put, stand_in
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.sliced_pads"
OPSET = 13
# since then the amounts are an operand
LEAST_PAD = 11


def run(graph: Graph) -> list[Remark]:
    """Replace what asks for the size between, then the slices."""
    done = []
    for inner in nested(graph):
        for node in [*inner.nodes]:
            try:
                value = _replacement(inner, node)
            except RuntimeOperandError:
                continue
            if value is not None:
                put(inner, node, [stand_in(inner, node, node.outputs[0], value)])
                text = "computed from the amounts of a padding that come at run time"
                done.append(
                    Remark(kind="done", step=STEP, node=node.name, op=node.op.name, text=text)
                )
    return done


def _replacement(graph: Graph, node: Node) -> Value | None:
    """What gives the same as a Shape or a Slice of such a padding; None for other nodes."""
    pad = node.inputs[0].producer if node.inputs and node.inputs[0] is not None else None
    if not is_onnx(node, "Shape", "Slice") or pad is None or not is_onnx(pad, "Pad"):
        return None
    x, amounts = pad.inputs[0], operand(pad, "pads")
    known = pad.output.type is not None and pad.output.type.is_static
    if known or pad.op.version < LEAST_PAD or pad.graph is not graph or x is None:
        return None
    if x.type is None or not x.type.is_static or amounts is None or amounts.type is None:
        return None
    padding = _Padding(graph, node, pad)
    if is_onnx(node, "Shape"):
        if argument(node, "start", 0) or argument(node, "end") is not None:
            return None
        return padding.sizes()
    return padding.slice()


class _Padding:
    """Writes before `node` what replaces it."""

    def __init__(self, graph: Graph, node: Node, pad: Node) -> None:
        self.graph = graph
        self.node = node
        self.pad = pad
        self.x = pad.operands()[0]
        self.dims = self.x.shape

    def amounts(self) -> tuple[Value, Value]:
        """What is put before and behind, int64 of all axes."""
        given = self.pad.operands()[1]
        half = given.known_type.size // 2
        parts = (
            self.op("Slice", [given, self.ints(begin), self.ints(begin + half)])
            for begin in (0, half)
        )
        axes = integers(argument(self.pad, "axes"))
        before, after = (self.of_all(part, axes, half) for part in parts)
        return before, after

    def of_all(self, given: Value, axes: Sequence[int] | None, count: int) -> Value:
        """Numbers of some axes, 0 for the others."""
        rank = len(self.dims)
        named = [axis % rank for axis in (range(count) if axes is None else axes)]
        places = [named.index(axis) if axis in named else count for axis in range(rank)]
        padded = self.op("Concat", [given, self.ints(0)], axis=0)
        return self.op("Gather", [padded, self.ints(*places)], axis=0)

    def sizes(self) -> Value:
        """The shape of the padded tensor."""
        before, after = self.amounts()
        return self.op("Add", [self.op("Add", [before, after]), self.ints(*self.dims)])

    def slice(self) -> Value | None:
        """The tensor with the amounts that lead to the slice's result; None where none do."""
        starts, kind = operand(self.node, "starts"), self.node.output.type
        if starts is None or starts.type is None or kind is None or not kind.is_static:
            return None
        steps = integers(argument(self.node, "steps")) or (1,)
        if set(steps) != {1} or 0 in kind.dims or argument(self.pad, "mode") != "constant":
            return None
        axes = integers(argument(self.node, "axes"))
        start = self.op("Cast", [starts], to=7)
        start = self.of_all(start, axes, starts.known_type.size)
        behind = self.op("Add", [start, self.sizes()])
        start = self.op("Where", [self.op("Less", [start, self.ints(0)]), behind, start])
        start = self.op("Max", [start, self.ints(0)])
        before = self.op("Sub", [self.amounts()[0], start])
        grown = self.ints(*np.subtract(kind.dims, self.dims))
        pads = self.op("Concat", [before, self.op("Sub", [grown, before])], axis=0)
        fill = operand(self.pad, "constant_value")
        result = Value(self.graph.fresh(self.node.output.name), kind)
        made = Node(
            self.pad.op,
            [self.x, pads, *([] if fill is None else [fill])],
            [result],
            {},
            name=self.node.name,
            origins=self.node.origins | self.pad.origins,
        )
        edit.insert(self.graph, made, before=self.node)
        return result

    def ints(self, *numbers: int) -> Value:
        """A constant of one dimension."""
        return edit.constant(self.graph, np.array(numbers, np.int64), "amounts")

    def op(self, name: str, inputs: Sequence[Value], **attrs: int) -> Value:
        """Write one node."""
        return edit.before(self.node, onnx_op(name, OPSET), inputs, attrs)[0]
