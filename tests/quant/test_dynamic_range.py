"""Models whose activations are rounded as they run become hybrid kernels, within one quantum."""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import helper
from quantizer_models import dynamic, images, sequences, vectors

from straightway.flow import hybrid
from straightway.flow.convert import Proof, Request, convert, prove
from straightway.flow.files import scratch
from straightway.flow.inputs import make_inputs


def converted(path, child):
    return convert(path, request=Request(seeds=(0, 1)), child=child)


def kinds(found):
    return Counter(node.op.name for node in found.translation.layout.graph.nodes)


def weights(found):
    return [
        node.inputs[1]
        for node in found.translation.layout.graph.nodes
        if node.op.name in ("FULLY_CONNECTED", "CONV_2D")
    ]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("build", [images, vectors], ids=["images", "vectors"])
def test_weights_stay_int8_in_one_partition(build, per_channel, tmp_path, child):
    path = dynamic(build, tmp_path, per_channel=per_channel)
    found = converted(path, child)
    assert not {"ROUND", "REDUCE_MAX", "QUANTIZE", "CAST"} & set(kinds(found))
    assert {value.dtype.name for value in weights(found)} == {"int8"}
    assert len(found.verification.ran.placement.partitions) == 1


def test_the_scales_of_the_model_are_kept(tmp_path, child):
    path = dynamic(vectors, tmp_path, per_channel=True)
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    wanted = {array.tobytes() for name, array in constants.items() if name.endswith("_scale")}
    held = {np.asarray(v.quant.scale).tobytes() for v in weights(converted(path, child))}
    assert held == wanted


@pytest.mark.parametrize("build", [images, vectors], ids=["images", "vectors"])
def test_weights_that_do_not_fit_int8_are_floats(build, tmp_path, child):
    found = converted(dynamic(build, tmp_path, "U8"), child)
    assert {value.dtype.name for value in weights(found)} <= {"float32", "int8"}
    assert "ROUND" not in kinds(found)


def test_a_product_off_by_more_than_a_quantum_is_told(tmp_path, child):
    found = converted(dynamic(vectors, tmp_path), child)
    product = next(iter(hybrid.products(found.translation).values()))
    x = np.linspace(-1, 1, 60, dtype=np.float32).reshape(3, 20)
    slack = product.slack(x)
    want = np.ones((3, slack.size), np.float32)
    assert hybrid.near("y", want, want + (0.99 * slack).astype(np.float32), slack).equal
    assert not hybrid.near("y", want, want + (1.1 * slack).astype(np.float32), slack).equal
    assert not hybrid.near("y", want, want[:2], slack).equal


@pytest.mark.parametrize("place", [0, 2])
def test_wrong_weights_differ(place, tmp_path, child):
    path = dynamic(vectors, tmp_path)
    model = onnx.load(path)
    right = converted(path, child)
    tensor = [t for t in model.graph.initializer if t.name.endswith("_quantized")][place]
    array = onnx.numpy_helper.to_array(tensor)
    tensor.CopyFrom(onnx.numpy_helper.from_array(array[::-1].copy(), tensor.name))
    onnx.save(model, tmp_path / "other.onnx")
    sets = [make_inputs(right.translation.source, 0)]
    with scratch("right.tflite", right.data) as draft:
        proof = Proof(child=child, sets=sets, step=lambda _: None)
        assert not prove(tmp_path / "other.onnx", draft, right.translation, proof).equal


@pytest.mark.parametrize("weights", ["S8", "U8"])
def test_lstms_leave_their_rounding_out_and_say_so(weights, tmp_path, child):
    path = dynamic(sequences, tmp_path, weights)
    assert "DynamicQuantizeLSTM" in {node.op_type for node in onnx.load(path).graph.node}
    found = converted(path, child)
    told = [r for r in found.remarks if r.op == "DynamicQuantizeLSTM"]
    assert len(told) == 1
    assert "in floats" in told[0].text


def test_an_lstm_alone_is_compared_with_the_one_that_does_not_round(tmp_path, child):
    path = dynamic(sequences, tmp_path)
    model = onnx.load(path)
    (lstm,) = (n for n in model.graph.node if n.op_type == "DynamicQuantizeLSTM")
    short = onnx.utils.Extractor(model)
    onnx.save(short.extract_model(["x"], [lstm.output[0]]), tmp_path / "alone.onnx")
    found = converted(tmp_path / "alone.onnx", child)
    assert "leaving out what DynamicQuantizeLSTM rounds" in found.verification.note


def test_a_table_of_bytes_that_is_gathered_and_turned(tmp_path, child):
    table = np.arange(120, dtype=np.uint8).reshape(20, 6) * 2
    given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, (1, 7))
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (7, 1, 6))
    constants = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in {
            "t": table,
            "s": np.array(0.1, np.float32),
            "z": np.array(125, np.uint8),
        }.items()
    ]
    nodes = [
        onnx.helper.make_node("Gather", ["t", "x"], ["g"]),
        onnx.helper.make_node("Transpose", ["g"], ["r"], perm=[1, 0, 2]),
        onnx.helper.make_node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [given], [result], constants)
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "m.onnx"
    )
    assert converted(tmp_path / "m.onnx", child).verification.equal


@pytest.mark.parametrize("rounding", ["Floor", "Round"])
def test_a_bias_rounded_at_run_time_is_that_of_the_convolution(rounding, tmp_path, child):
    """As older quantizers write it: integers added to integers, at the product of both scales."""
    rng = np.random.default_rng(2)
    held = {
        "w": rng.integers(-127, 128, (5, 3, 3, 3)).astype(np.int8),
        "ws": np.float32(0.004),
        "wz": np.int8(0),
        "b": rng.normal(0, 0.4, 5).astype(np.float32),
        "shape": np.array([1, -1, 1, 1]),
    }
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("Mul", ["s", "ws"], ["scale"]),
        helper.make_node("Div", ["b", "scale"], ["over"]),
        helper.make_node(rounding, ["over"], ["whole"]),
        helper.make_node("Cast", ["whole"], ["int"], to=onnx.TensorProto.INT32),
        helper.make_node("Reshape", ["int", "shape"], ["added"]),
        helper.make_node("ConvInteger", ["q", "w", "z", "wz"], ["product"], pads=[1] * 4),
        helper.make_node("Add", ["product", "added"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["real"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["real", "scale"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 3, 8, 7)), ("y", (1, 5, 8, 7)))
    ]
    constants = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in held.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    found = converted(tmp_path / "m.onnx", child)
    assert found.verification.equal
    assert not {"FLOOR", "ROUND", "CAST", "DIV", "QUANTIZE"} & set(kinds(found))
    (window,) = [n for n in found.translation.layout.graph.nodes if n.op.name == "CONV_2D"]
    assert window.inputs[1].dtype == np.int8
    assert np.array_equal(np.sort(window.inputs[2].const), np.sort(held["b"]))


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_integers(masked, per_channel, tmp_path, child):
    """QAttention, as onnxruntime's quantizer makes it: only its first product is of integers."""
    rng = np.random.default_rng(4)
    scale = np.linspace(0.001, 0.004, 48) if per_channel else 0.003
    held = {
        "w": rng.integers(-127, 128, (16, 48)).astype(np.int8),
        "ws": np.asarray(scale, np.float32),
        "wz": np.zeros(np.shape(scale), np.int8),
        "b": rng.normal(0, 0.4, 48).astype(np.float32),
        "mask": np.array([[1, 1, 1, 1, 0, 0]], np.int32),
    }
    operands = ["q", "w", "b", "s", "ws", "mask" if masked else "", "z", "wz"]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("QAttention", operands, ["y"], domain="com.microsoft", num_heads=2),
    ]
    ends = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, 6, 16)) for name in "xy"
    ]
    constants = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in held.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    found = converted(tmp_path / "m.onnx", child)
    assert found.verification.equal
    assert "SOFTMAX" in kinds(found)
