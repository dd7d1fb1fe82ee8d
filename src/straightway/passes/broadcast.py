"""Operands that broadcast anyway are not expanded first.

before                                     after
  %a = Expand(%x: f32[1,1,8], [1,4,8])       %y = Add(%x, %b: f32[1,4,8])
  %y = Add(%a, %b: f32[1,4,8])
"""

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.passes.arguments import is_onnx
from straightway.passes.evaluate_elementwise import BINARY, BROADCASTING
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.broadcast"
WIDENING = frozenset({*BINARY, "Div", "Mod", "Pow", "Where"})


def run(graph: Graph) -> list[Remark]:
    """Let elementwise operators read what an Expand only widened."""
    count = 0
    for inner in nested(graph):
        for node in inner.nodes:
            if is_onnx(node, "Expand") and node.inputs[0] is not None:
                count += _bypass(node, node.inputs[0])
    if not count:
        return []
    text = f"{count} operands are broadcast by their operator instead of an Expand before it"
    return [Remark(kind="done", step=STEP, text=text, numbers={"operands": count})]


def _bypass(node: Node, value: Value) -> int:
    count = 0
    for user, index in list(node.output.uses):
        if is_onnx(user, *WIDENING) and _still_widened(user, index, value):
            edit.set_input(user, index, value)
            count += 1
    return count


def _still_widened(user: Node, index: int, value: Value) -> bool:
    """Whether the result keeps its shape when it reads `value` there."""
    result = user.outputs[0].type
    operands = [value if place == index else v for place, v in enumerate(user.inputs)]
    kinds = [v.type for v in operands if v is not None]
    if user.op.version < BROADCASTING or result is None or not result.is_static:
        return False
    shapes = [kind.dims for kind in kinds if kind is not None and kind.is_static]
    return len(shapes) == len(operands) and np.broadcast_shapes(*shapes) == result.shape
