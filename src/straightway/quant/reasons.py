"""Why ops compute with floats: of their own accord, or since others around them do.

Whoever tells it asks here, so that `quantize` and `convert` say the same of the same file.
"""

from collections import deque
from collections.abc import Iterator, Mapping

import numpy as np

from straightway.ir import Node
from straightway.ir.source import is_kept_in_floats
from straightway.quant import weights
from straightway.quant.edges import FLOAT32, is_op, stored
from straightway.quant.scheme import INT8, scheme_of
from straightway.tflite.rows import ROWS

COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
# what comparisons can tell apart
FINEST = 1 / 256
COARSE = "TFLite's 16-bit kernel of it interpolates in a table, and loses more than 8 bits do"
KEPT = "the model keeps it in floats"
DIVISOR = "TFLite's 8-bit DIV fails where a divisor rounds to zero"
LOOP = "what runs in a loop or in a branch computes with floats"
UNEVEN = "TFLite's 8-bit comparison rounds to multiples of 1/256 before it compares, and fails at a scale of 1"
# ops around one that are looked at
MOST_AROUND = 200


def own(node: Node, dtype: np.dtype = INT8) -> str:
    """Why an op has no integers of a type, whatever is around it, or ""."""
    row = ROWS.get(node.op.name)
    if any(node.graphs()):
        return LOOP
    if row is None or dtype not in row.quantized or is_op(node, "QUANTIZE", "DEQUANTIZE"):
        return f"TFLite's {node.op.name} has no {8 * dtype.itemsize}-bit kernel"
    if row.is_coarse(node, dtype):
        return COARSE
    if divides_by_runtime(node):
        return DIVISOR
    return KEPT if is_kept_in_floats(node.origins) else ""


def divides_by_runtime(node: Node) -> bool:
    """Whether a node divides by what is not known to differ from zero (kernels/div.cc: EvalQuantized)."""
    divisor = node.operands()[1] if is_op(node, "DIV") else None
    return divisor is not None and (divisor.const is None or not np.all(divisor.const))


def compares_unevenly(node: Node) -> bool:
    """Whether a comparison of what is stored may give another answer than that of the real numbers.

    Each operand is brought to multiples of 2^-8 by its own scale (kernels/comparisons.cc:96), which is
    one to one where both have the same one. From 1 on the multiplier has a shift that the rounding
    doesn't take (kernels/internal/reference/comparisons.h), and of 1 itself it aborts.
    """
    if not is_op(node, *COMPARISONS):
        return False
    sources = [stored(v) for v in node.operands()]
    schemes = {None if s is None else scheme_of(s) for s in sources}
    scheme = schemes.pop()
    return bool(schemes) or scheme is None or not FINEST <= scheme.scale < 1


def around(node: Node, dtype: np.dtype, known: Mapping[Node, str]) -> str:
    """The nearest op with a reason of its own, among those that floats tie to a node, or "".

    `known` are reasons that only the whole graph tells.
    """
    seen, waiting = {node}, deque([node])
    while waiting and len(seen) < MOST_AROUND:
        for other in _beside(waiting.popleft()):
            if other in seen or is_op(other, "QUANTIZE", "DEQUANTIZE"):
                continue
            reason = own(other, dtype) or known.get(other, "") or _of_weights(other)
            if reason:
                return f"so does {other.op.name} '{other.name}': {reason}"
            seen.add(other)
            waiting.append(other)
    return ""


def _of_weights(node: Node) -> str:
    """What is wrong with integers that weights have; where they have none, the model says nothing."""
    row = ROWS.get(node.op.name)
    given = node.inputs[1] if row is not None and row.quant == "weights" else None
    return "" if given is None or given.quant is None else weights.fault(node)


def _beside(node: Node) -> Iterator[Node]:
    """What makes the floats that a node reads, and what reads those that it makes."""
    for value in node.operands():
        if value.dtype == FLOAT32 and value.producer is not None:
            yield value.producer
    for value in node.outputs:
        if value.dtype == FLOAT32:
            yield from (user for user in value.users() if user.graph is not None and user.outputs)
