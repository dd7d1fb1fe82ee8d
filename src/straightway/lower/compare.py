"""Comparisons, logic, selection."""

import math

import numpy as np

from straightway.ir import Value
from straightway.lower.broadcast import aligned
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, run
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
    case(a=run([[1, 2**63 + 5]], np.uint64), b=run([[1], [7]], np.uint64)),
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
        return widened(g, lambda *xs: g.emit(_name, xs, {}), a, b, ordered=_name != "EQUAL")


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
