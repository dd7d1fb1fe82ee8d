"""ONNX models that round on both sides of one operator, as quantizers write them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

X_SCALE, Y_SCALE = 0.021, 0.034
RNG = np.random.default_rng(7)


@dataclass
class Rounded:
    """Builds a model: `real` gives floats of integers, `rounded` rounds floats."""

    dtype: Any = np.int8
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)

    def constant(self, array: Any, dtype: Any = None) -> str:
        """An initializer."""
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def node(self, op: str, inputs: Sequence[str], count: int = 1, **attrs: Any) -> str:
        """A node, its (first) result."""
        names = [f"v{len(self.nodes)}_{k}" for k in range(count)]
        domain = "com.microsoft" if op.startswith(("QLinear", "QGemm")) and op not in NATIVE else ""
        self.nodes.append(
            helper.make_node(op, inputs, names, name=f"n{len(self.nodes)}", domain=domain, **attrs)
        )
        return names[0] if count == 1 else names  # type: ignore[return-value]

    def scheme(self, scale: Any, zero_point: int) -> tuple[str, str]:
        """A scale and a zero point of the activations' type, given for int8."""
        shift = 128 if self.dtype == np.uint8 else 0
        return (
            self.constant(scale, np.float32),
            self.constant(np.asarray(zero_point) + shift, self.dtype),
        )

    def input(self, shape: Sequence[int], name: str = "x", scale: float = X_SCALE) -> str:
        """An input, rounded."""
        kind = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        self.inputs.append(kind)
        return self.rounded(name, scale, -3)

    def rounded(self, x: str, scale: float = Y_SCALE, zero_point: int = 5) -> str:
        """Floats, rounded."""
        pair = self.scheme(scale, zero_point)
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *pair]), *pair])

    def weights(self, shape: Sequence[int], axis: int | None = 0, spread: float = 0.5) -> str:
        """Constant weights with a scale per channel."""
        array = RNG.integers(-127, 128, shape).astype(np.int8)
        count = 1 if axis is None else shape[axis]
        scale = (spread * (0.5 + RNG.random(count)) / 127).astype(np.float32)
        zero = np.zeros(count, np.int8)
        given = [self.constant(array), self.constant(scale if axis is not None else scale[0])]
        given.append(self.constant(zero if axis is not None else zero[0]))
        return self.node("DequantizeLinear", given, **({} if axis is None else {"axis": axis}))

    def stored(self, shape: Sequence[int], scale: float = 0.017) -> str:
        """A constant operand with one scale."""
        array = RNG.integers(-127, 128, shape).astype(np.int8)
        given = [self.constant(array), self.constant(scale, np.float32)]
        return self.node("DequantizeLinear", [*given, self.constant(0, np.int8)])

    def output(self, *names: str) -> onnx.ModelProto:
        """The model that returns these."""
        self.outputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names]
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


NATIVE = ("QLinearConv", "QLinearMatMul")
