"""A model whose LSTMs do not round their operands as they run.

onnxruntime's DynamicQuantizeLSTM rounds the whole sequence, and the hidden state before each step, to
eight bits (docs/ContribOperators.md). Without that it is ONNX's LSTM of the same weights.
"""

import numpy as np
import onnx
import onnx.numpy_helper

from straightway.onnx_io.check import graphs

SHARED = 8
# the least opset whose LSTM is as now, but for its layout
SINCE = 7


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
