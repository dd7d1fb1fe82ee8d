"""Tensors that an operand gives their size: ranges, constants of a shape, window functions."""

import math
from functools import reduce

import numpy as np

from straightway.ir import TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, run
from straightway.lower.integers import INT32, is_integer, widened
from straightway.lower.sets import sized

FLOAT = np.dtype(np.float32)
# the mantissa of a power of two
HALF = 0.5


def number(value: float, dtype: type) -> np.ndarray:
    """A scalar operand of a sample."""
    return np.array(value, dtype)


@lower(
    "Range",
    samples=[
        case(start=number(2, np.int64), limit=number(-5, np.int64), delta=number(-3, np.int64)),
        case(start=run(2, np.int64), limit=run(-5, np.int64), delta=run(-3, np.int64)),
        case(start=run(1, np.int16), limit=run(9, np.int16), delta=number(3, np.int16)),
        case(
            start=number(0.5, np.float32), limit=number(2, np.float32), delta=number(1, np.float32)
        ),
        case(start=run(0.5), limit=run(2.0), delta=run(0.3)),
        case(start=run(2.0), limit=run(-1.0), delta=run(-0.1)),
        case(start=run(0.0), limit=run(0.7), delta=number(0.1, np.float32)),
        case(start=run(1.0), limit=run(9.0), delta=number(0.25, np.float32)),
    ],
)
def number_range(
    g: Builder,
    start: Value,
    limit: Value,
    delta: Value,
    /,
    *,
    stash_type: int = 1,
    out: list[TensorType],
) -> Value:
    """One op; its limit may not lie behind the start."""
    if all(v.const is not None for v in (start, limit, delta)) and not g.keeps:
        steps = g.const(np.arange(out[0].size), start.dtype)
        return g.ADD(g.MUL(steps, g.reshape(delta, ())), g.reshape(start, ()))
    if not is_integer(start):
        return _real_range(g, start, limit, delta, out[0])
    operands = [g.reshape(v, ()) for v in (start, limit, delta)]

    def steps_between(first: Value, last: Value, step: Value) -> Value:
        if g.keeps and step.const is not None and last.const is not None:  # it is ahead at any size
            return sized(g.RANGE(first, last, step), *out[0].dims)
        ahead = g.SELECT_V2(g.GREATER(step, 0), g.MAXIMUM(last, first), g.MINIMUM(last, first))
        return sized(g.RANGE(first, ahead, step), *out[0].dims)

    return widened(g, steps_between, *operands)


def _real_range(g: Builder, start: Value, limit: Value, delta: Value, kind: TensorType) -> Value:
    """So many steps from the start."""
    first, last, step = (g.reshape(v, ()) for v in (start, limit, delta))
    count = g.MAXIMUM(_whole_steps(g, g.SUB(last, first), step), 0.0)
    zero, one = g.const(0, INT32), g.const(1, INT32)
    places = sized(g.RANGE(zero, g.cast(count, INT32), one), *kind.dims)
    return g.ADD(g.MUL(g.cast(places, start.dtype), step), first)


def _whole_steps(g: Builder, way: Value, step: Value) -> Value:
    """The quotient rounded up, exactly, up to 2^24: onnxruntime divides in float64, which LiteRT lacks.

    The rounded quotient is right or one too small: what it leaves tells. That is exact: of the product,
    the error is computed (Dekker, A floating-point technique for extending the available precision).
    """
    if step.const is not None and abs(math.frexp(float(step.const))[0]) == HALF:
        return g.CEIL(g.MUL(way, 1 / float(step.const)))
    guess = g.ROUND(g.DIV(way, step))
    product = g.MUL(guess, step)
    (a, b), (c, d) = _halves(g, guess), _halves(g, step)
    lost = g.ADD(g.ADD(g.SUB(g.MUL(a, c), product), g.ADD(g.MUL(a, d), g.MUL(b, c))), g.MUL(b, d))
    rest = g.SUB(g.SUB(way, product), lost)
    behind = g.GREATER(g.MUL(rest, g.SIGN(step)), 0.0)
    return g.ADD(guess, g.cast(behind, FLOAT))


def _halves(g: Builder, x: Value) -> tuple[Value, Value]:
    """A number as the sum of two of 12 bits each (Veltkamp)."""
    wide = g.MUL(x, 2.0**12 + 1)
    high = g.SUB(wide, g.SUB(wide, x))
    return high, g.SUB(x, high)


@lower(
    "ConstantOfShape",
    samples=[
        case(input=np.array([2, 3])),
        case(input=np.array([2, 3]), value=np.array([7], np.int64)),
        case(input=run([2, 3], np.int64), value=np.array([True])),
        case(input=run([4], np.int64), value=np.array([0.5], np.float32)),
    ],
)
def constant_of_shape(
    g: Builder, shape: Value, /, value: np.ndarray | None = None, *, out: list[TensorType]
) -> Value:
    """A constant, or FILL where the shape comes at run time."""
    (kind,) = out
    fill = np.array(0 if value is None else value.reshape(-1)[0], kind.dtype)
    if shape.const is not None and not g.keeps:
        return g.const(np.full(kind.dims, fill))
    return sized(g.FILL(shape, g.const(fill)), *kind.dims)


COSINES = {
    "HannWindow": (0.5, -0.5),
    "HammingWindow": (25 / 46, -21 / 46),
    "BlackmanWindow": (0.42, -0.5, 0.08),
}


@lower(
    "HannWindow",
    "HammingWindow",
    "BlackmanWindow",
    samples=[
        case(size=np.array(10), opset=17),
        case(size=run(10, np.int64), opset=17),
        case(size=run(9, np.int32), periodic=0, opset=17),
    ],
)
def window_function(
    g: Builder,
    size: Value,
    /,
    *,
    periodic: int = 1,
    output_datatype: int = 1,
    op: str,
    out: list[TensorType],
) -> Value:
    """Waves over a whole turn, from the first to the last place or to the one behind it."""
    (kind,) = out
    if size.const is not None and not g.keeps:
        places: Value = g.const(np.arange(kind.dims[0]), FLOAT)
    else:
        last = g.reshape(g.cast(size, INT32), ())
        zero, one = g.const(0, INT32), g.const(1, INT32)
        places = g.cast(sized(g.RANGE(zero, last, one), kind.dims[0]), FLOAT)
    count = g.reshape(g.cast(size, FLOAT), ())
    steps = count if periodic else g.SUB(count, 1.0)
    level, *weights = COSINES[op]
    waves = [
        g.MUL(g.COS(g.MUL(places, g.DIV(2 * math.pi * k, steps))), weight)
        for k, weight in enumerate(weights, 1)
    ]
    waves[0] = g.ADD(waves[0], level)  # in the order of ONNX's definition: the least sums cancel
    return g.cast(reduce(g.ADD, waves), kind.dtype)
