"""Activations join the op before them.

y = CONV_2D(x) ─ RELU6 ─ z      becomes      z = CONV_2D(x, fused RELU6)
"""

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

FUSIBLE = {"RELU": "RELU", "RELU6": "RELU6", "RELU_N1_TO_1": "RELU_N1_TO_1"}


def run(graph: Graph) -> list[Remark]:
    """Fuse RELU, RELU6 and RELU_N1_TO_1 of a lowered graph into their producers."""
    fused = [node for node in graph.nodes if node.op.name in FUSIBLE and _fuse(node)]
    if not fused:
        return []
    text = f"{len(fused)} activations joined the op before them"
    return [Remark(kind="done", step="passes.activation", text=text)]


def _fuse(node: Node) -> bool:
    (x,) = node.operands()
    producer = x.producer
    if producer is None or len(x.uses) != 1 or len(producer.outputs) != 1:
        return False
    row = ROWS[producer.op.name]
    if not row.fuses or producer.attrs.get("activation") != "NONE":
        return False
    if x.dtype.kind != "f" and not _same_scheme(x, node.output):
        return False
    producer.attrs["activation"] = FUSIBLE[node.op.name]
    edit.absorb(producer, node)
    return True


def _same_scheme(x: Value, y: Value) -> bool:
    """Whether integers stand for the same numbers, so that a limit may come before rounding."""
    if x.quant is None or y.quant is None or x.dtype != y.dtype:
        return False
    return bool(
        np.array_equal(x.quant.scale, y.quant.scale)
        and np.array_equal(x.quant.zero_point, y.quant.zero_point)
    )
