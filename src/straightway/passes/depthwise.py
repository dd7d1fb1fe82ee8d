"""A factor and a shift a channel behind convolutions become one depthwise convolution.

y = ADD(MUL(x, s), b)      becomes      y = DEPTHWISE_CONV_2D(x, s, b), with a window of one element

The tensor is read and written once rather than twice, and XNNPACK's elementwise kernels broadcast few
channels slowly: measured 0.6 to 1.0 of the time. Rounded, each channel has a scale of its own, and there
is one rounding rather than two.
"""

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit
from straightway.ir.source import merge
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

STEP = "passes.depthwise"
DEPTHWISE = Op(dialect="tflite", name="DEPTHWISE_CONV_2D")
# Layouts of ops that keep the order of dimensions, and how many of them may stand between.
CARRIERS = frozenset({"elementwise", "along"})
MOST_STEPS = 4


def run(graph: Graph) -> list[Remark]:
    """Join factors and shifts of a lowered graph."""
    joined = [node for node in graph.nodes if node.op.name == "ADD" and _join(graph, node)]
    if not joined:
        return []
    text = f"{len(joined)} factors and shifts of channels became depthwise convolutions"
    return [Remark(kind="done", step=STEP, text=text, numbers={"nodes": len(joined)})]


def _join(graph: Graph, node: Node) -> bool:
    found = _scaled(node, "ADD")
    if found is None or found[0].producer is None:
        return False
    product, shift = found
    maker = found[0].producer
    inner = _scaled(maker, "MUL")
    if inner is None or len(product.uses) != 1 or maker.attrs["activation"] != "NONE":
        return False
    x, factor = inner
    if not _is_behind_windows(maker):
        return False
    weights = edit.constant(graph, factor.reshape(-1, 1, 1, 1), f"{maker.name}/factor")
    bias = edit.constant(graph, shift, f"{node.name}/shift")
    for index in range(2):
        edit.set_input(node, index, None)
    node.op = DEPTHWISE
    node.inputs.append(None)
    for index, value in enumerate((x, weights, bias)):
        edit.set_input(node, index, value)
    ones = (1, 1)
    node.attrs = {
        "strides": ones,
        "dilations": ones,
        "padding": "VALID",
        "multiplier": 1,
        "activation": node.attrs["activation"],
    }
    node.origins = merge(node.origins, maker.origins)
    edit.remove(maker)
    return True


def _scaled(node: Node, name: str) -> tuple[Value, np.ndarray] | None:
    """The operand of an image's size and the constant a channel, of an op of this name."""
    if node.op.name != name or node.output.rank != 4 or node.output.dtype != np.float32:
        return None
    for x, other in zip(node.operands(), reversed(node.operands()), strict=True):
        if x.const is not None or other.const is None or x.shape != node.output.shape:
            continue
        channels = x.shape[1]
        shape = (1,) * (4 - other.rank) + other.shape
        if channels > 1 and shape == (1, channels, 1, 1):
            vector = np.ascontiguousarray(other.const.reshape(channels))
            return (x, vector) if np.isfinite(vector).all() else None
    return None


def _is_behind_windows(node: Node) -> bool:
    """Whether a convolution or a pool made the operand, so that its channels come last anyway.

    Else, as on an input, they may as well come first, where MUL and ADD are faster.
    """
    level = [node]
    for _ in range(MOST_STEPS):
        made = (value.producer for one in level for value in one.operands())
        level = [m for m in dict.fromkeys(made) if m is not None and m.op.name in ROWS]
        if any(ROWS[maker.op.name].layout == "window" for maker in level):
            return True
        level = [maker for maker in level if ROWS[maker.op.name].layout in CARRIERS]
    return False
