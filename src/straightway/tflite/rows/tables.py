"""How far 16-bit kernels that interpolate in a table may be off, in numbers stored, besides rounding.

Between two entries a step apart, a chord is off by at most step²/8 times the curvature. Tables of 513
entries span all numbers of the operand (LUTLookup, kernels/internal/common.h:683).
"""

import math
from collections.abc import Callable

from straightway.ir import Node
from straightway.tflite.rows.conditions import scale_of

# of the 65,536 numbers of the operand, 128 lie between two entries
NUMBERS_APART = 128
# sigmoid_table_uint16 has a step of 1/24; its operand is rounded to 1/12288, by a factor cut to 15 bits
# (kernels/internal/reference/integer_ops/logistic.h:63, tanh.h:55): chord + factor + rounding
# and a scale within 0.001 of a power of two is taken for that (kernels/activations.cc, SigmoidPrepare)
LOGISTIC = 7.0
TANH = 14.0
# a chord of exp over a step of 10/512, and what cutting the inverse of the sum to 16 bits leaves
# (kernels/internal/reference/softmax.h:152)
SOFTMAX = 15.0


def interpolated(curvature: Callable[[Node], float]) -> Callable[[Node], float]:
    """The error of a table over all numbers of the operand, for a function of this curvature."""

    def error(node: Node) -> float:
        if not scale_of(node.output):
            return 0.0  # it is not known yet
        step = NUMBERS_APART * scale_of(node.operands()[0])
        return step**2 / 8 * curvature(node) / scale_of(node.output) + 1

    return error


def always(error: float) -> Callable[[Node], float]:
    """An error that depends on nothing."""
    return lambda _: error


# no bound: its curvature grows without end near zero
STEEP = always(math.inf)
