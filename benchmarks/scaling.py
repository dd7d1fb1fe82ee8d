"""Conversion time against the number of nodes: CPU time of each step, without verification.

    python benchmarks/scaling.py [NODES ...]

The model is a network of residual blocks, each with a convolution, a normalisation, an activation, an
addition, and a squeeze-and-excite gate through a reshape.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper, save

from straightway.flow.convert import convert

SIZES = (100, 1_000, 5_000, 10_000, 20_000)
CHANNELS = 8


def block(number: int, x: str) -> tuple[list[NodeProto], str]:
    """Ten nodes."""
    name = f"b{number}/"

    def node(op: str, *inputs: str, **attributes: object) -> NodeProto:
        output = f"{name}{op.lower()}{len(made)}"
        made.append(helper.make_node(op, list(inputs), [output], name=output, **attributes))
        return made[-1]

    made: list[NodeProto] = []
    y = node("Conv", x, "w", kernel_shape=[3, 3], pads=[1, 1, 1, 1]).output[0]
    y = node("BatchNormalization", y, "one", "zero", "zero", "one").output[0]
    y = node("Sigmoid", y).output[0]
    gate = node("GlobalAveragePool", y).output[0]
    gate = node("Reshape", gate, "flat").output[0]
    gate = node("Gemm", gate, "g", "zero").output[0]
    gate = node("Reshape", gate, "map").output[0]
    y = node("Mul", y, gate).output[0]
    y = node("Add", y, x).output[0]
    return made, node("Relu", y).output[0]


def model(nodes: int) -> ModelProto:
    """A network of about that many nodes."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((CHANNELS, CHANNELS, 3, 3)).astype(np.float32) / 30,
        "g": rng.standard_normal((CHANNELS, CHANNELS)).astype(np.float32) / 10,
        "one": np.ones(CHANNELS, np.float32),
        "zero": np.zeros(CHANNELS, np.float32),
        "flat": np.array([1, CHANNELS]),
        "map": np.array([1, CHANNELS, 1, 1]),
    }
    made, x = [], "x"
    for number in range(nodes // 10):
        nodes_of_block, x = block(number, x)
        made += nodes_of_block
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, CHANNELS, 16, 16])
        for name in ("x", x)
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(made, "scaling", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def main() -> None:
    """Print a line for each size."""
    sizes = [int(word) for word in sys.argv[1:]] or SIZES
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        save(model(100), path)
        convert(path, verify=False)  # what is imported once
        for size in sizes:
            save(model(size), path)
            steps_s = convert(path, verify=False).translation.steps_s
            total_s = sum(steps_s.values())
            parts = ", ".join(f"{name} {s:.2f}" for name, s in steps_s.items())
            print(
                f"{size:6} nodes: {total_s:6.2f} s, {1e3 * total_s / size:.2f} ms a node ({parts})"
            )


if __name__ == "__main__":
    main()
