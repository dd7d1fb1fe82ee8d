"""LSTMs that round their operands as they run become ONNX's own, with weights of floats.

    before                                                    after
      %y = DynamicQuantizeLSTM(%x, const W [D, I, 4H],          %y = LSTM(%x, const [D, 4H, I],
                               const R [D, H, 4H], ...,                   const [D, 4H, H], ...)
                               scales and zero points)

TFLite's hybrid LSTM keeps its state between runs. What is left out is the rounding of the sequence and of
the hidden state to eight bits; weights keep their numbers. Operands as in onnxruntime's
docs/ContribOperators.md.
"""

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.passes.arguments import onnx_op
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.dynamic_recurrent"
CONTRIB = "com.microsoft"
SINCE = 14
# the operands of LSTM
SHARED = 8
TEXT = (
    "computes its sequence and hidden state in floats, which onnxruntime rounds to 8 bits as it runs; its "
    "int8 weights keep their numbers, as floats"
)


def run(graph: Graph) -> list[Remark]:
    """Respell every DynamicQuantizeLSTM of constant weights."""
    found = []
    for inner in nested(graph):
        for node in list(inner.nodes):
            is_one = node.op.dialect == CONTRIB and node.op.name == "DynamicQuantizeLSTM"
            if is_one and _respell(inner, node):
                found.append(
                    Remark(kind="done", step=STEP, node=node.name, op=node.op.name, text=TEXT)
                )
    return found


def _respell(graph: Graph, node: Node) -> bool:
    given = [*node.inputs, *[None] * 12][:12]
    w = _real(graph, given[1], given[8], given[9])
    r = _real(graph, given[2], given[10], given[11])
    if w is None or r is None:
        return False
    inputs = [given[0], w, r, *given[3:SHARED]]
    results = [Value(graph.fresh(v.name), v.type) for v in node.outputs]
    made = Node(
        onnx_op("LSTM", SINCE), inputs, results, node.attrs, name=node.name, origins=node.origins
    )
    edit.insert(graph, made, node)
    edit.replace(node, results)
    return True


def _real(
    graph: Graph, value: Value | None, scale: Value | None, zero_point: Value | None
) -> Value | None:
    """Weights as [D, 4H, …] of floats; None where they are not constant, or their scales don't fit."""
    if value is None or value.const is None or value.rank != 3:
        return None
    if (
        scale is None
        or scale.const is None
        or (zero_point is not None and zero_point.const is None)
    ):
        return None
    zeros = np.zeros(1) if zero_point is None or zero_point.const is None else zero_point.const
    if not all(_fits(array, value) for array in (scale.const, zeros)):
        return None
    array = real(value.const, scale.const, zeros)
    return edit.constant(graph, array, f"{value.name}/float")


def _fits(parameter: np.ndarray, value: Value) -> bool:
    directions, _, gates = value.shape
    return parameter.size in (1, directions, directions * gates)


def real(numbers: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """Scales of all, of directions or of gates of directions; [D, K, 4H] → [D, 4H, K]."""
    factor, zero = (
        array.reshape(1 if array.size == 1 else numbers.shape[0], 1, -1)
        for array in (scale, zero_point)
    )
    less = numbers.astype(np.int32) - zero.astype(np.int32)
    return np.ascontiguousarray((less.astype(np.float32) * factor).transpose(0, 2, 1))
