"""A model whose windows are padded by their pads, not by auto_pad, where that is the same at any size.

PyTorch's exporter writes SAME_UPPER for padding="same", with dilations that onnxruntime refuses beside it.
ONNX's evaluator forgets the dilations where it counts the windows of VALID (onnx/reference/ops/op_pool_common.py:
get_output_shape_auto_pad); onnxruntime takes none beside auto_pad.
"""

import onnx

from straightway.onnx_io.check import graphs

WINDOWS = {"AveragePool", "Conv", "LpPool", "MaxPool"}
AUTO_PAD, VALID = "auto_pad", b"VALID"
SAME = {b"SAME_UPPER", b"SAME_LOWER"}


def same_pads(model: onnx.ModelProto) -> bool:
    """Write the pads of SAME for convolutions that step by one: no size changes them."""
    changed = False
    for graph in graphs(model.graph):
        for node in graph.node:
            found = {a.name: a for a in node.attribute}
            own = node.op_type == "Conv" and node.domain in ("", "ai.onnx")
            if not own or AUTO_PAD not in found or found[AUTO_PAD].s not in SAME:
                continue
            strides = found["strides"].ints if "strides" in found else ()
            if "kernel_shape" not in found or any(stride != 1 for stride in strides):
                continue
            kernel = found["kernel_shape"].ints
            dilations = found["dilations"].ints if "dilations" in found else [1] * len(kernel)
            totals = [step * (size - 1) for step, size in zip(dilations, kernel, strict=True)]
            less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
            upper = found[AUTO_PAD].s == b"SAME_UPPER"
            pads = [*less, *more] if upper else [*more, *less]
            kept = [a for a in node.attribute if a.name not in (AUTO_PAD, "pads")]
            del node.attribute[:]
            node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])
            changed = True
    return changed


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
