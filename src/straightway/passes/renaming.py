"""Nodes that only rename dimensions: where an axis goes, and what stands behind them."""

import math

from straightway.ir import Node, Value
from straightway.passes.arguments import argument, is_onnx

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def permutation(node: Node) -> tuple[int, ...] | None:
    """What a Transpose does, its default filled in; None where the rank is unknown."""
    value = node.inputs[0]
    if value is None or value.type is None:
        return None
    given = argument(node, "perm")
    return tuple(given) if given is not None else tuple(range(value.rank))[::-1]


def renamed_axis(node: Node, axis: int) -> int | None:
    """Where an axis of the operand stands in the result, or None where it does not stay whole."""
    if is_onnx(node, "Transpose"):
        perm = permutation(node)
        return None if perm is None else perm.index(axis)
    value, kind = node.inputs[0], node.outputs[0].type
    if value is None or kind is None or value.type is None:
        return None
    if not value.type.is_static or not kind.is_static:
        return None
    before = math.prod(value.shape[:axis])
    for place, size in enumerate(kind.dims):
        if size == value.shape[axis] and math.prod(kind.dims[:place]) == before:
            return place
    return None


def behind(value: Value) -> tuple[Value, list[Node]]:
    """The value that is only renamed to make this one, and the nodes that do so, the last first.

    Each result on the way is used once.
    """
    path: list[Node] = []
    while value.producer is not None and is_onnx(value.producer, "Transpose", *RESHAPES):
        operand = value.producer.inputs[0]
        if operand is None or len(value.uses) != 1:
            break
        path.append(value.producer)
        value = operand
    return value, path
