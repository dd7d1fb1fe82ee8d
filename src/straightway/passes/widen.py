"""Floating-point types that LiteRT's kernels lack are computed in float32.

    before  x: f16 ─ Conv ─ y: f16        after  x: f16 ─ Cast ─ Conv (f32) ─ Cast ─ y: f16

Inputs and outputs keep their types. A Cast of the model to a narrower type still rounds: it becomes a
pair, there and back. A graph whose only other type is float64, and which only moves and adds up or
multiplies such numbers, stays as it is: there are kernels for that.
"""

import ml_dtypes
import numpy as np

from straightway.errors import NotYet
from straightway.ir import Graph, Node, TensorType, Value, edit
from straightway.ir.elements import converted, parts
from straightway.passes.arguments import onnx_op
from straightway.remark import Remark

STEP = "passes.widen"
FLOAT = np.dtype(np.float32)
NARROW = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))
WIDE = np.dtype(np.float64)
# ONNX's TensorProto.DataType
ELEMENTS = {FLOAT: 1, NARROW[0]: 10, NARROW[1]: 16, WIDE: 11}
CAST_OPSET = 13
# halves of it are zero in float32
SMALLEST = float(np.finfo(np.float32).smallest_subnormal)
BITS = "BitCast"
# operators whose attribute names the element type that they give
TYPED = {"Cast": "to", "ConstantOfShape": "value", "EyeLike": "dtype", "RandomUniformLike": "dtype"}
# what float64 is computed by as it is (tflite/rows: their kernels take it)
IN_FLOAT64 = frozenset({
    "Add", "BitCast", "Cast", "Expand", "Flatten", "Identity", "Mul", "Reshape", "Shape", "Squeeze",
    "Sub", "Tile", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip


def run(graph: Graph) -> list[Remark]:
    """Let everything inside be float32 where it is float16, bfloat16 or float64."""
    found = {v.dtype.name for v in graph.values() if _is_foreign(v)}
    if not found or (found == {"float64"} and _stays(graph)):
        return []
    declared = [None if value.type is None else value.dtype for value in graph.outputs]
    for value in list(graph.inputs):
        if _is_foreign(value):
            _open(graph, value)
    widened: set[Value] = set()
    for node in list(graph.nodes):
        _widen_node(graph, node, widened)
    _close(graph, declared)
    names = " and ".join(sorted(found))
    text = (
        f"{names} is computed in float32: LiteRT has no kernels for it; inputs and outputs keep it"
    )
    if "float64" in found:
        text += "; results have the precision and the range of float32"
    return [Remark(kind="done", step=STEP, text=text)]


def _stays(graph: Graph) -> bool:
    """Whether all float64 is computed by what has kernels for it."""
    return all(
        node.op.name in IN_FLOAT64
        for node in graph.nodes
        if any(_is_foreign(value) for value in (*node.operands(), *node.outputs))
    )


def _is_foreign(value: Value) -> bool:
    return value.type is not None and value.type.dtype in (*NARROW, WIDE)


def _cast(graph: Graph, x: Value, dtype: np.dtype, before: Node | None, like: Node | None) -> Value:
    result = Value(graph.fresh(f"{x.name}/cast"), TensorType(dtype=dtype, shape=x.known_type.shape))
    origins = like.origins if like is not None else frozenset()
    op, name = onnx_op("Cast", CAST_OPSET), like.name if like is not None else x.name
    node = Node(op, [x], [result], {"to": ELEMENTS[dtype]}, name=name, origins=origins)
    edit.insert(graph, node, before)
    return result


def _open(graph: Graph, value: Value) -> None:
    """Convert an input where it comes in."""
    uses = [(node, index) for node, index in value.uses if node.op.name != BITS]
    if not uses:
        return
    wide = _cast(graph, value, FLOAT, graph.first, None)
    for node, index in uses:
        edit.set_input(node, index, wide)


def _keep_bits(graph: Graph, node: Node, widened: set[Value]) -> None:
    """A BitCast reads and gives the bits of the types that the model has."""
    (x,) = node.operands()
    if x in widened:
        raise NotYet(f"node '{node.name}': BitCast of numbers that are computed in float32 instead")
    if _is_foreign(node.output) and any(user is not graph.exit for user, _ in node.output.uses):
        _round(graph, node)


def _widen_node(graph: Graph, node: Node, widened: set[Value]) -> None:
    if node.op.name == BITS:
        _keep_bits(graph, node, widened)
        return
    if node.op.name == "Cast" and node.output.dtype in NARROW and _is_own(node):
        _round(graph, node)
        return
    for inner in node.graphs():
        _widen_inside(inner, widened)
    _widen_constants(graph, node)
    for value in node.outputs:
        if _is_foreign(value) and not _borders(graph, node):
            widened.add(value)
            value.type = TensorType(dtype=FLOAT, shape=value.known_type.shape)
    _retype(node)


def _widen_constants(graph: Graph, node: Node) -> None:
    for index, value in enumerate(node.inputs):
        if value is not None and value.const is not None and _is_foreign(value):
            edit.set_input(node, index, _wide_constant(graph, value))


def _widen_inside(graph: Graph, widened: set[Value]) -> None:
    """What a graph inside a node takes and gives is float32, too."""
    for value in graph.inputs:
        if _is_foreign(value):
            widened.add(value)
            value.type = TensorType(dtype=FLOAT, shape=value.known_type.shape)
    for node in list(graph.nodes):
        _widen_node(graph, node, widened)
    _widen_constants(graph, graph.exit)


def _is_own(node: Node) -> bool:
    """Whether a Cast stands in the model, not made here for an input."""
    (x,) = node.operands()
    return x.producer is not None or not _is_foreign(x)


def _borders(graph: Graph, node: Node) -> bool:
    return node.op.name == "Cast" and node.inputs[0] in graph.inputs and node.output.dtype == FLOAT


def _round(graph: Graph, node: Node) -> None:
    """Keep the rounding of a Cast to a narrower type."""
    narrow = node.output
    following = node.next
    uses = list(narrow.uses)
    wide = _cast(graph, narrow, FLOAT, following, node)
    for user, index in uses:
        edit.set_input(user, index, wide)


def _retype(node: Node) -> None:
    name = TYPED.get(node.op.name, "")
    if name == "value" and isinstance(node.attrs.get(name), np.ndarray):
        array = node.attrs[name]
        if array.dtype in (*NARROW, WIDE):
            node.attrs[name] = array.astype(FLOAT)
    elif name and node.outputs[0].dtype == FLOAT:
        node.attrs[name] = ELEMENTS[FLOAT]


def _wide_constant(graph: Graph, value: Value) -> Value:
    if value.const is None:
        raise ValueError(f"{value} is no constant")
    least = min(np.abs(part[part != 0]).min(initial=1) for part in parts(value.const))
    if least < SMALLEST:
        raise NotYet(f"constant '{value.name}' holds {least}, which float32 has not")
    return edit.constant(graph, converted(value.const, FLOAT), value.name)


def _close(graph: Graph, declared: list[np.dtype | None]) -> None:
    """Convert the outputs back."""
    for index, (value, dtype) in enumerate(zip(list(graph.outputs), declared, strict=True)):
        if dtype is not None and value.dtype != dtype:
            edit.set_input(graph.exit, index, _cast(graph, value, dtype, None, value.producer))
