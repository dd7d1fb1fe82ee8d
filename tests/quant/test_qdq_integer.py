"""Models that come quantized compute with integers, every scale kept."""

import numpy as np
import onnx
import pytest
from qdq_models import X_SCALE, Y_SCALE, Rounded

from straightway.flow.convert import Request, convert


def conv(m, shape=(2, 3, 9, 8), weights=(5, 3, 3, 2), spread=0.2, **attrs):
    bias = m.constant(np.linspace(-1, 1, weights[0]), np.float32)
    return m.node("Conv", [m.input(shape), m.weights(weights, spread=spread), bias], **attrs)


def pair(m, op, shape=(2, 3, 4, 5), other=(2, 3, 4, 5)):
    return m.node(op, [m.input(shape), m.input(other, "y", 0.013)])


def unary(m, op, shape=(2, 3, 4, 5), **attrs):
    return m.node(op, [m.input(shape)], **attrs)


def sized(m, op, *ints, shape=(2, 3, 8, 9), **attrs):
    return m.node(op, [m.input(shape), *(m.constant(i, np.int64) for i in ints)], **attrs)


def resize(m, mode, **attrs):
    scales = m.constant([1, 1, 2, 2], np.float32)
    return m.node("Resize", [m.input((1, 3, 5, 7)), "", scales], mode=mode, **attrs)


# op: how to build it, the scale of what it gives (where it does not keep the operand's)
COMPUTING = {
    "Conv": conv,
    "Conv padded unevenly": lambda m: conv(m, pads=[1, 0, 2, 1], strides=[2, 1]),
    "Conv of one dimension": lambda m: conv(m, (2, 3, 11), (4, 3, 3), pads=[1, 1]),
    "Conv dilated": lambda m: conv(m, dilations=[2, 1], pads=[2, 0, 2, 1]),
    "Conv depthwise": lambda m: conv(m, (2, 4, 8, 9), (8, 1, 3, 3), group=4, pads=[1, 1, 1, 1]),
    "Conv in groups": lambda m: conv(m, (2, 6, 8, 9), (4, 3, 3, 3), group=2),
    "ConvTranspose": lambda m: m.node(
        "ConvTranspose",
        [m.input((1, 3, 6, 5)), m.weights((3, 8, 3, 3), 1)],
        strides=[2, 2],
        pads=[1, 0, 1, 1],
    ),
    "Gemm": lambda m: m.node(
        "Gemm",
        [m.input((3, 16)), m.weights((7, 16)), m.constant(np.arange(7) / 7, np.float32)],
        transB=1,
    ),
    "MatMul": lambda m: m.node("MatMul", [m.input((2, 4, 16)), m.weights((16, 7), 1)]),
    "MatMul of two inputs": lambda m: pair(m, "MatMul", (2, 4, 6), (2, 6, 5)),
    "Add": lambda m: pair(m, "Add"),
    "Add a column": lambda m: m.node("Add", [m.input((2, 3, 4, 5)), m.stored((3, 1, 1))]),
    "Sub": lambda m: pair(m, "Sub", other=(3, 1, 5)),
    "Mul": lambda m: pair(m, "Mul"),
    "Mul by a number": lambda m: m.node(
        "Mul", [m.input((2, 3, 4, 5)), m.constant(0.37, np.float32)]
    ),
    "Relu": lambda m: unary(m, "Relu"),
    "Conv and Relu": lambda m: m.node("Relu", [conv(m)]),
    "Conv and Clip": lambda m: m.node(
        "Clip", [conv(m), m.constant(-0.5, np.float32), m.constant(0.8, np.float32)]
    ),
    "LeakyRelu": lambda m: unary(m, "LeakyRelu", alpha=0.1),
    "Elu": lambda m: unary(m, "Elu"),
    "HardSwish": lambda m: unary(m, "HardSwish"),
    "GlobalAveragePool": lambda m: unary(m, "GlobalAveragePool"),
    "ReduceMean": lambda m: unary(m, "ReduceMean", axes=[1, 3], keepdims=0),
    "AveragePool": lambda m: unary(
        m, "AveragePool", (2, 3, 8, 9), kernel_shape=[2, 3], strides=[2, 3]
    ),
    "AveragePool overlapping": lambda m: unary(m, "AveragePool", (2, 3, 8, 9), kernel_shape=[3, 3]),
    "Resize linear": lambda m: resize(m, "linear"),
    "Concat": lambda m: m.node(
        "Concat", [m.input((2, 3, 4)), m.input((2, 5, 4), "y", 0.05)], axis=1
    ),
}
# conversions that the scales of the model itself ask for
ANEW = {"Concat": 2, "Resize linear": 1}
FIXED = {
    "Sigmoid": lambda m: unary(m, "Sigmoid"),
    "Tanh": lambda m: unary(m, "Tanh"),
    "Softmax": lambda m: unary(m, "Softmax", (3, 9)),
}
KEEPING = {
    "MaxPool": lambda m: unary(m, "MaxPool", (2, 3, 8, 9), kernel_shape=[3, 2], pads=[1, 0, 1, 1]),
    "Resize nearest": lambda m: resize(m, "nearest"),
    "Transpose": lambda m: unary(m, "Transpose", perm=[0, 2, 3, 1]),
    "Reshape": lambda m: sized(m, "Reshape", [2, -1]),
    "Pad": lambda m: sized(m, "Pad", [0, 0, 1, 0, 0, 0, 2, 1]),
    "Slice": lambda m: sized(m, "Slice", [1, 0], [7, 3], [2, 1], [2, 1]),
    "Gather": lambda m: sized(m, "Gather", [2, 0, 1], axis=1),
    "Flatten": lambda m: unary(m, "Flatten"),
    "ReduceMax": lambda m: unary(m, "ReduceMax", axes=[2], keepdims=1),
    "DepthToSpace": lambda m: unary(m, "DepthToSpace", (1, 8, 3, 5), blocksize=2),
}


def written(model, tmp_path, child):
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return convert(path, request=Request(seeds=(0, 1)), child=child)


def names(found):
    return [node.op.name for node in found.translation.layout.graph.nodes]


def float_ops(found):
    return [
        node.op.name
        for node in found.translation.layout.graph.nodes
        if node.op.name not in ("QUANTIZE", "DEQUANTIZE", "RESHAPE")  # RESHAPE: at the ends, free
        and any(v.dtype == np.float32 for v in (*node.operands(), *node.outputs))
    ]


def schemes(found):
    return {
        (float(value.quant.scale), int(value.quant.zero_point))
        for value in found.translation.layout.graph.values()
        if value.quant is not None and value.const is None
    }


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op", COMPUTING)
def test_computes_with_integers_between_the_models_scales(op, dtype, tmp_path, child):
    m = Rounded(dtype)
    found = written(m.output(m.rounded(COMPUTING[op](m))), tmp_path, child)
    assert float_ops(found) == []
    assert names(found).count("QUANTIZE") == len(m.inputs) + ANEW.get(op, 0)
    assert names(found).count("DEQUANTIZE") == 1
    assert (np.float32(Y_SCALE), 5) in schemes(found)
    assert (np.float32(X_SCALE), -3) in schemes(found)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op", KEEPING)
def test_what_picks_elements_keeps_the_scale(op, dtype, tmp_path, child):
    m = Rounded(dtype)
    found = written(m.output(m.rounded(KEEPING[op](m), X_SCALE, -3)), tmp_path, child)
    assert float_ops(found) == []
    assert schemes(found) == {(np.float32(X_SCALE), -3)}


@pytest.mark.parametrize("op", FIXED)
def test_fixed_results_are_scaled_anew(op, tmp_path, child):
    m = Rounded()
    found = written(m.output(m.rounded(FIXED[op](m), 1 / 200, -20)), tmp_path, child)
    assert float_ops(found) == []
    assert names(found).count("QUANTIZE") == 2


def normalized(m, x, signs=(1, 1, 1, 1, 1, 1)):
    """A normalisation that is not folded yet."""
    numbers = [np.array([0.5, 1, 1.5, 0.7, 2, 0.1]) * signs, np.arange(6) / 4, np.ones(6) / 8]
    given = [m.constant(array, np.float32) for array in (*numbers, np.linspace(0.5, 2, 6))]
    return m.node("BatchNormalization", [x, *given])


def scaled_weights(m, op, axis, weights=(6, 3, 2, 2), **attrs):
    shape = (2, 3, 6, 7) if len(weights) == 4 else (2, 8)
    return m.node(op, [m.input(shape), m.weights(weights, axis)], **attrs)


SCALED = {
    "Conv": lambda m: normalized(m, scaled_weights(m, "Conv", 0)),
    "Conv of one scale": lambda m: normalized(m, scaled_weights(m, "Conv", None)),
    "Conv, signs": lambda m: normalized(m, scaled_weights(m, "Conv", 0), (1, -1, 1, 1, -1, 1)),
    "ConvTranspose": lambda m: normalized(
        m, scaled_weights(m, "ConvTranspose", 1, (3, 6, 2, 2), strides=[2, 2])
    ),
    "Gemm": lambda m: normalized(m, scaled_weights(m, "Gemm", 1, (8, 6), alpha=0.3)),
    "Gemm, turned": lambda m: scaled_weights(m, "Gemm", 0, (6, 8), alpha=-0.3, transB=1),
    "MatMul": lambda m: m.node(
        "Mul", [scaled_weights(m, "MatMul", 1, (8, 6)), m.constant(np.arange(1, 7), np.float32)]
    ),
}


@pytest.mark.parametrize("op", SCALED)
def test_weights_stay_integers_where_their_results_are_scaled(op, tmp_path, child):
    m = Rounded()
    given = SCALED[op](m)
    stored = max(map(onnx.numpy_helper.to_array, m.constants), key=lambda array: array.size)
    found = written(m.output(m.rounded(given)), tmp_path, child)
    assert float_ops(found) == []
    kept = [v.const for v in found.translation.layout.graph.values() if v.const is not None]
    assert any(
        array.dtype == np.int8 and np.array_equal(*(np.sort(np.abs(a), None) for a in (array, stored)))
        for array in kept
    )  # fmt: skip


def test_weights_between_unlike_limits_are_said_not_to_fit(tmp_path, child):
    m = Rounded(np.uint8)
    array = np.random.default_rng(0).integers(0, 256, (5, 3, 3, 3))
    given = [m.constant(array, np.uint8), m.constant(0.004, np.float32), m.constant(90, np.uint8)]
    y = m.node("Conv", [m.input((1, 3, 6, 7)), m.node("DequantizeLinear", given)])
    found = written(m.output(m.rounded(y)), tmp_path, child)
    (reason,) = (r.text for r in found.remarks if r.kind == "missed" and r.step == "quant.integer")
    assert reason.endswith("its weights less their zero points don't fit int8")


@pytest.mark.parametrize(
    ("dtype", "zero_point", "reason"),
    [(np.uint16, 32768, "the model rounds to uint16"), (np.int16, 7, "that of the model is another")],
)  # fmt: skip
def test_roundings_that_tflite_lacks_are_named(dtype, zero_point, reason, tmp_path, child):
    m = Rounded(dtype)
    m.scheme = lambda scale, _: (m.constant(scale, np.float32), m.constant(zero_point, dtype))
    model = m.output(m.rounded(unary(m, "Relu"), 0.0007))
    model.opset_import[0].version = 21
    model.ir_version = 10
    found = written(model, tmp_path, child)
    told = [r for r in found.remarks if r.kind == "missed" and r.step == "lower"]
    assert [r.text.endswith(reason) for r in told] == [True, True]
