"""How the weights of ops that compute with floats are stored: hybrid kernels take int8.

before                                        after
  %y = FULLY_CONNECTED(%x, const, float32)      %y = FULLY_CONNECTED(%x, const, int8)
"""

from straightway.ir import Graph, Node, edit
from straightway.quant import weights
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.scheme import INT8, whole_numbers
from straightway.remark import Remark

STEP = "quant.storage"
PRODUCTS = ("FULLY_CONNECTED", "CONV_2D", "DEPTHWISE_CONV_2D")


def run(graph: Graph) -> list[Remark]:
    """Store what hybrid kernels read as int8."""
    count = _store(graph)
    if not count:
        return []
    text = (
        f"{count} products round their operand as they run, each row by its own range, and multiply with "
        "int8 weights: TFLite's hybrid kernels, the model's scales kept"
    )
    return [Remark(kind="done", step=STEP, text=text, numbers={"nodes": count})]


def is_hybrid(node: Node) -> bool:
    """Whether the model rounds the operand of an op as it runs."""
    return bool(node.attrs.get("asymmetric_inputs") or node.attrs.get("rounds"))


def _store(graph: Graph) -> int:
    count = 0
    for node in graph.nodes:
        count += sum(_store(inner) for inner in node.graphs())
        value = node.inputs[1] if is_op(node, *PRODUCTS) else None
        quant = None if value is None else value.quant
        if value is None or quant is None or value.dtype != FLOAT32:
            continue
        if quant.dynamic and not is_op(node, "FULLY_CONNECTED"):
            node.attrs["rounds"] = True
        if is_hybrid(node) and has_kernel(node) and not weights.fault(node):
            made = edit.constant(graph, whole_numbers(value, quant).astype(INT8), value.name)
            made.quant = quant
            edit.set_input(node, 1, made)
            count += 1
    return count


def has_kernel(node: Node) -> bool:
    """Whether XNNPACK's delegate takes int8 weights beside floats: not of grouped convolutions."""
    x, filters = node.operands()[:2]
    return is_op(node, "FULLY_CONNECTED") or (
        is_op(node, "CONV_2D") and x.shape[1] == filters.shape[1]
    )
