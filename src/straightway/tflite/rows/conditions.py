"""What XNNPACK's delegate asks of a node. Source: tflite/delegates/xnnpack/xnnpack_delegate.cc."""

import numpy as np

from straightway.ir import Node
from straightway.tflite.rows.row import Condition

FLOAT32 = np.dtype(np.float32)


def _first_is_float(node: Node) -> bool:
    value = node.inputs[0]
    return value is not None and value.dtype == FLOAT32


FLOAT = Condition(test=_first_is_float, text="only float32 here")
SAME_FLOAT = Condition(
    test=lambda node: all(v.dtype == FLOAT32 for v in node.operands()),
    text="both operands must be float32",
)
UP_TO_6D = Condition(
    test=lambda node: all(v.rank <= 6 for v in node.operands()), text="at most 6 dimensions"
)


def constant(position: int, what: str) -> Condition:
    """An operand must be a constant."""

    def test(node: Node) -> bool:
        value = node.inputs[position] if position < len(node.inputs) else None
        return value is None or value.const is not None

    return Condition(test=test, text=f"{what} must be a constant")
