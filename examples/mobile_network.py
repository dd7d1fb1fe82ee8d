"""A small network of the mobile kind, built with seeded weights: no download, always the same."""

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUT_SHAPE = (1, 3, 48, 192)
CLASSES = 2
CHANNELS = (16, 24, 32)
OPSET = 17
SEED = 0


class _Network:
    """Collects nodes and weights; each method adds a layer and returns the name of its result."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(SEED)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        """Seeded weights, scaled so that activations keep their size."""
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 100
        array = self.random.normal(0.0, fan_in**-0.5, shape).astype(np.float32)
        name = f"weight_{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, inputs: Iterable[str], **attributes: object) -> str:
        """Add a node with one result."""
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def convolve(self, x: str, channels: tuple[int, int], size: int, **options: int) -> str:
        """Convolution and bias, padded to keep its size; options: stride, group."""
        group = options.get("group", 1)
        weights = self.weight(channels[1], channels[0] // group, size, size)
        return self.node(
            "Conv",
            [x, weights, self.weight(channels[1])],
            kernel_shape=[size, size],
            pads=[size // 2] * 4,
            strides=[options.get("stride", 1)] * 2,
            group=group,
        )

    def squeeze_and_excite(self, x: str, channels: int) -> str:
        """Scale each channel by what the whole picture says of it."""
        pooled = self.node("GlobalAveragePool", [x])
        narrow = self.node("Relu", [self.convolve(pooled, (channels, channels // 4), 1)])
        wide = self.convolve(narrow, (channels // 4, channels), 1)
        return self.node("Mul", [x, self.node("HardSigmoid", [wide], alpha=0.2, beta=0.5)])

    def block(self, x: str, channels: int) -> str:
        """Depthwise convolution, squeeze and excitation, projection, and the way around them."""
        spread = self.convolve(x, (channels, channels), 5, group=channels)
        active = self.node("HardSwish", [spread])
        scaled = self.squeeze_and_excite(active, channels)
        return self.node("Add", [x, self.convolve(scaled, (channels, channels), 1)])


def build() -> onnx.ModelProto:
    """Make the network: an image "x" in, probabilities of two classes out."""
    network = _Network()
    x, before = "x", INPUT_SHAPE[1]
    for channels in CHANNELS:
        x = network.node("Relu", [network.convolve(x, (before, channels), 3, stride=2)])
        x, before = network.block(x, channels), channels
    pooled = network.node("Flatten", [network.node("GlobalAveragePool", [x])])
    logits = network.node("Gemm", [pooled, network.weight(CHANNELS[-1], CLASSES)])
    y = network.node("Softmax", [logits], axis=-1)
    graph = helper.make_graph(
        network.nodes,
        "mobile_network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, INPUT_SHAPE)],
        [helper.make_tensor_value_info(y, TensorProto.FLOAT, (INPUT_SHAPE[0], CLASSES))],
        network.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    onnx.checker.check_model(model, full_check=True)
    return model
