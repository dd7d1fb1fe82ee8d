"""16-bit integers with zero points, which TFLite has not: rounding by them takes many ops on floats."""

import numpy as np

from straightway.ir import Graph, Node
from straightway.passes.arguments import is_onnx
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "quant.asymmetric"
UINT16 = np.dtype(np.uint16)
SIXTEEN_BITS = (np.dtype(np.int16), UINT16)


def run(graph: Graph) -> list[Remark]:
    """Say what would avoid them."""
    count = sum(_has_zero_point(node) for inner in nested(graph) for node in inner.nodes)
    if not count:
        return []
    text = (
        f"{count} roundings to 16 bits have zero points, which TFLite's 16-bit integers have not: they are "
        "computed with floats, op by op. Symmetric int16 activations have none (onnxruntime: "
        "activation_type=QuantType.QInt16, extra_options={'ActivationSymmetric': True})"
    )
    return [Remark(kind="missed", step=STEP, text=text, numbers={"nodes": count})]


def _has_zero_point(node: Node) -> bool:
    """Whether a node rounds to 16 bits, zero being no zero."""
    if not is_onnx(node, "QuantizeLinear") or node.outputs[0].dtype not in SIXTEEN_BITS:
        return False
    zero_point = node.inputs[2] if len(node.inputs) > 2 else None
    known = None if zero_point is None else zero_point.const
    return node.outputs[0].dtype == UINT16 or bool(known is not None and np.any(known))
