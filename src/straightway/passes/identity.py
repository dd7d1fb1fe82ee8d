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

from straightway.ir import Graph, Node, Value, edit
from straightway.passes.arguments import (
    RuntimeOperandError,
    argument,
    integers,
    is_onnx,
    onnx_op,
)
from straightway.passes.outputs import only_names_output, replace
from straightway.passes.types import nested, same_type
from straightway.remark import Remark

STEP = "passes.identity"
# The bits of a floating type that count: integers of no more bits convert exactly.
MANTISSA_BITS = {np.dtype(np.float16): 11, np.dtype(np.float32): 24, np.dtype(np.float64): 53}


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
        if node.op.dialect != "onnx" or only_names_output(graph, node):
            continue
        joined = _joined(graph, node)
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
    """A slice that keeps every size, and no order reversed, is whole."""
    steps = integers(argument(node, "steps"))
    forward = steps is None or all(step > 0 for step in steps)
    return _first_of_same_type(node) if forward else None


def _transpose(node: Node) -> Value | None:
    perm = _perm(node)
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


def _is(value: Value, number: float) -> bool:
    array = value.const
    if array is None or array.dtype.kind not in "iuf" or array.size == 0:
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
    "Max": _only,
    "Mean": _only,
    "Min": _only,
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
RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def _joined(graph: Graph, node: Node) -> Node | None:
    """Let one node do what this node and the one before it do."""
    value = node.inputs[0] if node.inputs else None
    before = value.producer if value is not None else None
    if before is None or value is None or before.op.dialect != "onnx" or not before.inputs:
        return None
    made = None
    if is_onnx(node, "Transpose") and is_onnx(before, "Transpose"):
        made = _joined_transpose(node, before)
    elif is_onnx(node, *RESHAPES) and is_onnx(before, *RESHAPES):
        made = _joined_reshape(graph, node, before)
    elif is_onnx(node, "Cast") and is_onnx(before, "Cast"):
        made = _joined_cast(node, before)
    if made is None:
        return None
    edit.insert(graph, made, node)
    alone = len(value.uses) == 1
    edit.replace(node, [made.output], before.origins if alone else frozenset())
    if alone:
        edit.remove(before)
    return made


def _result(node: Node) -> Value:
    """A value like the node's result; the graph gives it the name when it takes the place."""
    graph = node.graph
    name = node.output.name if graph is None else graph.fresh(node.output.name)
    return Value(name, node.output.type)


def _perm(node: Node) -> tuple[int, ...] | None:
    value = node.inputs[0]
    if value is None or value.type is None:
        return None
    given = argument(node, "perm")
    return tuple(given) if given is not None else tuple(range(value.rank))[::-1]


def _joined_transpose(node: Node, before: Node) -> Node | None:
    first, second = _perm(before), _perm(node)
    if first is None or second is None:
        return None
    attrs = {"perm": tuple(first[axis] for axis in second)}
    return Node(node.op, before.inputs[:1], [_result(node)], attrs, name=node.name)


def _joined_reshape(graph: Graph, node: Node, before: Node) -> Node | None:
    kind = node.output.type
    if kind is None or not kind.is_static or 0 in kind.shape:
        return None
    shape = edit.constant(graph, np.array(kind.dims, np.int64), f"{node.output.name}_shape")
    return Node(onnx_op("Reshape", 13), [before.inputs[0], shape], [_result(node)], name=node.name)


def _joined_cast(node: Node, before: Node) -> Node | None:
    """Skip a conversion that loses nothing."""
    given, between = before.inputs[0], before.output
    if given is None or given.type is None or between.type is None:
        return None
    if not _is_exact(given.dtype, between.dtype):
        return None
    return Node(node.op, [given], [_result(node)], node.attrs, name=node.name)


def _is_exact(source: np.dtype, target: np.dtype) -> bool:
    """Whether every value of one type is one of the other."""
    if source.kind == "b":
        return target.kind in "iuf" and target.isbuiltin == 1
    if source.kind in "iu" and target in MANTISSA_BITS:
        return np.iinfo(source).bits - (source.kind == "i") <= MANTISSA_BITS[target]
    builtin = source.isbuiltin == 1 and target.isbuiltin == 1
    return builtin and source.kind in "iuf" and np.can_cast(source, target, "safe")
