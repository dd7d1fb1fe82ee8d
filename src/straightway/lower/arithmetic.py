"""Arithmetic of two operands or more."""

import numpy as np

from straightway.ir import Value
from straightway.lower.broadcast import aligned, spread
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import (
    INT64,
    UINT64,
    converted,
    is_integer,
    magnitude,
    quotient,
    remainder,
    truncated_remainder,
    unsigned_quotient,
    unsigned_remainder,
    widened,
)

FLOAT64 = np.dtype(np.float64)
# from the power of so many on, all numbers but 1, 0 and -1 overflow int64
BITS = 64
LONGS = run([[-(2**62), 0, 7], [3, -(2**31), 12345678901234567]], np.int64)
DIVISORS = run([[-3, 5, -2], [7, 1, 1000003]], np.int64)
LEAST = run([[-(2**63), -(2**63), 5], [-(2**63), 2**63 - 1, -5]], np.int64)
LEAST_DIVISORS = run([[-1, 7, -1], [-7, -10, 3]], np.int64)
INTS = run([[-7, 0, 7], [3, -(2**31), 2**31 - 1]], np.int32)
INT_DIVISORS = run([[2, 5, -2]], np.int32)
BYTES = run([[-7, 0, 7], [100, -128, 127]], np.int8)
BYTE_DIVISORS = run([[2, 5, -3]], np.int8)
HUGE = run([[2**64 - 1, 2**63, 7], [2**64 - 2, 2**63 + 12345678901, 2**62]], np.uint64)
HUGE_DIVISORS = run([[3, 2**63 + 1, 2**40 + 1], [2**64 - 1, 10**9 + 7, 2**62]], np.uint64)
UNSIGNED = run([[7, 0, 2**32 - 1]], np.uint32)
PAIRS = [
    case(a=(2, 3, 4, 5), b=(3, 1, 5)),
    case(a=(4, 5), b=(2, 3, 1, 1)),
    case(a=(2, 3, 4, 5), b=np.array(1.5, np.float32)),
    case(a=(2, 3, 4, 5), b=np.linspace(1, 3, 3, dtype=np.float32), axis=1, broadcast=1, opset=6),
    case(a=(2, 3, 1, 2, 1, 3, 2), b=(3, 4, 1, 5, 1, 2)),
    case(a=LONGS, b=DIVISORS),
    case(a=INTS, b=INT_DIVISORS),
    case(a=BYTES, b=BYTE_DIVISORS),
    case(a=UNSIGNED, b=run([[3, 5, 7]], np.uint32)),
    case(a=HUGE, b=HUGE_DIVISORS),
]

DOUBLES = case(a=run([[1.1, -2e300, 3.0]], np.float64), b=run([[1e-9], [1e300]], np.float64))


def in_float64(g: Builder, name: str, a: Value, b: Value) -> Value:
    """StableHLO's ops have kernels of float64, for operands of one shape; a difference is a sum."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    x, y = spread(g, a, shape), spread(g, b, shape)
    if name == "MUL":
        return g.STABLEHLO_MULTIPLY(x, y)
    if name == "SUB":
        y = g.STABLEHLO_MULTIPLY(y, g.const(np.full(shape, -1.0)))
    return g.STABLEHLO_ADD(x, y)


for onnx_name, tflite_name in {"Add": "ADD", "Sub": "SUB", "Mul": "MUL"}.items():

    @lower(onnx_name, samples=[*PAIRS, DOUBLES])
    def arithmetic(
        g: Builder,
        a: Value,
        b: Value,
        /,
        axis: int | None = None,
        broadcast: int = 0,
        *,
        _name: str = tflite_name,
    ) -> Value:
        """One op for one op."""
        b = aligned(g, a, b, axis, broadcast)
        if a.dtype == FLOAT64:
            return in_float64(g, _name, a, b)
        return widened(g, lambda *xs: g.emit(_name, xs, {}), a, b)


@lower("Div", samples=PAIRS)
def divide(g: Builder, a: Value, b: Value, /, axis: int | None = None, broadcast: int = 0) -> Value:
    """One op; integers divide towards zero."""
    b = aligned(g, a, b, axis, broadcast)
    if a.dtype == UINT64:
        return widened(g, lambda *xs: unsigned_quotient(g, *xs), a, b)
    return widened(g, lambda *xs: quotient(g, *xs) if is_integer(a) else g.DIV(*xs), a, b)


@lower(
    "Mod",
    samples=[
        case(a=LONGS, b=DIVISORS),
        case(a=LONGS, b=DIVISORS, fmod=1),
        case(a=LEAST, b=LEAST_DIVISORS),
        case(a=LEAST, b=LEAST_DIVISORS, fmod=1),
        case(a=LEAST, b=np.array(-1, np.int64)),
        case(a=HUGE, b=HUGE_DIVISORS),
        case(a=BYTES, b=BYTE_DIVISORS),
        case(a=BYTES, b=BYTE_DIVISORS, fmod=1),
        case(a=(2, 3, 5), b=(3, 1), fmod=1),
        case(a=(2, 3, 1, 2, 3), b=(3, 4, 1, 1), fmod=1),
    ],
)
def modulo(g: Builder, a: Value, b: Value, /, fmod: int) -> Value:
    """The remainder with the divisor's sign is one op; with the dividend's sign it is composed."""
    if a.dtype == UINT64:
        return widened(g, lambda *xs: unsigned_remainder(g, *xs), a, b)
    if fmod:
        return widened(g, lambda *xs: truncated_remainder(g, *xs), a, b)
    return widened(g, lambda *xs: remainder(g, *xs), a, b)


# floats beyond it are even; of all whole numbers but 1, 0 and -1, such powers overflow
MOST_EXPONENT = 2.0**24
# exponents that int32 does not hold
BEYOND = (INT64, np.dtype(np.uint32), np.dtype(np.uint64))


def has_whole_power(x: Value, y: Value) -> bool:
    """Whether powers of whole numbers are whole, as far as the exponent is known."""
    if not is_integer(x) or is_integer(y) or y.const is None:
        return True
    return bool((y.const == np.floor(y.const)).all())


@lower(
    "Pow",
    needs=[
        need(
            has_whole_power,
            "powers of whole numbers that are cut off must be right to the last bit, and POW has floats of 24 "
            "bits only; got {x.type} to the power of fractions",
            kernel="kernels/pow.cc:70",
            remedy="cast the base to float32",
        )
    ],
    refuses=[case(x=run([[3, 2, 9]], np.int64), y=np.array([[0.5, 40.0, 1.5]], np.float32))],
    samples=[
        case(x=(2, 3, 5), y=np.array(2, np.float32)),
        case(x=(2, 3, 5), y=np.array([3], np.int64)),
        case(x=(2, 3, 5), y=np.array(1, np.float32)),
        case(x=run([[0.9, 1.5]]), y=np.array([[100], [-70]])),
        case(x=run([[0.9, 1.5]]), y=run([[100], [-70]], np.int64)),
        case(x=(2, 3, 5), y=np.array(-1, np.float32)),
        case(x=run([[0.25, 2.0, 9.0]]), y=np.array(0.5, np.float32)),
        case(x=run([[0.25, 2.0, 9.0]]), y=np.array(-0.5, np.float32)),
        case(x=run([[0.25, 2.0, 9.0]]), y=(2, 1)),
        case(x=run([[0.25, 2.0, 9.0]]), y=np.array([[0.3], [-1.7]], np.float32)),
        case(x=run([[-3, 2, 9]], np.int32), y=run([[3], [2]], np.int32)),
        case(x=run([[-1, 1, 9]], np.int32), y=run([[-3], [2], [-2]], np.int32)),
        case(x=run([[-1, 1, 2, -(2**31)]], np.int32), y=run([[-(2**31)], [-1], [1]], np.int32)),
        case(x=run([[-1, 1, 2]], np.int32), y=np.array(-(2**31), np.int32)),
        case(x=run([[-1, 1, 0]], np.int32), y=np.array(2**31, np.uint32)),
        case(x=run([[-1, 1, 0]], np.int32), y=run([[2**31], [2**32 - 1], [3]], np.uint32)),
        case(x=run([[-1, 1, 0]], np.int64), y=np.array([[2**40 + 1], [2**24 + 2]])),
        case(x=run([[-3, 2, 9]], np.int64), y=np.array(2, np.int64)),
        case(x=run([[-3, 2, 9]], np.int64), y=np.array([[11, 40, 5]], np.int64)),
        case(x=run([[-1, 1, -3, 2, 9]], np.int64), y=run([[-3], [5], [0], [16]], np.int64)),
        case(x=run([[-1, 1, 0]], np.int64), y=run([[64], [67], [100]], np.int64)),
        case(x=run([[-3, 2, 9]], np.int32), y=np.array(4, np.int32)),
        case(x=run([[-3, 2, 9]], np.int32), y=run([[3.0], [0.0], [2.0]])),
        case(x=run([[3, 2, 9]], np.int64), y=run([[0.5, 40.0, 1.5]])),
        case(x=run([[3, 2, 9]], np.int64), y=np.array([[5.0, 40.0, 0.0]], np.float32)),
        case(
            x=run([[[[[0.25]], [[2.0]]]]]),
            y=np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3, 1, 1, 1),
        ),
    ],
)
def power(g: Builder, x: Value, y: Value, /, axis: int | None = None, broadcast: int = 0) -> Value:
    """Small constant exponents are products, roots and quotients; the others take POW.

    √x of minus infinity is NaN, where ONNX's power of one half gives infinity.
    """
    y = aligned(g, x, y, axis, broadcast)
    if y.const is not None and y.const.size == 1 and y.rank <= x.rank:
        special = _special_power(g, x, float(y.const.reshape(-1)[0]))
        if special is not None:
            return special
    if is_integer(x) and not is_integer(y):
        return _real_power(g, x, y)
    return _plain_power(g, x, y)


def _real_power(g: Builder, x: Value, y: Value) -> Value:
    """Whole numbers to the power of floats: exact where the exponent is whole, else cut off at 24 bits."""
    whole = _plain_power(g, x, _whole_exponent(g, y))
    if y.const is not None and (y.const == np.floor(y.const)).all():
        return whole
    g.note(
        "where an exponent is no whole number, the power is right to 24 bits before it is cut off"
    )
    real = converted(g, g.POW(converted(g, x, y.dtype), y), x.dtype)
    return g.SELECT_V2(g.EQUAL(y, g.FLOOR(y)), whole, real)


def _whole_exponent(g: Builder, y: Value) -> Value:
    """Floats as exponents of whole numbers: larger ones are even, and as good as the bound."""
    if y.const is not None:
        return g.const(np.clip(y.const.astype(np.float64), -MOST_EXPONENT, MOST_EXPONENT), INT64)
    wide = g.cast(y, np.float32)
    return g.cast(g.MAXIMUM(g.MINIMUM(wide, MOST_EXPONENT), -MOST_EXPONENT), INT64)


def _plain_power(g: Builder, x: Value, y: Value) -> Value:
    if not is_integer(x):
        return g.POW(x, converted(g, y, x.dtype))
    if y.const is not None:
        y = g.const(_near(y.const))
    is_long = y.dtype in BEYOND and (y.const is None or (abs(y.const) > BITS).any())
    if x.dtype != INT64 and is_long:
        wide = [value if value.dtype == INT64 else g.cast(value, INT64) for value in (x, y)]
        return g.cast(_long_power(g, *wide), x.dtype)
    exponent = converted(g, y, x.dtype)
    if x.dtype == INT64:
        return _long_power(g, x, exponent)
    if y.const is not None and (y.const >= 0).all():
        return g.POW(x, exponent)
    return _whole_power(g, x, exponent)


def _near(exponents: np.ndarray) -> np.ndarray:
    """Exponents of whole numbers; beyond the bound all that matters is whether they are odd."""
    if exponents.dtype.kind == "u":
        most = np.array(MOST_EXPONENT, exponents.dtype)
        return np.where(exponents > most, most + exponents % 2, exponents)
    near = np.clip(exponents.astype(np.int64), -int(MOST_EXPONENT), int(MOST_EXPONENT))
    return np.where(near == exponents, exponents, near + exponents % 2).astype(exponents.dtype)


def _long_power(g: Builder, x: Value, y: Value) -> Value:
    """Squares, multiplied where the exponent has a bit: TFLite's POW has no int64 (kernels/pow.cc:70).

    Beyond 63 all powers but those of 1, 0 and -1 overflow; whether they are odd is all that matters.
    """
    size = magnitude(g, y)
    odd = g.FLOOR_MOD(size, 2)
    rest = g.SELECT_V2(g.LESS(size, BITS), size, g.ADD(odd, BITS - 2))
    power, result = x, g.const(1, INT64)
    for place in range(BITS.bit_length() - 1):
        bit = g.FLOOR_MOD(rest, 2)
        factor = g.SELECT_V2(g.EQUAL(bit, 1), power, g.const(1, INT64))
        result = factor if not place else g.MUL(result, factor)
        if place < BITS.bit_length() - 2:
            rest = quotient(g, g.SUB(rest, bit), g.const(2, INT64))
            power = g.MUL(power, power)
    if y.const is not None and (y.const >= 0).all():
        return result
    vanishes = g.LOGICAL_AND(g.LESS(y, 0), g.GREATER(magnitude(g, x), 1))
    return g.SELECT_V2(vanishes, g.const(0, INT64), result)


def _whole_power(g: Builder, x: Value, y: Value) -> Value:
    """POW refuses to run with a negative exponent (kernels/pow.cc: Eval); 1 and -1 have such powers.

    The least integers have no absolute value: that of an exponent is even, as good as any that is far.
    """
    size = g.ABS(g.MAXIMUM(y, int(np.iinfo(y.dtype).min) + 2))
    far = g.LOGICAL_OR(g.GREATER(x, 1), g.LESS(x, -1))
    vanishes = g.LOGICAL_AND(g.LESS(y, 0), far)
    return g.SELECT_V2(vanishes, g.const(np.array(0, x.dtype)), g.POW(x, size))


def _special_power(g: Builder, x: Value, exponent: float) -> Value | None:
    if exponent == 1:
        return x
    if exponent == 2:
        return widened(g, lambda a: g.MUL(a, a), x) if is_integer(x) else g.SQUARE(x)
    if exponent == 3:
        return widened(g, lambda a: g.MUL(g.MUL(a, a), a), x)
    if is_integer(x):
        return None
    if exponent == 0.5:
        return g.SQRT(x)
    if exponent == -0.5:
        return g.RSQRT(x)
    return g.DIV(1.0, x) if exponent == -1 else None


LISTS = [
    case(data_0=[(2, 3, 4, 5), (3, 1, 5), (4, 1)]),
    case(data_0=[(2, 3, 5)]),
    case(data_0=[(2, 3, 5), (2, 3, 5)]),
]


@lower("Sum", samples=LISTS)
def add_all(g: Builder, *operands: Value) -> Value:
    """A chain of ADD, which XNNPACK's delegate takes, and not the ADD_N it does not."""
    return _chain(g, "ADD", operands)


@lower("Mean", samples=LISTS)
def mean_of_all(g: Builder, *operands: Value) -> Value:
    """The sum divided by the number of operands."""
    total = _chain(g, "ADD", operands)
    return total if len(operands) == 1 else g.DIV(total, float(len(operands)))


for onnx_name, tflite_name in {"Max": "MAXIMUM", "Min": "MINIMUM"}.items():

    @lower(
        onnx_name,
        samples=[
            *LISTS,
            case(data_0=[LONGS, DIVISORS]),
            case(data_0=[BYTES, BYTE_DIVISORS]),
            case(data_0=[HUGE, HUGE_DIVISORS]),
        ],
    )
    def extremum(g: Builder, *operands: Value, _name: str = tflite_name) -> Value:
        """A chain of comparisons by twos; constants first, as in Clip, so that a NaN stays one."""
        constants_first = sorted(operands, key=lambda operand: operand.const is None)
        return widened(g, lambda *xs: _chain(g, _name, xs), *constants_first, ordered=True)


def _chain(g: Builder, name: str, operands: tuple[Value, ...]) -> Value:
    result = operands[0]
    for operand in operands[1:]:
        result = g.emit(name, [result, operand], {})
    return result
