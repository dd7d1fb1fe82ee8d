"""Ops that are better off with floats: normalisations, and what has floats all around.

Eight bits hold a variance, its root and the inverse of that badly: these span orders of magnitude, and
differences of near numbers lose what is left. So what is computed for a divisor or a root alone, and
what is scaled by it, computes with floats.

Each border between integers and floats costs a conversion of its bytes. What is cheap itself changes
sides where that saves bytes; between ops of one node of the model, such as a normalisation, already
where it costs none, since floats lose nothing.
"""

from collections.abc import Mapping

from straightway.ir import Graph, Node, Value
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.integer import DIVISOR, divides_by_runtime
from straightway.tflite.rows import ROWS

ROOT = "a root needs more than eight bits"
FOR_ROOT = "it is computed for a root or a divisor, which need more than eight bits"
BY_ROOT = "it is scaled by an inverse, which needs more than eight bits"
ROOTS = ("SQRT", "RSQRT")
REDUCTIONS = ("MEAN", "SUM")
RENAMES = ("RESHAPE", "TRANSPOSE", "BROADCAST_TO")
CHEAP = ("elementwise", "reduce", "rename", "along")
BETWEEN = "its neighbours compute with floats, and conversions would cost more"
MOST_ROUNDS = 16


def normalizers(graph: Graph) -> dict[Node, str]:
    """Roots, divisors, what is computed for them alone, and what they scale."""
    found: dict[Node, str] = {}
    for node in graph.nodes:
        if is_op(node, *ROOTS) or divides_by_runtime(node):
            found.setdefault(node, DIVISOR if is_op(node, "DIV") else ROOT)
            _behind(node.operands()[-1], found)
            _scaled(node.output, found)
    for node in [node for node, why in found.items() if why == BY_ROOT]:
        for value in node.operands():  # such as what is left of x less its mean
            if is_op(value.producer, "SUB", "ADD"):
                _behind(value, found)
    return found


def _behind(value: Value, found: dict[Node, str]) -> None:
    """What is computed for nothing else, and reductions, which give few numbers."""
    node = value.producer
    if node is None or node in found or not _is_cheap(node):
        return
    if is_op(node, *REDUCTIONS) or all(user in found for user in value.users()):
        found[node] = FOR_ROOT
        for operand in node.operands():
            _behind(operand, found)


def _scaled(value: Value, found: dict[Node, str]) -> None:
    """Products by an inverse, up to the first with something else that is computed."""
    for user in value.users():
        if user in found or not is_op(user, "MUL", "DIV", *RENAMES):
            continue
        found[user] = BY_ROOT
        others = [v for v in user.operands() if v is not value and v.const is None]
        if not others or value.producer is None:
            _scaled(user.output, found)


def _is_cheap(node: Node) -> bool:
    row = ROWS.get(node.op.name)
    real = any(v.dtype == FLOAT32 for v in node.operands())
    return row is not None and real and row.quant != "weights" and row.layout in CHEAP


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
    # scale and offset of a normalisation belong to it, whatever the model calls them
    related = is_op(node, "ADD", "MUL") and any(v.const is not None for v in node.operands())
    saved, cost = 0, 0
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
