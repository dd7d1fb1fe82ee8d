"""Pairs of nodes that only move, convert or keep dimensions, and that one node can stand for."""

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.passes.arguments import (
    RuntimeOperandError,
    argument,
    axes_of,
    is_onnx,
    onnx_op,
)
from straightway.passes.evaluate_reduce import REDUCTIONS
from straightway.passes.renaming import RESHAPES, permutation

# The bits of a floating type that count: integers of no more bits convert exactly.
MANTISSA_BITS = {np.dtype(np.float16): 11, np.dtype(np.float32): 24, np.dtype(np.float64): 53}


def join(graph: Graph, node: Node) -> Node | None:
    """Let one node do what this node and the one before it do; returns it, or None."""
    value = node.inputs[0] if node.inputs else None
    before = value.producer if value is not None else None
    if before is None or value is None or before.op.dialect != "onnx" or not before.inputs:
        return None
    try:
        made = _joined(graph, node, before)
    except RuntimeOperandError:
        return None
    if made is None:
        return None
    edit.insert(graph, made, node)
    alone = len(value.uses) == 1
    edit.replace(node, [made.output], before.origins if alone else frozenset())
    if alone:
        edit.remove(before)
    return made


def _joined(graph: Graph, node: Node, before: Node) -> Node | None:
    if is_onnx(node, "Transpose") and is_onnx(before, "Transpose"):
        return _joined_transpose(node, before)
    if is_onnx(node, "Cast") and is_onnx(before, "Cast"):
        return _joined_cast(node, before)
    if is_onnx(node, *RESHAPES) and is_onnx(before, *RESHAPES):
        return _joined_reshape(graph, node, before)
    if is_onnx(node, *RESHAPES) and before.op.name in (*REDUCTIONS, "ArgMax", "ArgMin"):
        return _joined_reduction(node, before)
    return None


def _result(node: Node) -> Value:
    """A value like the node's result; the graph gives it the name when it takes the place."""
    graph = node.graph
    name = node.output.name if graph is None else graph.fresh(node.output.name)
    return Value(name, node.output.type)


def _joined_transpose(node: Node, before: Node) -> Node | None:
    first, second = permutation(before), permutation(node)
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


def _joined_reduction(node: Node, before: Node) -> Node | None:
    """Keep the reduced dimensions, or drop them, at once."""
    value, kind = before.inputs[0], node.output.type
    if value is None or value.type is None or kind is None or len(before.output.uses) != 1:
        return None
    axes = _reduced_axes(before, value.rank)
    sizes = list(enumerate(value.type.shape))
    kept = tuple(1 if axis in axes else size for axis, size in sizes)
    dropped = tuple(size for axis, size in sizes if axis not in axes)
    if kind.shape not in (kept, dropped) or not kind.is_static:
        return None
    attrs = {**before.attrs, "keepdims": int(kind.shape == kept)}
    return Node(before.op, before.inputs, [_result(node)], attrs, name=before.name)


def _reduced_axes(node: Node, rank: int) -> tuple[int, ...]:
    if node.op.name in ("ArgMax", "ArgMin"):
        return (int(argument(node, "axis")) % rank,)
    axes = axes_of(node, rank)
    idle = argument(node, "noop_with_empty_axes")
    return axes or (() if idle else tuple(range(rank)))


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
