"""Valid models to start from: small nets, and every sample of every declaration."""

import numpy as np
import onnx

from lower.case_models import build
from onnx_io.small_models import convolutions, dense, model, node, tensor, tokens, weights
from straightway.lower import families
from straightway.lower.declare import LOWERINGS

F4 = np.float32


def attention() -> onnx.ModelProto:
    """Reshape, transpose, product, softmax, product: what transformers do to shapes."""
    return model(
        [
            node("MatMul", "x wq", "q"),
            node("Reshape", "q heads", "qh"),
            node("Transpose", "qh", "qt", perm=[0, 2, 1, 3]),
            node("Transpose", "qh", "kt", perm=[0, 2, 3, 1]),
            node("MatMul", "qt kt", "s"),
            node("Div", "s scale", "d"),
            node("Softmax", "d", "p", axis=-1),
            node("MatMul", "p qt", "o"),
            node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
            node("Shape", "x", "shape"),
            node("Reshape", "ot shape", "flat"),
            node("Add", "flat x", "sum"),
            node("LayerNormalization", "sum g b", "y"),
        ],
        [tensor("x", [2, 5, 12])],
        [tensor("y", [2, 5, 12])],
        {
            "wq": weights(12, 12),
            "heads": np.array([0, 0, 3, 4]),
            "scale": np.array(2, F4),
            "g": weights(12, seed=1),
            "b": weights(12, seed=2),
        },
    )


def shuffle() -> onnx.ModelProto:
    """Split, channel shuffle, depthwise convolution, concat, resize: what mobile nets do."""
    return model(
        [
            node("Conv", "x w", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
            node("BatchNormalization", "c s t m v", "n"),
            node("Clip", "n low high", "k"),
            node("Split", "k parts", "a b", axis=1),
            node("Conv", "b dw", "d", group=4, pads=[1, 1, 1, 1]),
            node("Concat", "a d", "e", axis=1),
            node("Reshape", "e five", "r"),
            node("Transpose", "r", "u", perm=[0, 2, 1, 3, 4]),
            node("Reshape", "u four", "f"),
            node("Resize", "f _ scales", "z", mode="nearest"),
            node("Pad", "z pads", "p"),
            node("Slice", "p from to axes", "q"),
            node("ReduceMean", "q", "y", axes=[2, 3], keepdims=0),
        ],
        [tensor("x", [1, 3, 10, 14])],
        [tensor("y", [1, 8])],
        {
            "w": weights(8, 3, 3, 3),
            **{name: abs(weights(8, seed=k)) for k, name in enumerate("stmv")},
            "low": np.array(0, F4),
            "high": np.array(6, F4),
            "parts": np.array([4, 4]),
            "dw": weights(4, 1, 3, 3),
            "five": np.array([1, 2, 4, 5, 7]),
            "four": np.array([1, 8, 5, 7]),
            "scales": np.array([1, 1, 2, 2], F4),
            "pads": np.array([0, 0, 1, 2, 0, 0, 3, 4]),
            "from": np.array([1, 2]),
            "to": np.array([-1, 100]),
            "axes": np.array([2, 3]),
        },
    )


def folded() -> onnx.ModelProto:
    """Shapes and constants that are computed on the way."""
    return model(
        [
            node("Shape", "x", "s"),
            node("Gather", "s zero", "n"),
            node("Unsqueeze", "n zeros", "nu"),
            node("Concat", "nu rest", "t", axis=0),
            node("Reshape", "x t", "r"),
            node("ConstantOfShape", "rest", "c"),
            node("Cast", "c", "ci", to=onnx.TensorProto.INT64),
            node("Range", "zero one step", "i"),
            node("Where", "mask r other", "w"),
            node("Expand", "w t2", "e"),
            node("ArgMax", "e", "g", axis=1),
            node("Add", "g ci0", "y"),
            node("ReduceSum", "ci axes0", "ci0", keepdims=0),
        ],
        [tensor("x", [2, 3, 4])],
        [tensor("y", None, onnx.TensorProto.INT64)],
        {
            "zero": np.array(0),
            "zeros": np.array([0]),
            "rest": np.array([12]),
            "one": np.array(6),
            "step": np.array(2),
            "mask": np.arange(12) % 2 == 0,
            "other": np.array(5, F4),
            "t2": np.array([2, 12]),
            "axes0": np.array([0]),
        },
    )


def seeds() -> list[onnx.ModelProto]:
    """All of them, in a fixed order."""
    families.load()
    found = [convolutions(), dense(), tokens(), attention(), shuffle(), folded()] * 12
    for key in sorted(LOWERINGS):
        lowering = LOWERINGS[key]
        found += [build(lowering, case).model for case in (*lowering.samples, *lowering.refuses)]
    return found
