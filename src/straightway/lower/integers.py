"""Integer arithmetic that TFLite's kernels lack, written with what they have."""

from collections.abc import Callable

import numpy as np

from straightway.errors import Impossible
from straightway.ir import Value
from straightway.lower.builder import Builder

INT32 = np.dtype(np.int32)
INT64 = np.dtype(np.int64)
# TFLite's arithmetic reads 8- and 16-bit integers as quantized numbers and aborts without their
# parameters (kernels/add.cc, kernels/comparisons.cc); it has no unsigned 32-bit arithmetic.
WIDER = {
    np.dtype(np.int8): INT32,
    np.dtype(np.uint8): INT32,
    np.dtype(np.int16): INT32,
    np.dtype(np.uint16): INT32,
    np.dtype(np.uint32): INT64,
}
# Two halvings of the error by 2**22 leave less than half of one: see `quotient`.
ROUNDS = 3


def is_integer(x: Value) -> bool:
    """Whether the elements are whole numbers."""
    return bool(np.issubdtype(x.dtype, np.integer))


def widened(g: Builder, function: Callable[..., Value], *operands: Value) -> Value:
    """Compute in a wider integer type where a kernel does not take the operands' own.

    The cast back wraps around as the narrow arithmetic would (kernels/cast.cc: static_cast).
    """
    kind = operands[0].dtype
    try:
        return function(*operands)
    except Impossible:
        if kind not in WIDER:
            raise
    result = function(*(g.cast(x, WIDER[kind]) for x in operands))
    return result if result.dtype == np.bool_ else g.cast(result, kind)


def magnitude(g: Builder, x: Value) -> Value:
    """Absolute value; TFLite's ABS has no int64 (kernels/elementwise.cc)."""
    if x.dtype == INT64:
        return g.MAXIMUM(x, g.NEG(x))
    return g.ABS(x)


def sign(g: Builder, x: Value) -> Value:
    """-1, 0 or 1."""
    if is_integer(x):
        return g.MINIMUM(g.MAXIMUM(x, -1), 1)
    return g.SIGN(x)


def quotient(g: Builder, a: Value, b: Value) -> Value:
    """Divide integers towards zero.

    TFLite's DIV has no int64 (kernels/div.cc). There the dividend less the remainder is a multiple
    of the divisor; float32 estimates its quotient to 2**-22, the estimate's error is estimated
    again, and the third estimate is exact over all int64.
    """
    if a.dtype != INT64:
        return g.DIV(a, b)
    remainder = g.FLOOR_MOD(a, b)
    rest = g.SUB(a, remainder)
    total = None
    divisor = g.cast(b, np.float32)
    for _ in range(ROUNDS):
        guess = g.cast(g.ROUND(g.DIV(g.cast(rest, np.float32), divisor)), INT64)
        rest = g.SUB(rest, g.MUL(guess, b))
        total = guess if total is None else g.ADD(total, guess)
    return g.ADD(total, g.cast(_rounds_up(g, a, b, remainder), INT64))


def _rounds_up(g: Builder, a: Value, b: Value, remainder: Value) -> Value:
    """Where truncation gives one more than the floor: signs differ and something remains."""
    opposite = g.NOT_EQUAL(g.LESS(a, 0), g.LESS(b, 0))
    return g.LOGICAL_AND(opposite, g.NOT_EQUAL(remainder, 0))


def truncated_remainder(g: Builder, a: Value, b: Value) -> Value:
    """Return the remainder that has the sign of the dividend, as C's fmod and % do.

    The least int64 has no magnitude, so that it has no remainder here either.
    """
    size = g.FLOOR_MOD(magnitude(g, a), magnitude(g, b))
    return g.MUL(size, sign(g, a))


def non_negative(g: Builder, indices: Value, size: int) -> Value:
    """Let indices count from the front: TFLite's kernels refuse negative ones (kernels/gather.cc).

    Constant indices are checked by the caller's `need`; at run time one FLOOR_MOD maps [-size, size).
    """
    if indices.const is not None:
        return g.const(indices.const % size)
    return g.FLOOR_MOD(indices, size)
