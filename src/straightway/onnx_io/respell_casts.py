"""A model whose Casts, and powers, give the nearest number for what the whole numbers' type does not hold.

ONNX leaves it undefined what a float becomes that an integer type does not hold, and NaN: processors
differ. LiteRT takes the nearest; NaN becomes the greatest (tflite/kernels/cast.cc: copyCast, saturating).
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference

from straightway.onnx_io.check import graphs
from straightway.onnx_io.respell import each_node

INT64, FLOAT, DOUBLE = (onnx.TensorProto.DataType.Value(n) for n in ("INT64", "FLOAT", "DOUBLE"))
FLOATS = {onnx.TensorProto.DataType.Value(n) for n in ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE")}
# uint64 is computed by int64 of the same bits, which keeps its lower ones as onnxruntime does
WHOLE = {
    onnx.TensorProto.DataType.Value(np.dtype(dtype).name.upper()): np.iinfo(dtype)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64)
}
# that of Where and IsNaN
OLDEST = 9


def casts(model: onnx.ModelProto) -> bool:
    """Spell out each Cast of a float to a whole number, and each whole number to the power of a float."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if opset < OLDEST:
        return False
    kinds = _kinds(onnx.shape_inference.infer_shapes(model))
    return each_node(model, partial(_spelled, kinds=kinds))


def _kinds(model: onnx.ModelProto) -> dict[str, int]:
    """Element types by name, of all graphs: names are unique in ONNX."""
    found: dict[str, int] = {}
    for graph in graphs(model.graph):
        found |= {t.name: t.data_type for t in graph.initializer}
        for value in (*graph.input, *graph.value_info, *graph.output):
            found[value.name] = value.type.tensor_type.elem_type
    return found


def _spelled(node: onnx.NodeProto, kinds: Mapping[str, int]) -> Iterator[onnx.NodeProto]:
    target = next((a.i for a in node.attribute if a.name == "to"), 0)
    source = kinds.get(node.input[0], 0) if node.input else 0
    if node.op_type == "Cast" and source in FLOATS and target in WHOLE:
        yield from _nearest(node, target, DOUBLE if source == DOUBLE else FLOAT)
    elif node.op_type == "Pow" and source in WHOLE and kinds.get(node.input[1]) in FLOATS:
        yield from _power(node, source)
    elif node.op_type == "Pow" and source in WHOLE and kinds.get(node.input[1]) in WHOLE:
        yield from _without_inverses_of_zero(node, WHOLE[source].dtype)
    else:
        yield node


def _power(node: onnx.NodeProto, kind: int) -> Iterator[onnx.NodeProto]:
    """The power of float64, as onnxruntime computes it, cast to the base's type."""
    (y,) = node.output
    wide = [f"{y}/operand{place}" for place in range(len(node.input))]
    for name, made in zip(node.input, wide, strict=True):
        yield onnx.helper.make_node("Cast", [name], [made], to=DOUBLE)
    yield onnx.helper.make_node("Pow", wide, [f"{y}/real"])
    cast = onnx.helper.make_node("Cast", [f"{y}/real"], [y], to=kind)
    yield from _nearest(cast, kind, DOUBLE)


def _without_inverses_of_zero(node: onnx.NodeProto, dtype: np.dtype) -> Iterator[onnx.NodeProto]:
    """0 to the power of less than 0 is left undefined, too: 0, as the powers of all that is far from it."""
    (x, exponent), (y,) = node.input, node.output

    def made(name: str, op: str, *inputs: str, **attrs: Any) -> onnx.NodeProto:
        return onnx.helper.make_node(op, list(inputs), [f"{y}/{name}"], **attrs)

    for name, value in (("two", dtype.type(2)), ("nothing", 0.0), ("half", 0.5)):
        array = onnx.numpy_helper.from_array(np.array(value), name)
        yield made(name, "Constant", value=array)
    yield made("base", "Cast", x, to=DOUBLE)
    yield made("exponent", "Cast", exponent, to=DOUBLE)
    yield made("size", "Abs", f"{y}/base")
    yield made("is_zero", "Less", f"{y}/size", f"{y}/half")
    yield made("inverts", "Less", f"{y}/exponent", f"{y}/nothing")
    yield made("undefined", "And", f"{y}/is_zero", f"{y}/inverts")
    yield made("safe", "Where", f"{y}/undefined", f"{y}/two", x)
    yield onnx.helper.make_node("Pow", [f"{y}/safe", exponent], [y])


def _nearest(node: onnx.NodeProto, target: int, source: int) -> Iterator[onnx.NodeProto]:
    """Cast what the type holds, and 0 for the rest; to that add the least or the greatest number."""
    (x,), (y,) = node.input, node.output
    limits = WHOLE[target]
    dtype = np.dtype(np.float64 if source == DOUBLE else np.float32)

    def made(name: str, op: str, *inputs: str, **attrs: Any) -> onnx.NodeProto:
        return onnx.helper.make_node(op, list(inputs), [f"{y}/{name}"], **attrs)

    def constant(name: str, value: float, kind: np.dtype) -> onnx.NodeProto:
        return made(
            name, "Constant", value=onnx.numpy_helper.from_array(np.array(value, kind), name)
        )

    whole = np.dtype(np.int64)
    yield made("x", "Cast", x, to=source)
    yield constant("first", float(limits.min), dtype)
    yield constant("past", float(limits.max + 1), dtype)
    yield constant("zero", 0.0, dtype)
    yield constant("least", limits.min, whole)
    yield constant("most", limits.max, whole)
    yield made("low", "Less", f"{y}/x", f"{y}/first")
    yield made("fits", "Less", f"{y}/x", f"{y}/past")  # NaN does not
    yield made("high", "Not", f"{y}/fits")
    yield made("out", "Or", f"{y}/low", f"{y}/high")
    yield made("safe", "Where", f"{y}/out", f"{y}/zero", f"{y}/x")
    yield made("cut", "Cast", f"{y}/safe", to=INT64)
    for name, limit in (("low", "least"), ("high", "most")):
        yield made(f"is_{name}", "Cast", f"{y}/{name}", to=INT64)
        yield made(f"{name}est", "Mul", f"{y}/is_{name}", f"{y}/{limit}")
    yield made("ends", "Add", f"{y}/lowest", f"{y}/highest")
    yield made("all", "Add", f"{y}/cut", f"{y}/ends")
    yield onnx.helper.make_node("Cast", [f"{y}/all"], [y], to=target)
