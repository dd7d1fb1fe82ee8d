"""A model whose windows have no padding by their pads, not by auto_pad VALID, which is the same.

ONNX's evaluator forgets the dilations where it counts the windows of VALID (onnx/reference/ops/op_pool_common.py:
get_output_shape_auto_pad); onnxruntime takes none beside auto_pad.
"""

import onnx

from straightway.onnx_io.check import graphs

WINDOWS = {"AveragePool", "Conv", "LpPool", "MaxPool"}
AUTO_PAD, VALID = "auto_pad", b"VALID"


def valid_pads(model: onnx.ModelProto) -> bool:
    """Leave out VALID: the pads are zero without it."""
    changed = False
    for graph in graphs(model.graph):
        for node in graph.node:
            if node.op_type not in WINDOWS or node.domain not in ("", "ai.onnx"):
                continue
            if any(a.name == "ceil_mode" and a.i for a in node.attribute):
                continue  # of that together with VALID, ONNX says nothing
            kept = [a for a in node.attribute if (a.name, a.s) != (AUTO_PAD, VALID)]
            changed |= len(kept) != len(node.attribute)
            del node.attribute[:]
            node.attribute.extend(kept)
    return changed
