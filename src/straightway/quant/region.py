"""Ops that gain nothing by integers, because their neighbours compute with floats.

Each border between integers and floats costs a conversion of its bytes. What is cheap itself changes
sides where that saves bytes; between ops of one node of the model, such as a normalisation, already
where it costs none, since floats lose nothing.
"""

from collections.abc import Mapping

from straightway.ir import Graph, Node, Value
from straightway.quant.edges import FLOAT32
from straightway.tflite.rows import ROWS

BETWEEN = "its neighbours compute with floats, and conversions would cost more"
MOST_ROUNDS = 16


def grow(graph: Graph, floats: dict[Node, str], makers: Mapping[Node, Node]) -> None:
    """Add to `floats` what is better off there, until nothing changes."""
    for _ in range(MOST_ROUNDS):
        found = [n for n in graph.nodes if n not in floats and _joins(graph, n, floats, makers)]
        if not found:
            return
        floats.update(dict.fromkeys(found, BETWEEN))


def _joins(
    graph: Graph, node: Node, floats: Mapping[Node, str], makers: Mapping[Node, Node]
) -> bool:
    row = ROWS.get(node.op.name)
    real = [v for v in (*node.operands(), *node.outputs) if v.const is None and v.dtype == FLOAT32]
    if row is None or row.quant == "weights" or not real:
        return False
    saved, cost, related = 0, 0, False
    for value in real:
        others = [u for u in value.users() if u is not node]
        if value.producer is not node and value.producer is not None:
            others = [value.producer]
        beside = [other for other in others if other in floats or other is graph.exit]
        related |= any(makers.get(other) is makers.get(node, node) for other in beside)
        if len(beside) == len(others) and others:
            saved += _bytes(value)
        else:
            cost += _bytes(value)
    is_between = any(v.producer in floats for v in real if v.producer is not None)
    return is_between and (saved > cost or (saved == cost and related))


def _bytes(value: Value) -> int:
    return value.known_type.size
