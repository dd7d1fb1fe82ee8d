"""A model with its Sigmoids spelled out: onnxruntime's own kernel is off by up to 8e-8.

At a probability of 3e-5 that is the third digit. The kernel approximates by a quotient of polynomials
(onnxruntime/core/mlas/lib/logistic.cpp); 1 / (1 + exp(-x)) is right to the last bits.
"""

from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper

ONE = "straightway/one"


def respelled(path: Path) -> bytes | None:
    """The model with 1 / (1 + exp(-x)) for Sigmoid; None without one, or with external weights."""
    model = onnx.load(str(path), load_external_data=False)
    graph = model.graph
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in graph.initializer):
        return None
    nodes = list(graph.node)
    changed = [spelled for node in nodes for spelled in _spelled(node)]
    if len(changed) == len(nodes):
        return None
    del graph.node[:]
    graph.node.extend(changed)
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(1.0, np.float32), ONE))
    return bytes(model.SerializeToString())


def _spelled(node: onnx.NodeProto) -> list[onnx.NodeProto]:
    if node.op_type != "Sigmoid" or node.domain not in ("", "ai.onnx"):
        return [node]
    (x,), (y,) = node.input, node.output
    parts = (
        ("Neg", [x], f"{y}/neg"),
        ("Exp", [f"{y}/neg"], f"{y}/exp"),
        ("Add", [f"{y}/exp", ONE], f"{y}/add"),
        ("Reciprocal", [f"{y}/add"], y),
    )
    return [
        onnx.NodeProto(op_type=name, name=f"{node.name}/{name}", input=inputs, output=[output])
        for name, inputs, output in parts
    ]
