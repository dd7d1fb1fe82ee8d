"""Nodes that change nothing go; pairs of nodes that only move or convert become one.

    before                                      after
      %a = Transpose(%x) {perm=(0, 2, 3, 1)}      %y = Relu(%x)
      %b = Mul(%a, const 1.0)
      %c = Transpose(%b) {perm=(0, 3, 1, 2)}
      %y = Relu(%c)

Every bit of every number stays: x + 0.0 is kept, because it turns -0.0 into 0.0; x - 0.0 goes.
"""

from collections import Counter
from collections.abc import Callable

import numpy as np

from straightway.ir import Graph, Node, Value
from straightway.passes.arguments import (
    RuntimeOperandError,
    argument,
    integers,
)
from straightway.passes.outputs import replace
from straightway.passes.pairs import join
from straightway.passes.renaming import permutation
from straightway.passes.types import nested, same_type
from straightway.remark import Remark

STEP = "passes.identity"
# exporters write the largest int32 or int64 for "to the end", or nearly
FARTHEST = 2**31 - 2**16


def run(graph: Graph) -> list[Remark]:
    """Simplify in order; each node sees operands that are simplified already."""
    gone: Counter[str] = Counter()
    for inner in nested(graph):
        gone += _sweep(inner)
    if not gone:
        return []
    names = ", ".join(f"{count} {name}" for name, count in gone.most_common())
    text = f"removed or joined {gone.total()} nodes that compute nothing: {names}"
    return [Remark(kind="done", step=STEP, text=text, numbers={"nodes": gone.total()})]


def _sweep(graph: Graph) -> Counter[str]:
    gone: Counter[str] = Counter()
    for node in graph.nodes:
        if node.op.dialect != "onnx":
            continue
        joined = join(graph, node)
        left = joined or node
        value = _unchanged(left)
        removed = value is not None and replace(graph, left, value)
        gone[node.op.name] += removed or joined is not None
    return +gone


def _unchanged(node: Node) -> Value | None:
    """The operand that the node's first result equals, if there is one."""
    rule = RULES.get(node.op.name)
    if rule is None or not node.inputs or any(value.uses for value in node.outputs[1:]):
        return None
    try:
        return rule(node)
    except RuntimeOperandError:
        return None


def _first(node: Node) -> Value | None:
    return node.inputs[0]


def _first_of_same_type(node: Node) -> Value | None:
    """For nodes that keep the order of elements."""
    return node.inputs[0] if same_type(node.inputs[0], node.outputs[0]) else None


def _cast(node: Node) -> Value | None:
    value, result = node.inputs[0], node.outputs[0]
    if value is None or value.type is None or result.type is None:
        return None
    return value if value.dtype == result.dtype else None


def _dropout(node: Node) -> Value | None:
    """Dropout at inference; before opset 7 `is_test` said so, since 12 an operand does."""
    if node.op.version < 7:
        return node.inputs[0] if argument(node, "is_test") else None
    training = argument(node, "training_mode")
    idle = training is None or not np.any(training)
    return node.inputs[0] if idle else None


def _slice(node: Node) -> Value | None:
    """A slice that keeps every size, and no order reversed, is whole, unless it would cut a longer one."""
    steps = integers(argument(node, "steps"))
    forward = steps is None or all(step > 0 for step in steps)
    cuts = node.graph is not None and node.graph.resizable and _cuts(node)
    return _first_of_same_type(node) if forward and not cuts else None


def _cuts(node: Node) -> bool:
    """Whether a slice that is whole ends behind what it is of, but not at the end of all numbers."""
    x, ends, axes = (
        node.inputs[0],
        integers(argument(node, "ends")),
        integers(argument(node, "axes")),
    )
    if x is None or x.type is None or not x.type.is_static or ends is None:
        return False
    sizes = [x.shape[axis] for axis in axes or range(len(ends))]
    return any(size < end < FARTHEST for size, end in zip(sizes, ends, strict=False))


def _transpose(node: Node) -> Value | None:
    perm = permutation(node)
    return node.inputs[0] if perm is not None and perm == tuple(range(len(perm))) else None


def _pad(node: Node) -> Value | None:
    pads = integers(argument(node, "pads"))
    return node.inputs[0] if pads is not None and not any(pads) else None


def _only(node: Node) -> Value | None:
    return node.inputs[0] if len(node.inputs) == 1 else None


def _neutral(number: float, *, either: bool) -> Callable[[Node], Value | None]:
    """One operand where the other is the number, bit for bit, and widens no shape."""

    def rule(node: Node) -> Value | None:
        orders = [(0, 1), (1, 0)] if either else [(0, 1)]
        for kept, constant in orders:
            value, other = node.inputs[kept], node.inputs[constant]
            if same_type(value, node.outputs[0]) and other is not None and _is(other, number):
                return value
        return None

    return rule


def _only_or_neutral(number: float) -> Callable[[Node], Value | None]:
    """The only operand, or the other where one is the number: an infinity bounds nothing."""
    neutral = _neutral(number, either=True)
    return lambda node: _only(node) or (neutral(node) if len(node.inputs) == 2 else None)


def _is(value: Value, number: float) -> bool:
    array = value.const
    if array is None or array.dtype.kind not in "iuf" or array.size == 0:
        return False
    if array.dtype.kind != "f" and not float(number).is_integer():
        return False
    target = np.array(number, array.dtype)
    if array.reshape(-1)[0] != target or not np.all(array == target):
        return False
    return array.dtype.kind != "f" or bool(np.all(np.signbit(array) == np.signbit(target)))


RULES: dict[str, Callable[[Node], Value | None]] = {
    "Add": _neutral(-0.0, either=True),
    "Cast": _cast,
    "CastLike": _cast,
    "Concat": _only,
    "Div": _neutral(1.0, either=False),
    "Dropout": _dropout,
    "Expand": _first_of_same_type,
    "Flatten": _first_of_same_type,
    "Identity": _first,
    "Max": _only_or_neutral(-np.inf),
    "Mean": _only,
    "Min": _only_or_neutral(np.inf),
    "Mul": _neutral(1.0, either=True),
    "Pad": _pad,
    "Pow": _neutral(1.0, either=False),
    "Reshape": _first_of_same_type,
    "Slice": _slice,
    "Squeeze": _first_of_same_type,
    "Sub": _neutral(0.0, either=False),
    "Sum": _only,
    "Tile": _first_of_same_type,
    "Transpose": _transpose,
    "Unsqueeze": _first_of_same_type,
}
