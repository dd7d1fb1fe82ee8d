"""A model spelled so that a reference computes what the standard means, or leaves open, as LiteRT does.

Sigmoid: onnxruntime's kernel approximates by a quotient of polynomials (onnxruntime/core/mlas/lib/logistic.cpp)
and is off by up to 8e-8, the third digit of a probability of 3e-5; 1 / (1 + exp(-x)) is right to the
last bits. Narrow floats and Casts: see `respell_floats` and `respell_casts`.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper

from straightway.onnx_io.check import graphs, tensors

ONE = "straightway/one"
# protobuf serialises no more than 2 GiB; float16 may become twice as large
MOST_BYTES = 2**29
Change = Callable[[onnx.ModelProto], bool]
"""Changes a model in place; whether there was something to change."""


def respelled(path: Path, changes: Sequence[Change]) -> bytes | None:
    """The model after all changes; None where one finds nothing, or the weights lie elsewhere."""
    if path.stat().st_size > MOST_BYTES:
        return None
    model = onnx.load(str(path), load_external_data=False)
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in tensors(model.graph)):
        return None
    if not all(change(model) for change in changes):
        return None
    return bytes(model.SerializeToString())


def each_node(
    model: onnx.ModelProto, spelled: Callable[[onnx.NodeProto], Iterable[onnx.NodeProto]]
) -> bool:
    """Put what `spelled` gives in the place of each node, in all graphs; whether one gave several."""
    changed = False
    for graph in [*graphs(model.graph)]:
        nodes = [one for node in graph.node for one in spelled(node)]
        changed |= len(nodes) != len(graph.node)
        del graph.node[:]
        graph.node.extend(nodes)
    return changed


def sigmoids(model: onnx.ModelProto) -> bool:
    """1 / (1 + exp(-x)) for Sigmoid."""
    graph = model.graph
    nodes = list(graph.node)
    changed = [spelled for node in nodes for spelled in _spelled(node)]
    if len(changed) == len(nodes):
        return False
    del graph.node[:]
    graph.node.extend(changed)
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(1.0, np.float32), ONE))
    return True


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
        onnx.NodeProto(op_type=name, input=inputs, output=[output])
        for name, inputs, output in parts
    ]
