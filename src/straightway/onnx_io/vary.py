"""A twin of a model with varied weights, for checks that weights of one value can't make."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.numpy_helper

from straightway.onnx_io.check import tensors

# fewer equal elements are biases, scales and shapes as models really have them
FEWEST_ELEMENTS = 16
# larger fills are no weights
MOST_ELEMENTS = 2**28


def is_uniform(array: np.ndarray) -> bool:
    """Whether a float tensor of some size holds one value only."""
    return bool(
        array.dtype in (np.float32, np.float16)
        and array.size >= FEWEST_ELEMENTS
        and (array == array.reshape(-1)[0]).all()
    )


def varied(path: Path, seed: int) -> bytes | None:
    """The model with every tensor of one value replaced by random ones around that value.

    None where there is no such tensor, or the weights lie outside the file. Values stay positive
    where they were, so that variances and scales remain valid.
    """
    model = onnx.load(str(path), load_external_data=False)
    graph = model.graph
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in tensors(graph)):
        return None
    rng = np.random.default_rng(seed)
    changed = _vary_initializers(graph, rng) + _vary_fills(graph, rng)
    return model.SerializeToString() if changed else None


def _around(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random numbers between half the value and the value: never larger, so nothing overflows."""
    value = float(array.reshape(-1)[0])
    spread = 0.5 + 0.5 * rng.random(array.shape, np.float32)
    return np.asarray(spread * value if value else 0.1 * spread).astype(array.dtype)


def _vary_initializers(graph: onnx.GraphProto, rng: np.random.Generator) -> int:
    changed = 0
    for tensor in graph.initializer:
        if tensor.data_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16):
            continue
        array = onnx.numpy_helper.to_array(tensor)
        if is_uniform(array):
            tensor.CopyFrom(onnx.numpy_helper.from_array(_around(array, rng), tensor.name))
            changed += 1
    return changed


def _vary_fills(graph: onnx.GraphProto, rng: np.random.Generator) -> int:
    """Make initializers of the ConstantOfShape nodes whose shape the file holds."""
    shapes = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].HasField("t"):
            shapes[node.output[0]] = node.attribute[0].t
    changed = 0
    for node in [n for n in graph.node if n.op_type == "ConstantOfShape" and n.input]:
        filled = _filled(node, shapes)
        if filled is None:
            continue
        array = _around(filled, rng)
        graph.initializer.append(onnx.numpy_helper.from_array(array, node.output[0]))
        graph.node.remove(node)
        changed += 1
    return changed


def _filled(node: onnx.NodeProto, shapes: Mapping[str, onnx.TensorProto]) -> np.ndarray | None:
    """What a ConstantOfShape makes, without memory for it; None where it is no weight."""
    if node.input[0] not in shapes:
        return None
    shape = onnx.numpy_helper.to_array(shapes[node.input[0]]).reshape(-1).tolist()
    value = onnx.numpy_helper.to_array(node.attribute[0].t) if node.attribute else np.zeros(1, "f4")
    if value.dtype != np.float32 or not FEWEST_ELEMENTS <= math.prod(shape) <= MOST_ELEMENTS:
        return None
    return np.broadcast_to(value.reshape(-1)[:1], shape)
