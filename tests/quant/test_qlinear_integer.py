"""Operators on quantized integers, ONNX's and onnxruntime's, compute with these integers."""

import numpy as np
import pytest
from qdq_models import X_SCALE, Y_SCALE, Rounded
from test_qdq_integer import float_ops, names, schemes, written


def start(m, shape, name="x", scale=X_SCALE):
    """Integers of an input, with their scale and zero point."""
    m.input(shape, name, scale)
    m.nodes.pop()  # the DequantizeLinear
    node = m.nodes[-1]
    return [node.output[0], *node.input[1:]]


def end(m, op, operands, **attrs):
    """The integers that an operator gives, made floats."""
    pair = m.scheme(Y_SCALE, 5)
    given = []
    for operand in operands:
        given += pair if operand == "result" else [operand]
    return m.node("DequantizeLinear", [m.node(op, given, **attrs), *pair])


def filters(m, shape, axis=0, zero_point=0):
    """Weights as uint8 or int8, their scales and zero points."""
    rng = np.random.default_rng(1)
    count = shape[axis]
    return [
        m.constant(rng.integers(-99, 100, shape) + zero_point, np.uint8 if zero_point else np.int8),
        m.constant(0.002 * (1 + np.arange(count)), np.float32),
        m.constant(np.full(count, zero_point), np.uint8 if zero_point else np.int8),
    ]


def conv(m, zero_point=0):
    bias = m.constant(np.arange(4) * 900, np.int32)
    return end(
        m,
        "QLinearConv",
        [*start(m, (1, 3, 8, 9)), *filters(m, (4, 3, 3, 2), 0, zero_point), "result", bias],
        pads=[1, 0, 1, 1],
    )


def gemm(m, **attrs):
    bias = m.constant(np.arange(7) * 500, np.int32)
    weights = filters(m, (16, 7), 1)
    return end(m, "QGemm", [*start(m, (3, 16)), *weights, bias, "result"], **attrs)


def pair(m, op):
    return end(m, op, [*start(m, (2, 3, 4)), *start(m, (2, 3, 4), "y", 0.013), "result"])


def single(m, op, shape=(1, 3, 6, 7), **attrs):
    return end(m, op, [*start(m, shape), "result"], **attrs)


def pooled(m):
    x, scale, zero_point = start(m, (1, 3, 8, 9))
    y = m.node("MaxPool", [x], kernel_shape=[2, 3], strides=[2, 2])
    y = m.node("Transpose", [y], perm=[0, 2, 3, 1])
    return end(m, "QLinearGlobalAveragePool", [y, scale, zero_point, "result"])


def resized(m):
    x, *pair = start(m, (1, 3, 4, 5))
    scales = m.constant(np.array([1, 1, 2, 2]), np.float32)
    y = m.node("Resize", [x, "", scales], mode="linear")
    return end(m, "QLinearSigmoid", [y, *pair, "result"])


CASES = {
    "QLinearConv": conv,
    "QGemm of a factor": lambda m: gemm(m, alpha=0.5),
    "Resize of integers": resized,
    "QLinearMatMul": lambda m: end(
        m, "QLinearMatMul", [*start(m, (2, 4, 16)), *filters(m, (16, 7), 1), "result"]
    ),
    "QGemm": gemm,
    "QLinearAdd": lambda m: pair(m, "QLinearAdd"),
    "QLinearMul": lambda m: pair(m, "QLinearMul"),
    "QLinearConcat": lambda m: end(
        m, "QLinearConcat", ["result", *start(m, (2, 3)), *start(m, (2, 3), "y", 0.05)], axis=1
    ),
    "QLinearLeakyRelu": lambda m: single(m, "QLinearLeakyRelu", alpha=0.1),
    "QLinearSigmoid": lambda m: single(m, "QLinearSigmoid"),
    "QLinearAveragePool": lambda m: single(m, "QLinearAveragePool", kernel_shape=[2, 3]),
    "QLinearGlobalAveragePool": lambda m: single(m, "QLinearGlobalAveragePool"),
    "MaxPool and Transpose of integers": pooled,
}


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("case", CASES)
def test_operators_on_integers_become_integer_ops(case, dtype, tmp_path, child):
    m = Rounded(dtype)
    found = written(m.output(CASES[case](m)), tmp_path, child)
    assert float_ops(found) == []
    assert names(found).count("DEQUANTIZE") == 1
    assert {(np.float32(X_SCALE), -3), (np.float32(Y_SCALE), 5)} <= schemes(found)


def test_unsigned_weights_are_shifted(tmp_path, child):
    m = Rounded(np.uint8)
    found = written(m.output(conv(m, 128)), tmp_path, child)
    assert float_ops(found) == []
