"""Models that quantize by the range that the run finds: compared one rounding at a time."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import straightway
from straightway.lower import families
from straightway.lower.declare import LOWERINGS


def quantized_layers(path, count=6):
    """Layers of int8 weights whose inputs are quantized as they come, each normalised after."""
    rng = np.random.default_rng(0)
    nodes, weights, name = [], [], "x"
    for k in range(count):
        scale = rng.uniform(0.5, 2.0, 16).astype(np.float32)
        weights += [
            numpy_helper.from_array(rng.integers(-127, 128, (16, 16)).astype(np.int8), f"w{k}"),
            numpy_helper.from_array(scale, f"s{k}"),
        ]
        nodes += [
            helper.make_node("DynamicQuantizeLinear", [name], [f"q{k}", f"d{k}", f"z{k}"]),
            helper.make_node("MatMulInteger", [f"q{k}", f"w{k}", f"z{k}"], [f"i{k}"]),
            helper.make_node("Cast", [f"i{k}"], [f"f{k}"], to=TensorProto.FLOAT),
            helper.make_node("Mul", [f"f{k}", f"d{k}"], [f"m{k}"]),
            helper.make_node("LayerNormalization", [f"m{k}", f"s{k}"], [f"y{k}"], axis=-1),
        ]
        name = f"y{k}"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 8, 16]) for n in ("x", name)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path
    )
    return path


def test_a_rounding_that_falls_otherwise_is_no_difference(tmp_path):
    done = straightway.convert(quantized_layers(tmp_path / "m.onnx"))
    assert done.verification is not None
    assert done.verification.equal
    assert any(check.name == "q0" for check in done.verification.interior)


@pytest.fixture
def spoilt():
    families.load()
    lowering = LOWERINGS["onnx", "DynamicQuantizeLinear"]
    function = lowering.function
    object.__setattr__(lowering, "function", lambda g, x: function(g, g.ADD(x, 0.1)))
    yield
    object.__setattr__(lowering, "function", function)


@pytest.mark.usefixtures("spoilt")
def test_a_wrong_rounding_is_one(tmp_path):
    with pytest.raises(straightway.Mismatch):
        straightway.convert(quantized_layers(tmp_path / "m.onnx"))
