"""A constant added to a matrix product becomes its bias.

y = FULLY_CONNECTED(x, w) ─ ADD b ─ z      becomes      z = FULLY_CONNECTED(x, w, b)
"""

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.remark import Remark


def run(graph: Graph) -> list[Remark]:
    """Fuse the ADDs of a lowered graph that add one number a row of weights."""
    joined = [node for node in graph.nodes if node.op.name == "ADD" and _join(graph, node)]
    if not joined:
        return []
    text = f"{len(joined)} sums became biases of the matrix product before them"
    return [Remark(kind="done", step="passes.bias", text=text)]


def _join(graph: Graph, node: Node) -> bool:
    for x, other in zip(node.operands(), reversed(node.operands()), strict=True):
        producer = x.producer
        if producer is None or other.const is None or not _takes_bias(producer):
            continue
        vector = _along(other, producer.output, producer.attrs["axis"])
        if vector is None or node.output.shape != producer.output.shape:
            continue
        value = edit.constant(graph, vector, f"{other.name}/bias")
        edit.set_input(producer, 2, value)
        producer.attrs["activation"] = node.attrs["activation"]
        edit.absorb(producer, node)
        return True
    return False


def _takes_bias(producer: Node) -> bool:
    return (
        producer.op.name == "FULLY_CONNECTED"
        and len(producer.inputs) > 2
        and producer.inputs[2] is None
        and producer.attrs["activation"] == "NONE"
        and len(producer.output.uses) == 1
        and producer.output.dtype == np.float32
    )


def _along(value: Value, result: Value, axis: int) -> np.ndarray | None:
    """One number for each place along the axis, None where the constant varies otherwise."""
    if value.const is None or value.rank > result.rank:
        return None
    shape = (1,) * (result.rank - value.rank) + value.shape
    if any(size != 1 for k, size in enumerate(shape) if k != axis):
        return None
    return np.ascontiguousarray(np.broadcast_to(value.const.reshape(-1), (result.shape[axis],)))
