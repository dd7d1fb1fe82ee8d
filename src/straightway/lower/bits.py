"""Bits: shifts, bitwise logic, and the same bits under another type."""

import numpy as np

from straightway.errors import NotYet
from straightway.ir import TensorType, Value
from straightway.lower.broadcast import spread
from straightway.lower.builder import Builder
from straightway.lower.declare import Case, case, lower, need, run
from straightway.lower.integers import (
    INT64,
    UINT64,
    quotient,
    to_int64,
    to_uint64,
)

LONGS = run([[5, -3, 2**62 + 7]], np.int64)
HUGE = run([[5, 2**64 - 3, 2**63 + 7]], np.uint64)
SHIFTS = run([[0], [1], [33], [63], [64], [200]], np.uint64)
BITS = 8 * INT64.itemsize
# 1, 2, 4 … and what is left of a one that was shifted out: nothing
POWERS = np.array([*(1 << k for k in range(BITS - 1)), -(1 << (BITS - 1)), 0], np.int64)
# what a shift to the right leaves of 64 ones
REMAINS = np.array([*(((1 << (BITS - k)) - 1) for k in range(BITS)), 0], np.uint64).view(np.int64)
RIGHTS = [
    case(x=run([[16, 200, 1]], np.uint8), y=np.array([1, 2, 9], np.uint8), direction="RIGHT"),
    case(x=run([[2**31, 4, 9]], np.uint32), y=run([[31, 1, 32]], np.uint32), direction="RIGHT"),
    case(x=HUGE, y=SHIFTS, direction="RIGHT"),
    case(
        x=run([[-8, 4, -1]], np.int8),
        y=run([[1, 9, 3], [-1, 0, 127]], np.int8),
        direction="RIGHT",
        opset=28,
    ),
    case(
        x=run([[-8, 4, -(2**31)]], np.int32),
        y=run([[1, 99, 31], [-1, 0, 30]], np.int32),
        direction="RIGHT",
        opset=28,
    ),
    case(
        x=run([[-(2**62) - 8, 2**62 + 5, -(2**63)]], np.int64),
        y=run([[1, 62, 63], [-1, 0, 40]], np.int64),
        direction="RIGHT",
        opset=28,
    ),
]
LEFTS = [
    case(x=run([[200, 4, 1]], np.uint8), y=np.array([1, 2, 3], np.uint8), direction="LEFT"),
    case(x=run([[2**31, 4, 1]], np.uint32), y=np.array(2, np.uint32), direction="LEFT"),
    case(x=run([[3, 4, 9]], np.uint32), y=run([[31, 1, 32]], np.uint32), direction="LEFT"),
    case(x=HUGE, y=SHIFTS, direction="LEFT"),
    case(
        x=run([[-8, 4, 64]], np.int8),
        y=run([[1, 9, 1], [-1, 0, 127]], np.int8),
        direction="LEFT",
        opset=28,
    ),
    case(
        x=run([[-8, 2**62 + 5, 1]], np.int64),
        y=run([[1, 2, 63], [-1, 0, 64]], np.int64),
        direction="LEFT",
        opset=28,
    ),
]


@lower(
    "BitShift",
    needs=[
        need(
            lambda direction: direction in ("LEFT", "RIGHT"),
            "direction must be LEFT or RIGHT; got {direction}",
            kernel="onnx/docs/Operators.md#BitShift",
        )
    ],
    samples=[*RIGHTS, *LEFTS],
    refuses=[case(x=run([[16]], np.uint8), y=np.array([1], np.uint8), direction="DOWN")],
)
def bit_shift(g: Builder, x: Value, y: Value, /, direction: str) -> Value:
    """To the left a product with a power of two; to the right RIGHT_SHIFT, or by a power of two."""
    width = 8 * x.dtype.itemsize
    count = _count(g, y, width)
    bits = to_int64(g, x) if x.dtype == UINT64 else x
    if direction == "LEFT":
        product = g.MUL(g.cast(bits, INT64), _looked_up(g, POWERS, count, width))
        return to_uint64(g, product) if x.dtype == UINT64 else g.cast(product, x.dtype)
    if width < BITS:
        # the kernel takes a width for one less (kernels/right_shift.cc:69): the last bit goes by itself
        most = g.MINIMUM(count, width - 1)
        last = g.SUB(count, most)
        once = g.RIGHT_SHIFT(x, g.cast(most, x.dtype))
        return g.RIGHT_SHIFT(once, g.cast(last, x.dtype))
    shifted = _floor_shift(g, bits, count)
    if x.dtype != UINT64:
        return shifted
    return to_uint64(g, both(g, shifted, _looked_up(g, REMAINS, count, width)))


def _count(g: Builder, y: Value, width: int) -> Value:
    """Bits to shift by, as int64; whatever is out of [0, width) shifts all of them out."""
    bits = to_int64(g, y) if y.dtype == UINT64 else g.cast(y, INT64)
    return g.SELECT_V2(g.LESS(bits, 0), g.const(width, INT64), g.MINIMUM(bits, width))


def _looked_up(g: Builder, table: np.ndarray, count: Value, width: int) -> Value:
    """The entry of a table at each count; a shift by all `width` bits stands at its end."""
    entries = np.array([*table[:width], table[-1]], np.int64)
    return g.GATHER(g.const(entries), count, axis=0)


def _floor_shift(g: Builder, x: Value, count: Value) -> Value:
    """Divide int64 by a power of two, downwards; by 2**63 and more, the sign is left."""
    power = _looked_up(g, np.minimum(POWERS.view(np.uint64), 2**62).view(np.int64), count, BITS)
    power = g.MAXIMUM(power, 1)
    multiple = g.SUB(x, g.FLOOR_MOD(x, power))
    sign = g.SELECT_V2(g.LESS(x, 0), g.const(-1, INT64), g.const(0, INT64))
    return g.SELECT_V2(g.LESS(count, BITS - 1), quotient(g, multiple, power), sign)


def both(g: Builder, a: Value, b: Value) -> Value:
    """The bits that both have."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    return g.STABLEHLO_AND(spread(g, a, shape), spread(g, b, shape))


def _pairs(dtypes: tuple[type, ...]) -> list[Case]:
    return [case(a=run([[5, 127]], t), b=run([[6], [7]], t)) for t in dtypes]


PAIRS = [
    *_pairs((np.uint8, np.int16, np.uint16, np.uint32)),
    case(a=run([[5, -3]], np.int32), b=run([[[6], [7]]], np.int32)),
    case(a=run([[5, -3]], np.int8), b=np.array([7, 9], np.int8)),
    case(a=LONGS, b=run([[6], [2**62 + 3], [-1]], np.int64)),
    case(a=HUGE, b=run([[6], [2**63 + 3], [2**64 - 1]], np.uint64)),
]


@lower("BitwiseAnd", samples=PAIRS)
def bitwise_and(g: Builder, a: Value, b: Value, /) -> Value:
    """One op."""
    return both(g, a, b)


@lower("BitwiseXor", samples=PAIRS)
def bitwise_xor(g: Builder, a: Value, b: Value, /) -> Value:
    """One op; without one for 64 bits, the sum less twice what both have."""
    return _without_common(g, a, b, 2)


@lower("BitwiseOr", samples=PAIRS)
def bitwise_or(g: Builder, a: Value, b: Value, /) -> Value:
    """What differs, and what both have; of 64 bits, the sum less what both have."""
    return _without_common(g, a, b, 1)


def _without_common(g: Builder, a: Value, b: Value, times: int) -> Value:
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = spread(g, a, shape), spread(g, b, shape)
    if a.dtype.itemsize < INT64.itemsize:
        differing = g.BITWISE_XOR(a, b)
        return differing if times == 2 else g.BITWISE_XOR(differing, both(g, a, b))
    x, y = (to_int64(g, v) if v.dtype == UINT64 else v for v in (a, b))
    common = both(g, x, y)
    result = g.SUB(g.ADD(x, y), g.MUL(common, times) if times > 1 else common)
    return to_uint64(g, result) if a.dtype == UINT64 else result


@lower(
    "BitwiseNot",
    samples=[
        case(x=run([[5, -3]], np.int32)),
        case(x=run([[5]], np.uint16)),
        case(x=LONGS),
        case(x=HUGE),
    ],
)
def bitwise_not(g: Builder, x: Value, /) -> Value:
    """Differs from all ones; of 64 bits, minus one less the number."""
    if x.dtype.itemsize < INT64.itemsize:
        return g.BITWISE_XOR(x, g.const(~np.zeros((), x.dtype)))
    bits = to_int64(g, x) if x.dtype == UINT64 else x
    result = g.SUB(-1, bits)
    return to_uint64(g, result) if x.dtype == UINT64 else result


@lower(
    "BitCast",
    samples=[
        case(input=run([[1.5, -0.0, np.inf]]), to=6, opset=26),
        case(input=run([[1, -5]], np.int32), to=1, opset=26),
        case(input=run([[True, False]], bool), to=2, opset=26),
        case(input=run([[1, -5]], np.int64), to=13, opset=26),
    ],
)
def bit_cast(g: Builder, x: Value, /, *, to: int, out: list[TensorType]) -> Value:
    """One op; not of what is computed in another type than the model's."""
    if x.dtype.itemsize != out[0].dtype.itemsize:
        raise NotYet(f"{x.dtype} stands for another type here, whose bits are not known")
    return g.bits(x, out[0].dtype)
