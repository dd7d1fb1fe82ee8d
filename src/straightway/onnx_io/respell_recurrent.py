"""A model whose recurrent nodes a reference has kernels for, or does not round as they run.

onnxruntime's DynamicQuantizeLSTM rounds the whole sequence, and the hidden state before each step, to
eight bits (docs/ContribOperators.md). Without that it is ONNX's LSTM of the same weights. Nodes whose
batch comes first (layout 1) onnxruntime lacks; transposed, they are of layout 0.
"""

from collections.abc import MutableSequence
from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from straightway.onnx_io.check import graphs

SHARED = 8
# the least opset whose LSTM is as now, but for its layout
SINCE = 7
RECURRENT = {"RNN", "GRU", "LSTM"}
# X, initial_h and initial_c, [batch, one, hidden] of layout 1
BATCHED_INPUTS = (0, 5, 6)
SWAPPED = (1, 0, 2)
# Y is [steps, directions, batch, hidden] in layout 0, [batch, steps, directions, hidden] in layout 1
BATCH_TO_FRONT = (2, 0, 1, 3)


def recurrent(model: onnx.ModelProto) -> bool:
    """LSTM for DynamicQuantizeLSTM, wherever its weights are constants."""
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 0)
    if opset < SINCE:
        return False
    changed = False
    for graph in [*graphs(model.graph)]:
        known = {t.name: t for t in graph.initializer}
        for node in graph.node:
            names = [*node.input[1:3], *node.input[8:12]]
            if node.op_type != "DynamicQuantizeLSTM" or not all(n in known for n in names):
                continue
            w, r, *schemes = (onnx.numpy_helper.to_array(known[name]) for name in names)
            for array, (scale, zero), place in ((w, schemes[:2], 1), (r, schemes[2:], 2)):
                made = onnx.numpy_helper.from_array(
                    _real(array, scale, zero), f"{node.output[0]}/{node.input[place]}"
                )
                graph.initializer.append(made)
                node.input[place] = made.name
            del node.input[SHARED:]
            node.op_type, node.domain = "LSTM", ""
            changed = True
    return changed


def _real(numbers: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
    """[D, K, 4H] → [D, 4H, K], of scales of directions, or of gates of directions."""
    factor, zero = (array.reshape(array.shape[0], 1, -1) for array in (scale, zero_point))
    less = numbers.astype(np.int32) - zero.astype(np.int32)
    return np.ascontiguousarray((less.astype(np.float32) * factor).transpose(0, 2, 1))


def time_first(path: Path) -> bytes:
    """The model with layout 0 between Transposes for RNN, GRU and LSTM of layout 1.

    The numbers, the names of values, and the files that hold the weights are the same.
    """
    model = onnx.load(str(path), load_external_data=False)
    for body in (*graphs(model.graph), *model.functions):
        _turn(body.node)
    return bytes(model.SerializeToString())


def _turn(nodes: MutableSequence[onnx.NodeProto]) -> None:
    made: list[onnx.NodeProto] = []
    for node in nodes:
        layout = next((a for a in node.attribute if a.name == "layout" and a.i), None)
        if layout is None or node.op_type not in RECURRENT or node.domain not in ("", "ai.onnx"):
            made.append(node)
            continue
        layout.i = 0
        before, after = _turned_ends(node)
        made += [*before, node, *after]
    del nodes[:]
    nodes.extend(made)


def _turned_ends(node: onnx.NodeProto) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Let the node read and give other values; the Transposes to the one, and from the other."""
    before, after = [], []
    suffix = "/time_first"
    owner = next(filter(None, node.output))
    for place in BATCHED_INPUTS:
        if place < len(node.input) and node.input[place]:
            name = f"{owner}/{place}{suffix}"
            before.append(_transpose(node.input[place], name, SWAPPED))
            node.input[place] = name
    for place, result in enumerate(node.output):
        if result:
            order = SWAPPED if place else BATCH_TO_FRONT
            after.append(_transpose(result + suffix, result, order))
            node.output[place] = result + suffix
    return before, after


def _transpose(source: str, result: str, order: tuple[int, ...]) -> onnx.NodeProto:
    return onnx.helper.make_node("Transpose", [source], [result], perm=order)
