"""Ops that eight bits are not enough for: normalisations.

Eight bits hold a variance, its root and the inverse of that badly: these span orders of magnitude, and
differences of near numbers lose what is left. So what is computed for a divisor or a root alone, and
what is scaled by it, computes with floats.
"""

from straightway.ir import Graph, Node, Value
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.reasons import DIVISOR, divides_by_runtime
from straightway.tflite.rows import ROWS

ROOT = "a root needs more than eight bits"
FOR_ROOT = "it is computed for a root or a divisor, which need more than eight bits"
BY_ROOT = "it is scaled by an inverse, which needs more than eight bits"
ROOTS = ("SQRT", "RSQRT")
REDUCTIONS = ("MEAN", "SUM")
RENAMES = ("RESHAPE", "TRANSPOSE", "BROADCAST_TO")
CHEAP = ("elementwise", "reduce", "rename", "along")


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
