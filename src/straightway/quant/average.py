"""Average pools that give any scale, by ops that XNNPACK runs with integers.

TFLite's AVERAGE_POOL_2D keeps its operand's scale, and XNNPACK has none for integers. Over the whole
map it is a MEAN; elsewhere a depthwise convolution whose weights are all one over the window's size.
"""

import math

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit
from straightway.quant.scheme import INT8, Scheme


def is_plain(node: Node) -> bool:
    """Whether it is a pool and every window is full."""
    return node.op.name == "AVERAGE_POOL_2D" and bool(node.attrs["padding"] == "VALID")


def respell(graph: Graph, node: Node) -> str:
    """Put the same average in floats in a pool's place; what it becomes then computes with integers."""
    (x,) = node.operands()
    result = Value(graph.fresh(node.output.name), node.output.type)
    window = tuple(node.attrs["filter"])
    whole = window == x.shape[2:] and node.attrs["activation"] == "NONE"
    name = "MEAN" if whole else "DEPTHWISE_CONV_2D"
    inputs = [x] if whole else [x, *_weights(graph, x.shape[1], window)]
    attrs = {"axes": tuple(range(2, x.rank)), "keep_dims": True} if whole else _attrs(node)
    op = Op(dialect="tflite", name=name)
    made = Node(op, inputs, [result], attrs, name=node.name, origins=node.origins)
    edit.insert(graph, made, node)
    edit.replace(node, [result])
    return f"average as {name}"


def _weights(graph: Graph, channels: int, window: tuple[int, ...]) -> list[Value]:
    scheme = Scheme(dtype=INT8, scale=1 / (127 * math.prod(window)), zero_point=0)
    array = np.full((channels, 1, *window), 1 / math.prod(window), np.float32)
    weights = edit.constant(graph, array, "average")
    weights.quant = scheme.quant
    return [weights, edit.constant(graph, np.zeros(channels, np.float32), "average_bias")]


def _attrs(node: Node) -> dict[str, object]:
    kept = {name: node.attrs[name] for name in ("strides", "padding", "activation")}
    return {**kept, "dilations": (1,) * len(node.attrs["filter"]), "multiplier": 1}
