"""What is said of every conversion that is left, by `quantize` and by `convert` of its file alike."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_flow_quantize import RNG, Net, data

from straightway.flow.convert import Request, convert
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest

RAW = Request(seeds=(0,))


def normalized(path):
    """A pre-norm block: the input is normalized, multiplied, and added to what comes out."""
    n = Net(x=(1, 10, 32))
    scale, shift = n.const(1 + 0.1 * RNG.normal(0, 1, 32)), n.const(RNG.normal(0, 0.1, 32))
    normal = n.LayerNormalization("x", scale, shift, axis=-1)
    hidden = n.Relu(n.MatMul(normal, n.weights(32, 64)))
    return n.save(path, n.Add("x", n.MatMul(hidden, n.weights(64, 32))))


def looped(path):
    """Two layers of LSTM in both directions, over more steps than are unrolled, between products."""
    n = Net(x=(300, 1, 8))
    value = n.Relu(n.MatMul("x", n.weights(8, 8)))
    for width in (8, 32):
        w, r = (n.const(0.2 * RNG.normal(0, 1, (2, 64, k))) for k in (width, 16))
        out = n.LSTM(value, w, r, direction="bidirectional", hidden_size=16)
        turned = n.Transpose(out, perm=(0, 2, 1, 3))
        value = n.Reshape(turned, n.const([300, 1, 32], np.int64))
    return n.save(path, n.MatMul(value, n.weights(32, 4)))


NETS = {"normalized": normalized, "looped": looped}


@pytest.fixture(scope="module", params=[(n, a) for n in NETS for a in ("int8", "int16")], ids=str)
def both(request, tmp_path_factory):
    """What `quantize` says, and what `convert` does, of one file."""
    net, activations = request.param
    folder = tmp_path_factory.mktemp(net)
    path = NETS[net](folder / "m.onnx")
    asked = QuantizeRequest(
        calibration=data(path, 2), activations=activations, fit=False, method="minmax"
    )
    found = quantize(path, folder / "q.onnx", asked)
    return found, convert(folder / "q.onnx", request=RAW)


def test_both_say_the_same(both):
    quantization, conversion = both
    assert quantization.borders == conversion.borders
    assert conversion.verification.equal


def test_causes_are_reasons(both):
    quantization, _ = both
    empty = ("not rounded to integers", "used as floats", "no scale", "its operands are floats")
    for border in quantization.borders:
        assert not any(text in border.cause for text in empty), border


def test_floats_that_go_in_are_normalized_as_they_are(tmp_path):
    path = normalized(tmp_path / "m.onnx")
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path, 2)))
    (first,) = (b for b in found.borders if "input 'x'" in b.between)
    assert first.op == "QUANTIZE"
    assert "MEAN" not in first.between
    micro = QuantizeRequest(calibration=data(path, 2), target="tflite-micro")
    found = quantize(path, tmp_path / "q.onnx", micro)
    assert [b.op for b in found.borders if "input 'x'" in b.between] == ["DEQUANTIZE"]


def test_nothing_is_rounded_between_loops(tmp_path):
    path = looped(tmp_path / "m.onnx")
    asked = QuantizeRequest(calibration=data(path, 2), fit=False, method="minmax")
    found = quantize(path, tmp_path / "q.onnx", asked)
    assert len(found.borders) <= 5
    assert not any(r.op in ("RESHAPE", "TRANSPOSE") for r in found.remarks if "in floats" in r.text)


def rounded(path, consts, *nodes, x=(1, 16), y=(1, 8)):
    """A model that rounds, of nodes and constants."""
    infos = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), ("y", y))
    ]
    given = [numpy_helper.from_array(np.asarray(array), name) for name, array in consts.items()]
    graph = helper.make_graph(list(nodes), "g", infos[:1], infos[1:], given)
    opset = helper.make_opsetid("", 21)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path


node = helper.make_node
S, Z, S2 = np.float32(0.02), np.uint8(128), np.float32(0.1)


@pytest.mark.parametrize("op", ["MatMul", "Conv"])
def test_weights_that_do_not_fit_are_called_so(tmp_path, op):
    """Nothing else of the model is integers, so that nothing is done to it."""
    shape = (16, 8) if op == "MatMul" else (8, 16, 1, 1)
    weights = RNG.integers(0, 256, shape).astype(np.uint8)
    x, y = ((1, 16), (1, 8)) if op == "MatMul" else ((1, 16, 4, 4), (1, 8, 4, 4))
    path = rounded(
        tmp_path / "m.onnx",
        {"s": S, "z": Z, "w": weights, "ws": S, "wz": np.uint8(131), "s2": S2},
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["xd"]),
        node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
        node(op, ["xd", "wd"], ["m"], name="product"),
        node("QuantizeLinear", ["m", "s2", "z"], ["q2"]),
        node("DequantizeLinear", ["q2", "s2", "z"], ["y"]),
        x=x,
        y=y,
    )
    found = convert(path, request=RAW)
    told = [b.cause for b in found.borders if "'product' computes" in b.cause]
    assert told
    assert all(
        cause.endswith("its weights less their zero points don't fit int8") for cause in told
    )


@pytest.mark.parametrize(("limit", "count"), [(127, 0), (100, 1)])
def test_clips_of_integers_are_called_so(tmp_path, limit, count):
    """Within ±127 there is one number less, a quantum away; else a second rounding saturates."""
    weights = RNG.integers(-127, 128, (16, 8)).astype(np.int8)
    zero = np.int8(0)
    consts = {"s": S, "z": zero, "w": weights, "s2": S2, "lo": np.int8(-limit), "hi": np.int8(127)}
    path = rounded(
        tmp_path / "m.onnx",
        consts,
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("Clip", ["q", "lo", "hi"], ["qc"]),
        node("DequantizeLinear", ["qc", "s", "z"], ["xd"]),
        node("DequantizeLinear", ["w", "s", "z"], ["wd"]),
        node("MatMul", ["xd", "wd"], ["m"]),
        node("QuantizeLinear", ["m", "s2", "z"], ["q2"]),
        node("DequantizeLinear", ["q2", "s2", "z"], ["y"]),
    )
    np.savez(tmp_path / "x.npz", x=RNG.normal(0, 4, (1, 16)).astype(np.float32))
    found = convert(path, request=Request(inputs=tmp_path / "x.npz"))
    assert found.verification.equal
    clips = [b.cause for b in found.borders if "clips these integers" in b.cause]
    assert len(clips) == count
    assert all(f"to -{limit} and 127" in cause for cause in clips)
    assert len(found.borders) == 2 + count


@pytest.mark.parametrize("kind", [np.int16, np.uint16])
def test_zero_points_of_sixteen_bits_are_named_with_what_avoids_them(tmp_path, kind):
    path = rounded(
        tmp_path / "m.onnx",
        {"s": S, "z": np.array(7, kind)},
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
        y=(1, 16),
    )
    found = convert(path, request=RAW)
    (text,) = (r.text for r in found.remarks if r.step == "quant.asymmetric")
    assert "ActivationSymmetric" in text
