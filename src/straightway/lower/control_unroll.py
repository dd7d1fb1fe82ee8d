"""Loops of few, known turns are written out.

    before                                          after
      %s = Scan(%s0, %x) {body: a, b → a + b}         %s1 = Add(%s0, %x[0])
                                                      %s = Add(%s1, %x[1])

What stays is what a WHILE must do: turns that are counted when the model runs, or very many of them.
"""

from collections.abc import Sequence

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.lower.control_scan import read
from straightway.lower.recurrent_sequence import MOST_COPIES_BYTES
from straightway.passes.arguments import is_onnx, onnx_op
from straightway.passes.control import BATCHED_UNTIL, copy_nodes, release
from straightway.passes.outputs import put, stand_in
from straightway.passes.trips import trip_count
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "lower.control_unroll"
# Each op that is written out takes about 200 bytes of the file.
MOST_NODES = 4096
OPSET = 13
Rows = list[list[Value]]


def run(graph: Graph) -> list[Remark]:
    """Write out each Loop and Scan that can be."""
    found = []
    for node in list(graph.nodes):
        count = None if _is_open(graph, node) else _turns(node)
        if count is None:
            continue
        values = _Unrolling(graph, node).values(count)
        kept = [stand_in(graph, node, v, new) for v, new in zip(node.outputs, values, strict=True)]
        put(graph, node, kept)
        release(node)
        found.append(
            Remark(
                kind="done",
                step=STEP,
                node=node.name,
                op=str(node.op),
                text=f"{count} turns are written out",
                numbers={"turns": count},
            )
        )
    return found


def _is_open(graph: Graph, node: Node) -> bool:
    """Whether the number of turns depends on an open dimension."""
    values = (*node.inputs[:1], *node.outputs)
    return any(value is not None and value.name in graph.varying for value in values)


def _turns(node: Node) -> int | None:
    """The number of turns, where they can be written out."""
    if not is_onnx(node, "Loop", "Scan"):
        return None
    body: Graph = node.attrs["body"]
    graphs = nested(body)
    size = sum(1 for graph in graphs for _ in graph.nodes)
    held = {id(v.const): v.const.nbytes for g in graphs for v in g.values() if v.const is not None}
    most = min(MOST_NODES // max(size, 1), MOST_COPIES_BYTES // max(sum(held.values()), 1))
    count = trip_count(node, max(most, 1)) if is_onnx(node, "Loop") else _length(node)
    if count is None or count > max(most, 1) or (count == 0 and not _typed(body)):
        return None
    return count


def _typed(body: Graph) -> bool:
    return all(v.type is not None and v.type.is_static for v in body.outputs)


def _length(node: Node) -> int | None:
    """The number of steps of a Scan, None where it is not known."""
    if node.op.version <= BATCHED_UNTIL and node.inputs[0] is not None:
        return None  # each item of the batch has a length of its own
    batch = int(node.op.version <= BATCHED_UNTIL)
    scanning = read(node)
    first = node.inputs[batch + scanning.states]
    if first is None or first.type is None:
        return None
    sizes = [first.type.shape[scanning.axes[0] + batch], *first.type.shape[:batch]]
    return sizes[0] if all(isinstance(size, int) for size in sizes) else None  # type: ignore[return-value]


class _Unrolling:
    """Writes the turns of one node before it."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph = graph
        self.node = node
        self.body: Graph = node.attrs["body"]

    def values(self, count: int) -> list[Value]:
        """What stands for the node's results."""
        if is_onnx(self.node, "Loop"):
            return self.loop(count)
        if self.node.op.version <= BATCHED_UNTIL:
            return self.batched_scan(count)
        return self.scan(self.node.operands(), count)

    def loop(self, count: int) -> list[Value]:
        """The number of the turn and the condition, which holds, come first among what a body takes."""
        carried = [v for v in self.node.inputs[2:] if v is not None]
        size = len(carried)
        rows: Rows = []
        for turn in range(count):
            counter = self.constant(turn, self.body.inputs[0])
            condition = self.constant(True, self.body.inputs[1])
            _, *results = self.turn([counter, condition, *carried])
            carried = results[:size]
            rows.append(results[size:])
        elements = self.body.outputs[1 + size :]
        return [*carried, *(self.stacked(rows, k, v, 0) for k, v in enumerate(elements))]

    def scan(self, given: Sequence[Value], count: int) -> list[Value]:
        """States, then what is scanned, an element a turn."""
        scanning = read(self.node)
        carried, scanned = list(given[: scanning.states]), given[scanning.states :]
        rows: Rows = []
        for turn in range(count):
            elements = [
                self.element(x, count - 1 - turn if back else turn, axis)
                for x, axis, back in zip(scanned, scanning.axes, scanning.backwards, strict=True)
            ]
            results = self.turn([*carried, *elements])
            carried = results[: scanning.states]
            rows.append(results[scanning.states :])
        stacks = [
            self.stacked(rows[::-1] if back else rows, k, element, axis)
            for k, (element, axis, back) in enumerate(
                zip(
                    self.body.outputs[scanning.states :],
                    scanning.result_axes,
                    scanning.result_backwards,
                    strict=True,
                )
            )
        ]
        return [*carried, *stacks]

    def batched_scan(self, count: int) -> list[Value]:
        """Item by item."""
        given = self.node.operands()
        items = given[0].shape[0]
        rows = [
            self.scan([self.element(x, item, 0) for x in given], count) for item in range(items)
        ]
        return [self.stacked(rows, k, v, 0) for k, v in enumerate(self.body.outputs)]

    def turn(self, given: Sequence[Value]) -> list[Value]:
        """Copy the body."""
        inputs = dict(zip(self.body.inputs, given, strict=True))
        copies = copy_nodes(self.body, self.graph, self.node, inputs)
        return [copies.get(v, v) for v in self.body.outputs]

    def constant(self, value: int | bool, like: Value) -> Value:
        """A number of the shape that the body declares."""
        rank = 0 if like.type is None else like.type.rank
        dtype = np.bool_ if isinstance(value, bool) else np.int64
        return edit.constant(self.graph, np.full((1,) * rank, value, dtype), like.name)

    def element(self, x: Value, place: int, axis: int) -> Value:
        """One position along an axis, which vanishes."""
        index = edit.constant(self.graph, np.array(place, np.int64), f"{x.name}/place")
        return self.op("Gather", [x, index], {"axis": axis})

    def stacked(self, rows: Rows, index: int, element: Value, axis: int) -> Value:
        """Put one result of each turn along a new axis."""
        if not rows:
            kind = element.known_type
            shape = list(kind.dims)
            shape.insert(axis % (kind.rank + 1), 0)
            return edit.constant(self.graph, np.zeros(shape, kind.dtype), element.name)
        axes = edit.constant(self.graph, np.array([axis], np.int64), "axes")
        parts = [self.op("Unsqueeze", [row[index], axes], {}) for row in rows]
        return self.op("Concat", parts, {"axis": axis})

    def op(self, name: str, inputs: Sequence[Value], attrs: dict[str, int]) -> Value:
        """Write one node for the loop itself."""
        return edit.before(self.node, onnx_op(name, OPSET), inputs, attrs)[0]
