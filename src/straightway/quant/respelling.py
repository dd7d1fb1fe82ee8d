"""Ops in words that XNNPACK runs with integers.

before                       after
  %y = HARD_SWISH(%x)          %a = RELU6(ADD(%x, const 3))
                               %y = MUL(%x, MUL(%a, const 1/6))
  %y = PRELU(%x, const s)      %y = ADD(%x, RELU(MUL(%x, const s - 1)))
"""

from collections.abc import Mapping, Set as AbstractSet
from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit
from straightway.quant.edges import is_op

PLAIN = {"activation": "NONE"}


def run(graph: Graph, names: AbstractSet[str] | None = None) -> None:
    """Respell what XNNPACK's delegate leaves to TFLite's own kernels, which cuts its partitions.

    With `names`, only nodes of these: int16 has no kernels of them either.
    """
    for node in graph.nodes:
        if names is not None and node.name not in names:
            continue
        if is_op(node, "HARD_SWISH"):
            _hard_swish(graph, node)
        elif is_op(node, "PRELU"):
            _prelu(graph, node)


def _hard_swish(graph: Graph, node: Node) -> None:
    (x,) = node.operands()
    shifted = _made(graph, node, "ADD", [x, _number(graph, 3.0)], {**PLAIN, "pot_scale": False})
    clipped = _made(graph, node, "RELU6", [shifted], {})
    gate = _made(graph, node, "MUL", [clipped, _number(graph, 1 / 6)], PLAIN)
    edit.replace(node, [_made(graph, node, "MUL", [x, gate], PLAIN)])


def _prelu(graph: Graph, node: Node) -> None:
    """Of one slope LEAKY_RELU; else, up to a slope of 1, what a negative number lacks is added."""
    x, slope = node.operands()
    if slope.const is None or not slope.const.size or x.dtype != slope.dtype:
        return
    low, high = float(slope.const.min()), float(slope.const.max())
    if low == high and low != 0:
        edit.replace(node, [_made(graph, node, "LEAKY_RELU", [x], {"alpha": low})])
        return
    if not high <= 1:
        return
    rest = edit.constant(graph, (slope.const - 1).astype(slope.dtype), f"{slope.name}/rest")
    lacks = _made(graph, node, "RELU", [_made(graph, node, "MUL", [x, rest], PLAIN)], {})
    edit.replace(node, [_made(graph, node, "ADD", [x, lacks], {**PLAIN, "pot_scale": False})])


def _made(
    graph: Graph, node: Node, name: str, inputs: list[Value], attrs: Mapping[str, Any]
) -> Value:
    result = Value(graph.fresh(f"{node.output.name}/{name.lower()}"), node.output.type)
    op = Op(dialect="tflite", name=name)
    made = Node(op, inputs, [result], dict(attrs), name=node.name, origins=node.origins)
    return edit.insert(graph, made, node).output


def _number(graph: Graph, number: float) -> Value:
    return edit.constant(graph, np.array(number, np.float32), "number")
