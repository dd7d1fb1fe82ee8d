"""Integer arithmetic that TFLite's kernels lack, written with what they have."""

import functools
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
UINT64 = np.dtype(np.uint64)
LEAST = -(2**63)
# Two halvings of the error by 2**22 leave less than half of one: see `quotient`.
ROUNDS = 3


def is_integer(x: Value) -> bool:
    """Whether the elements are whole numbers."""
    return bool(np.issubdtype(x.dtype, np.integer))


def widened(
    g: Builder, function: Callable[..., Value], *operands: Value, ordered: bool = False
) -> Value:
    """Compute in a wider integer type where a kernel does not take the operands' own.

    The cast back wraps around as the narrow arithmetic would (kernels/cast.cc: static_cast). uint64 is
    computed as int64 of the same bits; what compares (`ordered`) with the topmost bit turned over.
    """
    kind = operands[0].dtype
    if kind == UINT64:
        result = function(*(to_int64(g, x, ordered=ordered) for x in operands))
        return result if result.dtype == np.bool_ else to_uint64(g, result, ordered=ordered)
    try:
        return function(*operands)
    except Impossible:
        if kind not in WIDER:
            raise
    result = function(*(g.cast(x, WIDER[kind]) for x in operands))
    return result if result.dtype == np.bool_ else g.cast(result, kind)


def unsigned(x: Value) -> bool:
    """Whether the elements are whole numbers without a sign."""
    return x.dtype.kind == "u"


def plain(g: Builder, x: Value) -> Value:
    """As int32 or int64, in which sums and products come out right in the low bits: the others wrap around.

    `as_kind` undoes it.
    """
    if x.dtype in (INT32, INT64):
        return x
    signed = np.dtype(f"int{8 * x.dtype.itemsize}")
    return g.bits(x, signed) if signed in (INT32, INT64) else g.cast(x, INT32)


def as_kind(g: Builder, x: Value, kind: np.dtype) -> Value:
    """The low bits of int32 or int64 as another type of whole numbers."""
    return g.bits(x, kind) if x.dtype.itemsize == kind.itemsize else g.cast(x, kind)


def nonzero(g: Builder, x: Value) -> Value:
    """Where elements are not 0."""
    whole = is_integer(x)
    return g.NOT_EQUAL(plain(g, x) if whole else x, 0)


def to_int64(g: Builder, x: Value, *, ordered: bool = False) -> Value:
    """Take uint64 for int64; `ordered` so that the order stays, which turns the topmost bit over."""
    found = g.bits(x, INT64)
    return g.ADD(found, LEAST) if ordered else found


def to_uint64(g: Builder, x: Value, *, ordered: bool = False) -> Value:
    """Undo `to_int64`."""
    return g.bits(g.ADD(x, LEAST) if ordered else x, UINT64)


def halved(g: Builder, x: Value) -> Value:
    """Half of the unsigned number whose bits an int64 has: at least 0."""
    half = quotient(g, g.SUB(x, g.FLOOR_MOD(x, 2)), g.const(2, INT64))
    return g.SELECT_V2(g.LESS(x, 0), g.ADD(half, LEAST), half)


def unsigned_quotient(g: Builder, a: Value, b: Value) -> Value:
    """Divide uint64 that stand as int64 of the same bits.

    Half of the dividend is no negative number; its quotient, doubled, is right or one too small. A
    divisor from 2**63 on goes once or not at all.
    """
    guess = g.MUL(quotient(g, halved(g, a), g.MAXIMUM(b, 1)), 2)
    rest = g.SUB(a, g.MUL(guess, b))
    base = g.SELECT_V2(g.LESS(b, 0), g.const(0, INT64), guess)
    left = g.SELECT_V2(g.LESS(b, 0), a, rest)
    again = g.GREATER_EQUAL(g.ADD(left, LEAST), g.ADD(b, LEAST))
    return g.ADD(base, g.cast(again, INT64))


def unsigned_remainder(g: Builder, a: Value, b: Value) -> Value:
    """What `unsigned_quotient` leaves."""
    return g.SUB(a, g.MUL(unsigned_quotient(g, a, b), b))


def converted(g: Builder, x: Value, dtype: np.dtype) -> Value:
    """Cast, also from and to uint64, which TFLite's CAST lacks (kernels/cast.cc:461).

    Whole numbers keep their low bits. To a float, numbers from 2**63 on go by their halves, of which
    the last bit stands for what was cut, so that they are rounded once.
    """
    if dtype == x.dtype or UINT64 not in (dtype, x.dtype):
        return g.cast(x, dtype)
    if dtype == UINT64:
        return to_uint64(g, _to_unsigned_bits(g, x))
    bits = to_int64(g, x)
    if dtype == np.bool_:
        return g.NOT_EQUAL(bits, 0)
    if np.issubdtype(dtype, np.integer):
        return g.cast(bits, dtype)
    half, odd = halved(g, bits), g.FLOOR_MOD(bits, 2)
    even = g.SUB(half, g.FLOOR_MOD(half, 2))
    sticky = g.ADD(even, g.MAXIMUM(g.FLOOR_MOD(half, 2), odd))
    large = g.MUL(g.cast(sticky, dtype), 2.0)
    return g.SELECT_V2(g.LESS(bits, 0), large, g.cast(bits, dtype))


def _to_unsigned_bits(g: Builder, x: Value) -> Value:
    if x.dtype.kind != "f":
        return g.cast(x, INT64)
    large = g.ADD(g.cast(g.SUB(x, float(2**63)), INT64), LEAST)
    return g.SELECT_V2(g.LESS(x, float(2**63)), g.cast(x, INT64), large)


def magnitude(g: Builder, x: Value) -> Value:
    """Absolute value; TFLite's ABS has no int64 (kernels/elementwise.cc)."""
    if unsigned(x):
        return x
    if x.dtype == INT64:
        return g.MAXIMUM(x, g.NEG(x))
    return g.ABS(x)


def sign(g: Builder, x: Value) -> Value:
    """-1, 0 or 1."""
    if unsigned(x):
        return converted(g, nonzero(g, x), x.dtype)
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
    # of the dividend's sign, so that what is left of the dividend is no larger than it was
    rest = g.SUB(a, truncated_remainder(g, a, b))
    divisor = g.cast(b, np.float32)
    guesses = []
    for _ in range(ROUNDS):
        guess = g.cast(g.ROUND(g.DIV(g.cast(rest, np.float32), divisor)), INT64)
        rest = g.SUB(rest, g.MUL(guess, b))
        guesses.append(guess)
    return functools.reduce(g.ADD, guesses)


def _rounds_up(g: Builder, a: Value, b: Value, left: Value) -> Value:
    """Where truncation gives one more than the floor: signs differ and something remains."""
    opposite = g.NOT_EQUAL(g.LESS(a, 0), g.LESS(b, 0))
    return g.LOGICAL_AND(opposite, g.NOT_EQUAL(left, 0))


def remainder(g: Builder, a: Value, b: Value) -> Value:
    """Return the remainder that has the sign of the divisor.

    By -1 it is that by 1: divided by -1, the least integer ends the process, since the kernel leaves it
    to C's % (kernels/internal/reference/floor_mod.h).
    """
    if not is_integer(b):
        return g.FLOOR_MOD(a, b)
    if b.const is not None:
        return g.FLOOR_MOD(a, g.const(np.where(b.const == -1, 1, b.const), b.dtype))
    return g.FLOOR_MOD(a, g.SELECT_V2(g.EQUAL(b, -1), g.const(1, b.dtype), b))


def truncated_remainder(g: Builder, a: Value, b: Value) -> Value:
    """Return the remainder that has the sign of the dividend, as C's fmod and % do."""
    if is_integer(a):  # the least integer has no magnitude
        left = remainder(g, a, b)
        return g.SUB(left, g.MUL(g.cast(_rounds_up(g, a, b, left), a.dtype), b))
    size = g.FLOOR_MOD(magnitude(g, a), magnitude(g, b))
    return g.MUL(size, sign(g, a))


def non_negative(g: Builder, indices: Value, size: int) -> Value:
    """Let indices count from the front: TFLite's kernels refuse negative ones (kernels/gather.cc).

    Constant indices are checked by the caller's `need`.
    """
    if indices.const is not None:
        return g.const(indices.const % size)
    return wrapped(g, indices, np.array(size, indices.dtype))


def wrapped(g: Builder, indices: Value, sizes: np.ndarray) -> Value:
    """Map [-size, size) to [0, size): by one FLOOR_MOD, which engines of microcontrollers lack."""
    if g.modulo:
        return g.FLOOR_MOD(indices, sizes)
    return g.ADD(indices, g.MUL(g.cast(g.LESS(indices, 0), indices.dtype), sizes))
