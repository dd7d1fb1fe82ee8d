"""Comparisons, logic, selection and bits."""

import math

import numpy as np

from straightway.ir import Value
from straightway.lower.broadcast import aligned
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import widened

TRUTH = run([[True, False, True], [False, False, True]], bool)
TRUTHS = run([[True, True, False]], bool)
LONGS = run([[-(2**40), 0, 7], [3, 5, 2**40]], np.int64)
BYTES = run([[-5, 0, 7], [3, 5, 127]], np.int8)
SPECIAL = run([[1.0, -math.inf, math.inf], [math.nan, 0.0, -3.0]])
PAIRS = [
    case(a=(2, 3, 4, 5), b=(3, 1, 5)),
    case(a=(2, 3, 4, 5), b=np.array(0.25, np.float32)),
    case(a=(2, 3, 1, 2, 3), b=(3, 4, 1, 1)),
    case(a=LONGS, b=run([[0, 0, 7]], np.int64)),
    case(a=BYTES, b=run([[0, 0, 7]], np.int8)),
    case(a=run([[1, 2**31 + 5]], np.uint32), b=run([[2], [7]], np.uint32)),
]

for onnx_name, tflite_name in {
    "Less": "LESS",
    "LessOrEqual": "LESS_EQUAL",
    "Greater": "GREATER",
    "GreaterOrEqual": "GREATER_EQUAL",
    "Equal": "EQUAL",
}.items():

    @lower(
        onnx_name, samples=[*PAIRS, *([case(a=TRUTH, b=TRUTHS)] if onnx_name == "Equal" else [])]
    )
    def comparison(
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
        return widened(g, lambda *xs: g.emit(_name, xs, {}), a, b)


for onnx_name, tflite_name in {
    "And": "LOGICAL_AND",
    "Or": "LOGICAL_OR",
    "Xor": "NOT_EQUAL",
}.items():

    @lower(
        onnx_name,
        samples=[
            case(a=TRUTH, b=TRUTHS),
            case(a=TRUTH, b=np.array([[True], [False]])),
            case(a=run(np.ones((2, 1, 3, 1, 2)), bool), b=run(np.ones((2, 1, 3, 1)), bool)),
        ],
    )
    def logic(
        g: Builder,
        a: Value,
        b: Value,
        /,
        axis: int | None = None,
        broadcast: int = 0,
        *,
        _name: str = tflite_name,
    ) -> Value:
        """One op; truth values differ where exactly one holds."""
        return g.emit(_name, [a, aligned(g, a, b, axis, broadcast)], {})


@lower("Not", samples=[case(x=TRUTH)])
def logical_not(g: Builder, x: Value, /) -> Value:
    """One op."""
    return g.LOGICAL_NOT(x)


@lower(
    "Where",
    samples=[
        case(condition=TRUTH, x=(2, 3), y=(4, 2, 1)),
        case(condition=TRUTH, x=LONGS, y=np.array(0, np.int64)),
        case(condition=TRUTH, x=BYTES, y=BYTES),
        case(
            condition=run(np.eye(6).reshape(1, 6, 1, 6, 1, 1), bool), x=(2, 1, 3, 6, 1, 2), y=(5, 1)
        ),
    ],
)
def where(g: Builder, condition: Value, x: Value, y: Value, /) -> Value:
    """One op."""
    return g.SELECT_V2(condition, x, y)


@lower("IsNaN", samples=[case(x=SPECIAL)])
def is_nan(g: Builder, x: Value, /) -> Value:
    """What differs from itself."""
    return g.NOT_EQUAL(x, x)


@lower(
    "IsInf",
    samples=[
        case(x=SPECIAL),
        case(x=SPECIAL, detect_positive=0),
        case(x=SPECIAL, detect_negative=0),
        case(x=SPECIAL, detect_positive=0, detect_negative=0),
    ],
)
def is_infinite(g: Builder, x: Value, /, detect_negative: int, detect_positive: int) -> Value:
    """What equals an infinity."""
    if detect_positive and detect_negative:
        return g.EQUAL(g.ABS(x), math.inf)
    if detect_positive or detect_negative:
        return g.EQUAL(x, math.inf if detect_positive else -math.inf)
    return g.const(np.zeros(x.shape, bool))


BITS = 8 * np.dtype(np.int64).itemsize
# 1, 2, 4 … and what is left of a one that was shifted out: nothing
POWERS = np.array([*(1 << k for k in range(BITS - 1)), -(1 << (BITS - 1)), 0], np.int64)


@lower(
    "BitShift",
    needs=[
        need(
            lambda x: x.dtype != np.uint64,
            "TFLite multiplies and shifts no uint64; got {x.type}",
            kernel="kernels/right_shift.cc:110",
        ),
        need(
            lambda x: np.issubdtype(x.dtype, np.unsignedinteger),
            "BitShift is lowered for unsigned integers; got {x.type}",
            possible=True,
        ),
    ],
    samples=[
        case(x=run([[16, 4, 1]], np.uint8), y=np.array([1, 2, 3], np.uint8), direction="RIGHT"),
        case(x=run([[200, 4, 1]], np.uint8), y=np.array([1, 2, 3], np.uint8), direction="LEFT"),
        case(x=run([[2**31, 4, 1]], np.uint32), y=np.array(2, np.uint32), direction="LEFT"),
        case(x=run([[2**31, 4, 9]], np.uint32), y=run([[31, 1, 3]], np.uint32), direction="RIGHT"),
        case(x=run([[3, 4, 9]], np.uint32), y=run([[31, 1, 0]], np.uint32), direction="LEFT"),
    ],
    refuses=[
        case(x=run([[16, 4]], np.uint64), y=np.array([1, 2], np.uint64), direction="LEFT"),
        case(x=run([[16]], np.int32), y=np.array([1], np.int32), direction="RIGHT", opset=26),
    ],
)
def bit_shift(g: Builder, x: Value, y: Value, /, direction: str) -> Value:
    """One op to the right; to the left a product with a power of two."""
    if direction == "RIGHT":
        return g.RIGHT_SHIFT(x, y)
    if y.const is not None:
        powers = g.const(POWERS[np.minimum(y.const.astype(np.int64), BITS)])
    else:
        places = g.cast(y, np.int64)
        powers = g.GATHER(g.const(POWERS), g.MINIMUM(places, BITS), axis=0)
    return g.cast(g.MUL(g.cast(x, np.int64), powers), x.dtype)


@lower(
    "BitwiseXor",
    samples=[
        case(a=run([[5, -3]], np.int32), b=run([[6], [7]], np.int32)),
        case(a=run([[5, 255]], np.uint8), b=run([[6], [7]], np.uint8)),
    ],
)
def bitwise_xor(g: Builder, a: Value, b: Value, /) -> Value:
    """One op."""
    return g.BITWISE_XOR(a, b)


@lower("BitwiseNot", samples=[case(x=run([[5, -3]], np.int32)), case(x=run([[5]], np.uint16))])
def bitwise_not(g: Builder, x: Value, /) -> Value:
    """Differs from all ones."""
    return g.BITWISE_XOR(x, g.const(~np.zeros((), x.dtype)))
