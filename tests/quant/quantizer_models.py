"""Float models, and what onnxruntime's quantizers make of them."""

import logging
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

TYPES = {
    "S8": QuantType.QInt8,
    "U8": QuantType.QUInt8,
    "S16": QuantType.QInt16,
    "U16": QuantType.QUInt16,
}


class Model:
    """Builds a float model, with weights that are the same in every run."""

    def __init__(self, opset: int = 17) -> None:
        self.rng = np.random.default_rng(3)
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def weights(self, *shape: int, spread: float = 0.3) -> str:
        """Normally distributed numbers."""
        return self.constant((self.rng.standard_normal(shape) * spread).astype(np.float32))

    def constant(self, array: object) -> str:
        """An initializer."""
        name = f"w{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, *inputs: str, **attrs: object) -> str:
        """A node, its result."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n_{name}", **attrs))
        return name

    def save(self, path: object, shape: Sequence[int], result: str) -> None:
        """Write the model of one input `x` and one output `y`."""
        self.nodes.append(helper.make_node("Identity", [result], ["y"], name="end"))
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            self.constants,
        )
        opsets = [helper.make_opsetid("", self.opset)]
        onnx.save(
            onnx.shape_inference.infer_shapes(
                helper.make_model(graph, opset_imports=opsets, ir_version=8)
            ),
            path,
        )


def images(path: object) -> tuple[int, ...]:
    """Convolutions of every kind, pools, a join, activations, a classifier."""
    m = Model()
    start = m.node("Relu", m.node("Conv", "x", m.weights(8, 3, 3, 3), m.weights(8), pads=[1] * 4))
    deep = m.node("Conv", start, m.weights(8, 1, 3, 3), m.weights(8), pads=[1] * 4, group=8)
    limits = m.constant(np.float32(0)), m.constant(np.float32(6))
    total = m.node("Add", start, m.node("Clip", deep, *limits))
    gate = m.node("Conv", total, m.weights(6, 8, 1, 1))
    swish = m.node("Mul", gate, m.node("Sigmoid", gate))
    leaky = m.node("LeakyRelu", m.node("Conv", total, m.weights(10, 8, 1, 1)), alpha=0.1)
    joined = m.node("Concat", swish, leaky, axis=1)
    small = m.node("MaxPool", joined, kernel_shape=[2, 2], strides=[2, 2])
    large = m.node("ConvTranspose", small, m.weights(16, 5, 2, 2), strides=[2, 2])
    flat = m.node("Flatten", m.node("GlobalAveragePool", m.node("Tanh", large)))
    scores = m.node("Gemm", flat, m.weights(7, 5), m.weights(7), transB=1)
    m.save(path, (1, 3, 10, 12), m.node("Softmax", scores, axis=1))
    return (1, 3, 10, 12)


def vectors(path: object) -> tuple[int, ...]:
    """Matrix products, with and without a bias, and functions between."""
    m = Model(opset=20)
    first = m.node("Add", m.node("MatMul", "x", m.weights(20, 32)), m.weights(32))
    second = m.node("Gemm", m.node("Gelu", first), m.weights(32, 16), m.weights(16))
    m.save(path, (3, 20), m.node("MatMul", m.node("Tanh", second), m.weights(16, 7)))
    return (3, 20)


class _Data(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, shape: Sequence[int]) -> None:
        rng = np.random.default_rng(1)
        self.left = [{"x": rng.standard_normal(shape).astype(np.float32)} for _ in range(4)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next sample."""
        return self.left.pop() if self.left else None


def static(build, folder, form="QDQ", activations="S8", weights="S8", **options):
    """The model as `quantize_static` writes it."""
    logging.getLogger().setLevel(logging.ERROR)
    shape = build(folder / "float.onnx")
    quantize_static(
        folder / "float.onnx",
        folder / "quantized.onnx",
        _Data(shape),
        quant_format=getattr(QuantFormat, form),
        activation_type=TYPES[activations],
        weight_type=TYPES[weights],
        **options,
    )
    return folder / "quantized.onnx"


def dynamic(build, folder, weights="S8", **options):
    """The model as `quantize_dynamic` writes it."""
    logging.getLogger().setLevel(logging.ERROR)
    build(folder / "float.onnx")
    quantize_dynamic(
        folder / "float.onnx", folder / "quantized.onnx", weight_type=TYPES[weights], **options
    )
    return folder / "quantized.onnx"


def sequences(path: object) -> tuple[int, ...]:
    """An LSTM of two directions, and a product of what it gives."""
    m = Model()
    w, r, b = m.weights(2, 32, 6), m.weights(2, 32, 8), m.weights(2, 64)
    both = m.node("LSTM", "x", w, r, b, hidden_size=8, direction="bidirectional")
    order = m.constant(np.array([5, 2, 16]))
    joined = m.node("Reshape", m.node("Transpose", both, perm=[0, 2, 1, 3]), order)
    m.save(path, (5, 2, 6), m.node("MatMul", joined, m.weights(16, 4)))
    return (5, 2, 6)
