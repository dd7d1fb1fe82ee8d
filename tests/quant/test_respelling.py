"""What XNNPACK has no integers for is spelled otherwise when quantizing: one partition, the same numbers."""

from collections import Counter

import numpy as np
import onnx
import pytest
from quantizer_models import Model

from straightway.flow.convert import Request, convert
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest

SLOPES = {
    "uniform": (np.full((8, 1, 1), 0.25), {"LEAKY_RELU"}),
    "of each channel": (np.linspace(-0.3, 0.9, 8).reshape(8, 1, 1), {"MUL", "ADD"}),
    "above one": (np.linspace(0.5, 1.5, 8).reshape(8, 1, 1), {"PRELU"}),
}


def prelu_model(path, slope):
    m = Model()
    x = m.node("Conv", "x", m.weights(8, 3, 3, 3), m.weights(8), pads=[1] * 4)
    y = m.node("PRelu", x, m.constant(slope.astype(np.float32)))
    m.save(path, (1, 3, 8, 9), m.node("Conv", y, m.weights(4, 8, 1, 1)))


@pytest.mark.parametrize("kind", SLOPES)
def test_prelu_computes_with_integers(kind, tmp_path, child):
    slope, ops = SLOPES[kind]
    prelu_model(tmp_path / "m.onnx", slope)
    made = quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", QuantizeRequest(random=8))
    found = convert(tmp_path / "q.onnx", request=Request(seeds=(0, 1)), child=child)
    names = Counter(node.op.name for node in found.translation.layout.graph.nodes)
    assert set(names) - {"CONV_2D", "QUANTIZE", "DEQUANTIZE", "TRANSPOSE", "PAD"} == ops
    assert names["QUANTIZE"] == names["DEQUANTIZE"] == 1
    if "PRELU" not in ops:
        assert len(found.verification.ran.placement.partitions) == 1
    assert min(one.sqnr_db for one in made.accuracy.outputs) > 25


def test_the_spelling_of_prelu_is_the_same_function(tmp_path):
    slope = SLOPES["of each channel"][0]
    x = np.linspace(-2, 2, 64).reshape(8, 2, 4)
    assert np.allclose(x + np.maximum(x * (slope - 1), 0), np.where(x < 0, x * slope, x))
    prelu_model(tmp_path / "m.onnx", slope)
    quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", QuantizeRequest(random=2))
    kinds = {node.op_type for node in onnx.load(tmp_path / "q.onnx").graph.node}
    assert "PRelu" not in kinds
    assert {"Mul", "Relu", "Add"} <= kinds


def test_dilated_convolutions_have_their_pads_in_numbers(tmp_path):
    m = Model()
    steps = {"pads": [2, 3, 2, 3], "dilations": [2, 3]}
    y = m.node("Conv", "x", m.weights(8, 3, 3, 3), m.weights(8), **steps)
    m.save(tmp_path / "m.onnx", (1, 3, 8, 9), m.node("Relu", y))
    made = quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", QuantizeRequest(random=2))
    assert min(one.sqnr_db for one in made.accuracy.outputs) > 25
