"""Sequences whose tensors are known one by one become those tensors.

    before                                    after
      %s = SplitToSequence(%x) {axis=0}         %a, %b = Split(%x)
      %y = SequenceAt(%s, const 1)              %y = %b

What of a sequence depends on the run (a place, a loop that makes it longer) stays.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Graph, Node, Value, edit
from straightway.passes.arguments import argument, is_onnx, onnx_op
from straightway.passes.outputs import replace

Tensors = list[Value]
# the opset since which axes and sizes are operands
SINCE = 13
MOST_TENSORS = 4096


@dataclass(slots=True, kw_only=True)
class Sequences:
    """The tensors of each sequence that was met so far."""

    tensors: dict[Value, Tensors] = field(default_factory=dict)

    def unwound(self, graph: Graph, node: Node) -> bool:
        """Take in a node that makes a sequence, or replace one that reads it; whether it is gone."""
        if is_onnx(node, *MAKERS):
            made = MAKERS[node.op.name](self, graph, node)
            if made is not None:
                self.tensors[node.output] = made
            return False
        if is_onnx(node, "SplitToSequence"):
            split = _as_split(graph, node)
            return split is not None and replace(graph, node, split)
        known = self.of(node.inputs[0]) if is_onnx(node, *READERS) and node.inputs else None
        found = None if known is None else READERS[node.op.name](graph, node, known)
        return found is not None and replace(graph, node, found)

    def of(self, value: Value | None) -> Tensors | None:
        """The tensors of a sequence, if they are known."""
        return None if value is None else self.tensors.get(value)

    def constructed(self, _: Graph, node: Node) -> Tensors | None:
        """All operands."""
        return node.operands()

    def empty(self, _: Graph, __: Node) -> Tensors | None:
        """None at all."""
        return []

    def inserted(self, _: Graph, node: Node) -> Tensors | None:
        """One more, at the end where no place is given."""
        known, new = self.of(node.inputs[0]), node.inputs[1]
        place = _place(node, 2, 0 if known is None else len(known) + 1, last=True)
        if known is None or new is None or place is None:
            return None
        return [*known[:place], new, *known[place:]]

    def erased(self, _: Graph, node: Node) -> Tensors | None:
        """One less, the last where no place is given."""
        known = self.of(node.inputs[0])
        place = None if known is None else _place(node, 1, len(known), last=True)
        if known is None or place is None:
            return None
        return [*known[:place], *known[place + 1 :]]


def _split(graph: Graph, node: Node, sizes: Sequence[int], axis: int) -> Value:
    """A sequence of the results of a Split, without the axis where it is not kept."""
    x = node.operands()[0]
    lengths = edit.constant(graph, np.array(sizes, np.int64))
    parts = edit.before(
        node, onnx_op("Split", SINCE), [x, lengths], {"axis": axis}, count=len(sizes)
    )
    if len(node.inputs) == 1 and not argument(node, "keepdims", 1):
        axes = edit.constant(graph, np.array([axis], np.int64))
        squeeze = onnx_op("Squeeze", SINCE)
        parts = [edit.before(node, squeeze, [part, axes], {})[0] for part in parts]
    return edit.before(node, onnx_op("SequenceConstruct", 11), parts, {})[0]


def _as_split(graph: Graph, node: Node) -> Value | None:
    """Its results are typed, and folded, before they are taken in as a sequence."""
    x = node.inputs[0]
    if x is None or x.type is None or not x.type.is_static or not x.rank:
        return None
    axis = int(argument(node, "axis", 0)) % x.rank
    sizes = _sizes(node, x.shape[axis])
    if not sizes or len(sizes) > MOST_TENSORS:
        return None
    return _split(graph, node, sizes, axis)


def _sizes(node: Node, length: int) -> list[int] | None:
    """How long each part is; None where that is not known."""
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is None:
        return [1] * length
    if given.const is None:
        return None
    sizes = given.const.reshape(-1).tolist()
    if given.const.ndim:
        whole = min(sizes, default=0) >= 0 and sum(sizes) == length
    else:
        whole = sizes[0] > 0
        sizes = [min(sizes[0], length - k) for k in range(0, length, max(sizes[0], 1))]
    if not whole:
        raise InvalidModel(f"node '{node.name}' ({node.op}): {given.const} does not split {length}")
    return [int(size) for size in sizes]


def _place(node: Node, index: int, count: int, *, last: bool = False) -> int | None:
    """A place among so many, an operand; None where it is not known."""
    given = node.inputs[index] if len(node.inputs) > index else None
    if given is not None and given.const is None:
        return None
    place = int(given.const.reshape(-1)[0]) if given is not None and given.const is not None else -1
    behind = count if index == 1 or place >= 0 or given is None else count - 1
    if not -behind <= place < count or (given is None and not last):
        raise InvalidModel(f"node '{node.name}' ({node.op}): no place {place} among {count}")
    return place if place >= 0 else place + behind


def _at(_: Graph, node: Node, known: Tensors) -> Value | None:
    place = _place(node, 1, len(known))
    return None if place is None else known[place]


def _length(graph: Graph, _: Node, known: Tensors) -> Value:
    return edit.constant(graph, np.array(len(known), np.int64))


def _joined(graph: Graph, node: Node, known: Tensors) -> Value | None:
    """All side by side, or on an axis of their own."""
    if not known:
        return None
    axis = int(argument(node, "axis", 0))
    if argument(node, "new_axis", 0):
        axes = edit.constant(graph, np.array([axis], np.int64))
        unsqueeze = onnx_op("Unsqueeze", SINCE)
        known = [edit.before(node, unsqueeze, [one, axes], {})[0] for one in known]
    return edit.before(node, onnx_op("Concat", SINCE), known, {"axis": axis})[0]


MAKERS: dict[str, Callable[[Sequences, Graph, Node], Tensors | None]] = {
    "SequenceConstruct": Sequences.constructed,
    "SequenceEmpty": Sequences.empty,
    "SequenceInsert": Sequences.inserted,
    "SequenceErase": Sequences.erased,
}
READERS: dict[str, Callable[[Graph, Node, Tensors], Value | None]] = {
    "SequenceAt": _at,
    "SequenceLength": _length,
    "ConcatFromSequence": _joined,
}
