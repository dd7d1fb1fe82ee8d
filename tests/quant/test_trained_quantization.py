"""Models that were trained with rounding, as Brevitas and PyTorch's exporter write them: QDQ with Clip."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from straightway.flow.convert import convert

RNG = np.random.default_rng(11)
FLOAT = TensorProto.FLOAT


class Trained:
    """Scales as Constant nodes; integers of `bits` between limits, activations around zero."""

    def __init__(self, bits, *, narrow=True, signed=True, power=False):
        self.least = -(2 ** (bits - 1)) + narrow
        self.most = 2 ** (bits - 1) - 1
        self.dtype = np.int8 if signed else np.uint8
        self.power = power
        self.nodes, self.weights = [], []

    def add(self, op, *inputs, **attrs):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"n_{name}", **attrs))
        return name

    def constant(self, array):
        return self.add("Constant", value=numpy_helper.from_array(np.asarray(array)))

    def initializer(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def scale(self, number):
        number = 2.0 ** np.ceil(np.log2(number)) if self.power else number
        return self.constant(np.asarray(number, np.float32))

    def rounded(self, x, scale, dtype=np.int8, **attrs):
        """QuantizeLinear, Clip, DequantizeLinear."""
        shift = 0 if dtype == np.int8 else -self.least
        scale, shape = self.scale(scale), np.shape(scale)
        zero = self.constant(np.zeros(shape, dtype))
        limits = (self.constant(dtype(limit + shift)) for limit in (self.least, self.most))
        stored = self.add("Clip", self.add("QuantizeLinear", x, scale, zero, **attrs), *limits)
        return self.add("DequantizeLinear", stored, scale, zero, **attrs)

    def filters(self, *shape):
        array = RNG.normal(0, 0.3, shape).astype(np.float32)
        scale = np.abs(array).reshape(shape[0], -1).max(1) / self.most
        return self.rounded(self.initializer(array), scale, axis=0)

    def save(self, path):
        x = self.rounded("x", 0.3 / self.most)
        bias = self.initializer(RNG.normal(0, 0.3, 6).astype(np.float32))
        y = self.add("Conv", x, self.filters(6, 3, 3, 3), bias, pads=[1, 1, 1, 1])
        y = self.rounded(self.add("Relu", y), 4 / self.most, self.dtype)
        y = self.add("Conv", y, self.filters(5, 6, 1, 1))
        y = self.rounded(y, 3 / self.most)
        self.nodes[-1].output[0] = "y"
        ends = [
            helper.make_tensor_value_info(name, FLOAT, shape)
            for name, shape in (("x", (1, 3, 9, 7)), ("y", (1, 5, 9, 7)))
        ]
        graph = helper.make_graph(self.nodes, "g", ends[:1], ends[1:], self.weights)
        opsets = [helper.make_opsetid("", 13)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
        return path


@pytest.mark.parametrize(
    "model",
    [
        Trained(8),
        Trained(8, narrow=False),
        Trained(8, narrow=False, signed=False),
        Trained(8, power=True),
        Trained(4, narrow=False),
        Trained(4, signed=False, power=True),
        Trained(2),
    ],
    ids=lambda m: f"{m.least}_{m.most}_{np.dtype(m.dtype)}{'_power' * m.power}",
)
def test_clipped_integers_stay_on_the_delegate(model, tmp_path):
    found = convert(model.save(tmp_path / "m.onnx"))
    assert found.verification.equal
    placement = found.verification.ran.placement
    assert len(placement.partitions) == 1
    assert not placement.outside
    ops = [node.op.name for node in found.translation.layout.graph.nodes]
    assert not {"MAXIMUM", "MINIMUM"} & set(ops)
    windows = [n for n in found.translation.layout.graph.nodes if n.op.name == "CONV_2D"]
    assert all(window.output.dtype == np.int8 for window in windows)
