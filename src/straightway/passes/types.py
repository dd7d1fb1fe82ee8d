"""The types of a node's results, from ONNX's own shape functions and from what the file declares."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Graph, Node, TensorType, Value
from straightway.onnx_io.schema import element_dtype, infer_types, schema
from straightway.passes.arguments import argument, is_onnx


def subgraphs(node: Node) -> list[Graph]:
    """The graphs inside a node: branches and bodies."""
    return node.graphs()


def nested(graph: Graph) -> list[Graph]:
    """A graph and all graphs inside it, the outer ones first."""
    found = [graph]
    for node in graph.nodes:
        for inner in subgraphs(node):
            found += nested(inner)
    return found


Kinds = Sequence[TensorType | None]
Otherwise = Callable[[Node], Kinds]


def unknown(node: Node) -> Kinds:
    """Say nothing of any result."""
    return [None] * len(node.outputs)


def infer(
    node: Node, opsets: Mapping[str, int], otherwise: Otherwise = unknown
) -> list[TensorType | None]:
    """Infer the types of a node without subgraphs; None where they can't be known.

    `otherwise` is asked where neither ONNX's shape functions nor the file say it. Raises InvalidModel, with ONNX's
    message, where the operands contradict the operator.
    """
    _check_counts(node)
    if any(value.type is None for value in node.operands()):
        return [merged(value.type, None) for value in node.outputs]
    try:
        inferred = infer_types(node, dict(opsets))
    except ValueError as error:
        raise InvalidModel(f"node '{node.name}' ({node.op}): {error}") from error
    if inferred[0] is None:
        inferred = [_of_one(node), *inferred[1:]] if len(inferred) == 1 else inferred
        known = inferred[0] is not None or all(_is_static(value) for value in node.outputs)
        inferred = inferred if known else list(otherwise(node))
    return [merged(v.type, kind) for v, kind in zip(node.outputs, inferred, strict=True)]


def _is_static(value: Value) -> bool:
    return value.type is not None and value.type.is_static


def _check_counts(node: Node) -> None:
    """Refuse too few operands, and what ends the process inside ONNX's shape functions."""
    official = schema(node.op)
    where = f"node '{node.name}' ({node.op})"
    if official is not None and official.removed:
        raise InvalidModel(
            f"{where}: ONNX has none since opset {official.since}; export with an older opset"
        )
    if official is not None and len(node.inputs) < official.least_inputs:
        raise InvalidModel(
            f"{where}: takes at least {official.least_inputs} operands; it has {len(node.inputs)}"
        )
    if official is not None and "broadcast" in official.defaults and not is_onnx(node, "Gemm"):
        _check_alignment(node)
    if is_onnx(node, "Squeeze") and _names_no_axis(node):
        raise InvalidModel(
            f"{where}: its list of axes is empty: by ONNX's shape function it squeezes none, by ONNX "
            "Runtime all; leave the list out, or name the axes"
        )
    if is_onnx(node, "Transpose") and not _is_permutation(node):
        raise InvalidModel(
            f"{where}: perm names each of {node.operands()[0].rank} dimensions once; got "
            f"{list(node.attrs['perm'])}"
        )
    parts = node.attrs.get("num_outputs") if is_onnx(node, "Split") else None
    if parts is not None and parts != len(node.outputs):
        raise InvalidModel(f"{where}: num_outputs is {parts}; it has {len(node.outputs)}")


def _is_permutation(node: Node) -> bool:
    """Whether perm fits the operand, as far as its rank is known: ONNX's shape function counts short."""
    perm, operand = node.attrs.get("perm"), node.operands()[0]
    if not perm or operand.type is None:
        return True
    return sorted(perm) == list(range(operand.rank))


def _names_no_axis(node: Node) -> bool:
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is not None:
        return given.type is not None and given.type.shape == (0,)
    return node.attrs.get("axes") == ()


def _check_alignment(node: Node) -> None:
    """Refuse operands that don't fit together as opsets before 7 describe it by `axis`.

    Gemm's `broadcast` is about its bias.
    """
    a, b = (value.type if value is not None else None for value in node.inputs[:2])
    if a is None or b is None or not (a.is_static and b.is_static):
        return
    axis = node.attrs.get("axis")
    if not node.attrs.get("broadcast") or axis is None:
        shape = b.dims
    elif -a.rank <= axis < a.rank and axis % a.rank + b.rank <= a.rank:
        shape = (*b.dims, *[1] * (a.rank - axis % a.rank - b.rank))
    else:
        raise InvalidModel(
            f"node '{node.name}' ({node.op}): {b} has no place at axis {axis} of {a}"
        )
    try:
        np.broadcast_shapes(a.dims, shape)
    except ValueError as error:
        raise InvalidModel(f"node '{node.name}' ({node.op}): {a} and {b} do not fit") from error


def merged(declared: TensorType | None, inferred: TensorType | None) -> TensorType | None:
    """What is inferred holds; where it leaves a size open, the file may know it."""
    if inferred is None or declared is None or inferred.is_static:
        return inferred if inferred is not None else declared
    if declared.dtype != inferred.dtype or declared.rank != inferred.rank:
        return inferred
    pairs = zip(declared.shape, inferred.shape, strict=True)
    shape = tuple(i if isinstance(i, int) or not isinstance(d, int) else d for d, i in pairs)
    return TensorType(dtype=inferred.dtype, shape=shape)


# Operators without a shape function of their own, because ONNX defines them by others.
LIKE_FIRST = frozenset({"GroupNormalization", "MeanVarianceNormalization", "Imputer"})
FLOATS_LIKE_FIRST = frozenset({"Scaler", "Normalizer"})
WAVES = frozenset({"BlackmanWindow", "HammingWindow", "HannWindow"})
COMPARISONS = frozenset({"GreaterOrEqual", "LessOrEqual"})


def _of_one(node: Node) -> TensorType | None:
    """What can be said where ONNX's shape functions say nothing."""
    first = node.inputs[0].type if node.inputs and node.inputs[0] is not None else None
    if first is None or node.op.dialect not in ("onnx", "ai.onnx.ml"):
        return None
    if node.op.name in LIKE_FIRST:
        return first
    if node.op.name in WAVES:  # of so many elements as the operand says
        return TensorType(
            dtype=element_dtype(int(argument(node, "output_datatype", 1))), shape=("",)
        )
    if node.op.name == "ArrayFeatureExtractor":  # its shape function leaves out a vector
        return _features(node, first)
    if node.op.name in FLOATS_LIKE_FIRST:
        return TensorType(dtype=np.dtype(np.float32), shape=first.shape)
    return _broadcast(node) if node.op.name in COMPARISONS else None


def _features(node: Node, x: TensorType) -> TensorType | None:
    """A row of as many features as are named, of a vector."""
    places = node.inputs[1].type if node.inputs[1] is not None else None
    if x.rank != 1 or places is None or not places.is_static:
        return None
    return TensorType(dtype=x.dtype, shape=(1, places.size))


def _broadcast(node: Node) -> TensorType | None:
    """Truth values of the shape to which the operands broadcast."""
    kinds = [value.type for value in node.operands()]
    shapes = [kind.dims for kind in kinds if kind is not None and kind.is_static]
    if len(shapes) < len(kinds):
        return None
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise InvalidModel(f"node '{node.name}' ({node.op}): {error}") from error
    return TensorType(dtype=np.dtype(np.bool_), shape=shape)


def same_type(first: Value | None, second: Value | None) -> bool:
    """Whether both are known, static and equal."""
    if first is None or second is None or first.type is None or not first.type.is_static:
        return False
    return first.type == second.type
