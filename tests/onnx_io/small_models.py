"""Small ONNX models built from nodes: sizes all differ, weights are seeded."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
FLOAT = TensorProto.FLOAT
Shape = Sequence[int | str | None] | None


def tensor(name: str, shape: Shape, element: int = FLOAT) -> onnx.ValueInfoProto:
    """Declare an input or an output."""
    return helper.make_tensor_value_info(name, element, shape)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """Make a node; operands and results are given as words, '_' is an absent operand."""
    names = ["" if word == "_" else word for word in inputs.split()]
    return helper.make_node(
        op, names, outputs.split(), name=f"n_{outputs.split(maxsplit=1)[0]}", **attributes
    )


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = OPSET,
) -> onnx.ModelProto:
    """Put a model together; nothing is checked."""
    made = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "small", inputs, outputs, made)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8, producer_name="test"
    )


def save(proto: onnx.ModelProto, path: Path) -> Path:
    """Write the model's bytes; nothing is checked."""
    path.write_bytes(proto.SerializeToString())
    return path


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Seeded numbers around zero."""
    return np.random.default_rng(seed).normal(0, 0.3, shape).astype(np.float32)


def relu_model() -> onnx.ModelProto:
    """The least model."""
    return model([node("Relu", "x", "y")], [tensor("x", [2, 3])], [tensor("y", [2, 3])])


def dense() -> onnx.ModelProto:
    """Two products with a Relu between."""
    return model(
        [
            node("Gemm", "x w b", "h"),
            node("Relu", "h", "r"),
            node("MatMul", "r v", "y"),
        ],
        [tensor("x", [2, 5])],
        [tensor("y", [2, 4])],
        {"w": weights(5, 7), "b": weights(7, seed=1), "v": weights(7, 4, seed=2)},
    )


def convolutions(*, uniform: bool = False, batch: int = 1) -> onnx.ModelProto:
    """Convolution, pool, convolution, average, classifier; `uniform` weights are all one number."""
    constants = {
        "w": weights(8, 3, 3, 3),
        "b": weights(8, seed=1),
        "v": weights(6, 8, 1, 3, seed=2),
        "fc": weights(6, 5, seed=3),
    }
    if uniform:
        constants = {name: np.full_like(array, 0.1) for name, array in constants.items()}
    return model(
        [
            node("Conv", "image w b", "c", pads=[1, 1, 1, 1]),
            node("Relu", "c", "r"),
            node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]),
            node("Conv", "p v", "d", pads=[0, 1, 0, 1]),
            node("Sigmoid", "d", "s"),
            node("GlobalAveragePool", "s", "g"),
            node("Flatten", "g", "f"),
            node("Gemm", "f fc", "z"),
            node("Softmax", "z", "probabilities"),
        ],
        [tensor("image", [batch, 3, 10, 14])],
        [tensor("probabilities", [batch, 5])],
        constants,
    )


def tokens(rows: int = 11) -> onnx.ModelProto:
    """Token ids and a mask: lookup, masked mean, product."""
    return model(
        [
            node("Gather", "table input_ids", "e"),
            node("Cast", "attention_mask", "m", to=FLOAT),
            node("Unsqueeze", "m axis", "u"),
            node("Mul", "e u", "k"),
            node("ReduceSum", "k one", "t", keepdims=0),
            node("MatMul", "t w", "y"),
        ],
        [
            tensor("input_ids", [2, 6], TensorProto.INT64),
            tensor("attention_mask", [2, 6], TensorProto.INT64),
        ],
        [tensor("y", [2, 3])],
        {
            "table": weights(rows, 4),
            "axis": np.array([2], np.int64),
            "one": np.array([1], np.int64),
            "w": weights(4, 3, seed=5),
        },
    )
