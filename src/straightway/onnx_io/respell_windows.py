"""A model whose window functions are computed in float64.

onnxruntime's coefficients are float32 (core/providers/cpu/signal/window_functions.cc: BlackmanWindow), so
that a window begins with 1.5e-8 instead of 0. A window of one or two places holds nothing else.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from straightway.onnx_io.respell import each_node

# onnx/defs/math/defs.cc: the bodies of HannWindow-17, HammingWindow-17 and BlackmanWindow-17
COSINES = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}
FLOAT, DOUBLE, INT64 = (onnx.TensorProto.DataType.Value(n) for n in ("FLOAT", "DOUBLE", "INT64"))


def windows(model: onnx.ModelProto) -> bool:
    """Spell out each window function of floats."""
    return each_node(model, _spelled)


def _spelled(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    numbers = {a.name: a.i for a in node.attribute}
    kind = numbers.get("output_datatype", FLOAT)
    if node.op_type not in COSINES or node.domain not in ("", "ai.onnx") or kind != FLOAT:
        yield node
        return
    (size,), (y,) = node.input, node.output

    def made(name: str, op: str, *inputs: str, **attrs: Any) -> onnx.NodeProto:
        return onnx.helper.make_node(op, [f"{y}/{i}" for i in inputs], [f"{y}/{name}"], **attrs)

    def constant(name: str, value: Any, dtype: type = np.float64) -> onnx.NodeProto:
        tensor = onnx.numpy_helper.from_array(np.array(value, dtype), name)
        return made(name, "Constant", value=tensor)

    yield constant("scalar", [], np.int64)
    yield constant("first", 0, np.int64)
    yield constant("step", 1, np.int64)
    yield onnx.helper.make_node("Reshape", [size, f"{y}/scalar"], [f"{y}/flat"])
    yield made("size", "Cast", "flat", to=INT64)
    yield made("range", "Range", "first", "size", "step")
    yield made("places", "Cast", "range", to=DOUBLE)
    yield constant("less", 0.0 if numbers.get("periodic", 1) else 1.0)
    yield made("count", "Cast", "size", to=DOUBLE)
    yield made("steps", "Sub", "count", "less")
    level, *weights = COSINES[node.op_type]
    yield constant("sum0", level)
    for k, weight in enumerate(weights, 1):
        yield constant(f"turn{k}", 2 * np.pi * k)
        yield constant(f"weight{k}", weight)
        yield made(f"part{k}", "Div", f"turn{k}", "steps")
        yield made(f"angle{k}", "Mul", "places", f"part{k}")
        yield made(f"cos{k}", "Cos", f"angle{k}")
        yield made(f"wave{k}", "Mul", f"cos{k}", f"weight{k}")
        yield made(f"sum{k}", "Add", f"sum{k - 1}", f"wave{k}")
    yield onnx.helper.make_node("Cast", [f"{y}/sum{len(weights)}"], [y], to=FLOAT)
