"""How much of a value's range its users tell apart: what an activation cuts off needs no bits.

HardSigmoid is flat outside [-3, 3] (or as its slope has it), HardSwish zero below -3. Sigmoid, Tanh, Elu and
Gelu come nearer to their limits than eight bits tell.
"""

import math
from collections.abc import Mapping

import numpy as np

from straightway.ir import Graph, Node, Value
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.integer import limits
from straightway.tflite.rows import ROWS

Range = tuple[float, float]
ALL: Range = (-math.inf, math.inf)
NONE: Range = (math.inf, -math.inf)
RENAMES = ("RESHAPE", "TRANSPOSE")
# outside, the result is its limit but for less than 1e-4
FLAT: Mapping[str, Range] = {
    "LOGISTIC": (-10.0, 10.0),
    "TANH": (-5.0, 5.0),
    "ELU": (-10.0, math.inf),
    "GELU": (-6.0, math.inf),
}


def needed(graph: Graph) -> dict[Value, Range]:
    """For each value of floats the range that its users tell apart; all of it for outputs."""
    found: dict[Value, Range] = {}
    for node in reversed(list(graph.nodes)):
        for value in node.outputs:
            found[value] = _of_users(graph, value, found)
    for value in graph.inputs:
        found[value] = _of_users(graph, value, found)
    return found


def _of_users(graph: Graph, value: Value, found: Mapping[Value, Range]) -> Range:
    if graph.is_output(value) or value.dtype != FLOAT32:
        return ALL
    low, high = NONE
    for user in value.users():
        own = _of_user(user, value, found)
        low, high = min(low, own[0]), max(high, own[1])
    return (low, high) if low < high else ALL


def _of_user(user: Node, value: Value, found: Mapping[Value, Range]) -> Range:
    if (
        user.graph is None
        or user.op.name not in ROWS
        or user.attrs.get("activation", "NONE") != "NONE"
    ):
        return ALL
    behind = found.get(user.outputs[0], ALL)
    clamp = limits(user)
    if clamp is not None and clamp[0] is value:
        low, high = max(clamp[1], behind[0]), min(clamp[2], behind[1])
        return (low, high) if low < high else ALL
    if user.op.name in FLAT:
        return FLAT[user.op.name]
    if is_op(user, *RENAMES):
        return behind
    number = _constant(user)
    if is_op(user, "ADD") and number is not None:
        return behind[0] - number, behind[1] - number
    if is_op(user, "MUL") and number:
        ends = sorted((behind[0] / number, behind[1] / number))
        return ends[0], ends[1]
    if is_op(user, "MUL") and number is None:
        return _gated(user, value)
    return ALL


def _constant(node: Node) -> float | None:
    """The one number that an op adds or multiplies with."""
    constants = [v.const for v in node.operands() if v.const is not None]
    if len(constants) != 1 or constants[0].size != 1:
        return None
    return float(np.ravel(constants[0])[0])


def _gated(node: Node, value: Value) -> Range:
    """X · k · relu6(x + 3): nothing of x below -3 is left; of x · sigmoid(x) nothing far below zero."""
    gates = [v for v in node.operands() if v is not value]
    gate = gates[0].producer if len(gates) == 1 else None
    if is_op(gate, "LOGISTIC") and value in gate.operands():  # type: ignore[union-attr]
        return FLAT["LOGISTIC"][0], math.inf
    while gate is not None and is_op(gate, "MUL") and _constant(gate) is not None:
        (x,) = (v for v in gate.operands() if v.const is None)
        gate = x.producer
    shifted = gate.operands()[0].producer if gate is not None and is_op(gate, "RELU6") else None
    if shifted is None or not is_op(shifted, "ADD") or value not in shifted.operands():
        return ALL
    number = _constant(shifted)
    return ALL if number is None else (-number, math.inf)
