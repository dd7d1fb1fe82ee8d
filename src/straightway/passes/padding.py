"""Zeros around a convolution's operand become the convolution's own padding.

before                                              after
  %a = Pad(%x, pads=[0,0,1,1, 0,0,2,2])               %y = Conv(%x, %w) {pads=(1, 1, 2, 2)}
  %y = Conv(%a, %w)
"""

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.passes.arguments import RuntimeOperandError, argument, integers, is_onnx
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.padding"


def run(graph: Graph) -> list[Remark]:
    """Join each Pad of zeros that only convolutions read, in their spatial dimensions."""
    count = 0
    for inner in nested(graph):
        for node in inner.nodes:
            if is_onnx(node, "Conv"):
                count += _join(inner, node)
    if not count:
        return []
    text = f"{count} pads of zeros became padding of convolutions"
    return [Remark(kind="done", step=STEP, text=text, numbers={"nodes": count})]


def _join(graph: Graph, node: Node) -> bool:
    value = node.inputs[0]
    before = value.producer if value is not None else None
    if before is None or value is None or not is_onnx(before, "Pad") or len(value.uses) != 1:
        return False
    if argument(node, "auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    try:
        amounts = _spatial_amounts(before, value)
    except RuntimeOperandError:
        return False
    if amounts is None:
        return False
    own = argument(node, "pads") or (0,) * len(amounts)
    attrs = {key: v for key, v in node.attrs.items() if key != "auto_pad"}
    attrs["pads"] = tuple(a + b for a, b in zip(own, amounts, strict=True))
    result = Value(graph.fresh(node.output.name), node.output.type)
    inputs = [before.inputs[0], *node.inputs[1:]]
    made = Node(node.op, inputs, [result], attrs, name=node.name)
    edit.insert(graph, made, node)
    edit.replace(node, [result], before.origins)
    edit.remove(before)
    return True


def _spatial_amounts(node: Node, result: Value) -> tuple[int, ...] | None:
    """Begins and ends of the spatial dimensions, or None where the Pad does anything else."""
    if argument(node, "mode") != "constant" or _fill(node) != 0 or result.type is None:
        return None
    if argument(node, "axes") is not None or node.op.version < 2:
        return None
    amounts = integers(argument(node, "pads")) or ()
    rank = result.type.rank
    begins, ends = amounts[:rank], amounts[rank:]
    if len(ends) != rank or any(amount < 0 for amount in amounts):
        return None
    if any(begins[:2]) or any(ends[:2]):
        return None
    return (*begins[2:], *ends[2:])


def _fill(node: Node) -> float:
    value = argument(node, "constant_value", argument(node, "value", 0.0))
    return float(np.asarray(value).reshape(-1)[0])
