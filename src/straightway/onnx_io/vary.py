"""A twin of a model with varied weights, for checks that weights of one value can't make."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
import onnx.helper
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


@dataclass(frozen=True, slots=True)
class _Weights:
    """A file beside the twin that takes its weights, one after the other."""

    file: BinaryIO
    name: str
    rng: np.random.Generator

    def around(self, array: np.ndarray, name: str) -> onnx.TensorProto:
        """Write random numbers around the value of a uniform tensor; they lie outside the model."""
        made = _around(array, self.rng)
        tensor = onnx.TensorProto(
            name=name,
            dims=array.shape,
            data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
            data_location=onnx.TensorProto.EXTERNAL,
        )
        where = {"location": self.name, "offset": self.file.tell(), "length": made.nbytes}
        for key, value in where.items():
            tensor.external_data.add(key=key, value=str(value))
        made.tofile(self.file)
        return tensor


def varied(path: Path, seed: int, folder: Path) -> Path | None:
    """Write the model into `folder`, every tensor of one value replaced by random ones around it.

    They lie in a file of their own, so that nobody need hold them. None where there is no such
    tensor, or the weights lie outside the file. Values stay positive where they were, so that
    variances and scales remain valid. Raises OSError.
    """
    model = onnx.load(str(path), load_external_data=False)
    graph = model.graph
    if any(t.data_location == onnx.TensorProto.EXTERNAL for t in tensors(graph)):
        return None
    twin = folder / "twin.onnx"
    with (folder / "twin.weights").open("wb") as file:
        weights = _Weights(file, "twin.weights", np.random.default_rng(seed))
        changed = _vary_initializers(graph, weights) + _vary_fills(graph, weights)
    twin.write_bytes(model.SerializeToString())
    return twin if changed else None


def _around(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random numbers between half the value and the value: never larger, so nothing overflows."""
    value = float(array.reshape(-1)[0])
    spread = 0.5 + 0.5 * rng.random(array.shape, np.float32)
    return np.asarray(spread * value if value else 0.1 * spread).astype(array.dtype)


def _vary_initializers(graph: onnx.GraphProto, weights: _Weights) -> int:
    changed = 0
    for tensor in graph.initializer:
        if tensor.data_type not in (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16):
            continue
        array = onnx.numpy_helper.to_array(tensor)
        if is_uniform(array):
            tensor.CopyFrom(weights.around(array, tensor.name))
            changed += 1
    return changed


def _vary_fills(graph: onnx.GraphProto, weights: _Weights) -> int:
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
        graph.initializer.append(weights.around(filled, node.output[0]))
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
