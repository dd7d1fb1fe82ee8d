"""Mathematical functions of one operand.

XNNPACK's float32 kernels leave the standard in places, measured on LiteRT 2.3 (x86-64): they take
subnormal numbers for zero; exp(NaN) is 0; sine and cosine of 3e38 are NaN, its logarithm is infinite
and its root a half too large. Everything else here is NaN, infinite and signed where ONNX's is.
"""

import numpy as np

from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, run
from straightway.lower.integers import is_integer, magnitude, sign, unsigned, widened

X = case(x=(2, 3, 4, 5))
INTEGERS = run([[-5, 0, 7], [3, -1, 2]], np.int64)
BYTES = run([[-5, 0, 7], [3, -128, 127]], np.int8)
HUGE = run([[5, 0, 2**63], [2**64 - 1, 1, 2**63 + 1]], np.uint64)
UNIT = run([[-0.75, -0.125, 0.5], [0.0, 0.875, 1.0]])
INSIDE = run([[-0.75, -0.125, 0.5], [0.0, 0.25, 0.875]])
FROM_ONE = run([[1.0, 1.0625, 2.5], [30.0, 7.0, 400.0]])
POSITIVE = run([[1e-6, 0.0625, 2.5], [30.0, 7.0, 4e5]])
HALVES = run([[-2.5, -1.5, -0.5], [0.5, 1.5, 2.5]])

# erf(x) = tanh(x · P(x²)) on [-3.9, 3.9]: a weighted minimax fit of atanh(erf(x)) / x, whose largest
# error in float32 arithmetic is 1.0e-7. Beyond, erf differs from ±1 by less than 4e-8.
ERF = (
    1.1283797,
    0.102765478,
    -0.000184381919,
    -0.000625721121,
    8.97131249e-05,
    -5.98576662e-06,
    1.58963275e-07,
)
ERF_SATURATES = 3.9

for onnx_name, tflite_name, sample in (
    ("Ceil", "CEIL", X),
    ("Cos", "COS", X),
    ("Exp", "EXP", X),
    ("Floor", "FLOOR", X),
    ("Log", "LOG", case(x=POSITIVE)),
    ("Round", "ROUND", case(x=HALVES)),
    ("Sin", "SIN", X),
    ("Sqrt", "SQRT", case(x=POSITIVE)),
    ("Tanh", "TANH", X),
):

    @lower(onnx_name, samples=[sample])
    def unary(g: Builder, x: Value, /, *, _name: str = tflite_name) -> Value:
        """One op for one op."""
        return g.emit(_name, [x], {})


@lower("Identity", samples=[X])
def identity(g: Builder, x: Value, /) -> Value:
    """Nothing."""
    return x


@lower("Abs", samples=[X, case(x=INTEGERS), case(x=BYTES), case(x=HUGE)])
def absolute(g: Builder, x: Value, /) -> Value:
    """Whole numbers without an ABS of their type are compared with their negatives."""
    return x if unsigned(x) else widened(g, lambda a: magnitude(g, a), x)


@lower("Neg", samples=[X, case(x=INTEGERS), case(x=BYTES)])
def negative(g: Builder, x: Value, /) -> Value:
    """One op."""
    return widened(g, g.NEG, x)


@lower("Sign", samples=[X, case(x=INTEGERS), case(x=BYTES), case(x=HUGE)])
def signum(g: Builder, x: Value, /) -> Value:
    """Whole numbers are clamped to [-1, 1]."""
    return sign(g, x) if unsigned(x) else widened(g, lambda a: sign(g, a), x)


@lower("Reciprocal", samples=[X])
def reciprocal(g: Builder, x: Value, /) -> Value:
    """A quotient of one."""
    return g.DIV(1.0, x)


@lower("Erf", samples=[X])
def error_function(g: Builder, x: Value, /) -> Value:
    """TFLite has no ERF: a hyperbolic tangent of a polynomial, 1.0e-7 from it at most."""
    near = g.MAXIMUM(g.MINIMUM(x, ERF_SATURATES), -ERF_SATURATES)
    square = g.SQUARE(near)
    sum_ = g.ADD(g.MUL(square, ERF[-1]), ERF[-2])
    for factor in ERF[-3::-1]:
        sum_ = g.ADD(g.MUL(sum_, square), factor)
    return g.TANH(g.MUL(sum_, near))


@lower("Tan", samples=[X])
def tangent(g: Builder, x: Value, /) -> Value:
    """Sine over cosine; near a pole the cosine's absolute error, 1e-7, counts."""
    return g.DIV(g.SIN(x), g.COS(x))


@lower("Sinh", samples=[X])
def hyperbolic_sine(g: Builder, x: Value, /) -> Value:
    """(eˣ - e⁻ˣ) / 2; its error is at most 1e-7 near zero. Of half of x, since eˣ ends at 88.73."""
    rising, falling = _halves(g, x)
    return g.SUB(rising, falling)


@lower("Cosh", samples=[X])
def hyperbolic_cosine(g: Builder, x: Value, /) -> Value:
    """(eˣ + e⁻ˣ) / 2, of half of x, since eˣ ends at 88.73."""
    rising, falling = _halves(g, x)
    return g.ADD(rising, falling)


def _halves(g: Builder, x: Value) -> tuple[Value, Value]:
    """eˣ / 2 and e⁻ˣ / 2 as products of two powers of half of x, which end at 89.42."""
    half = g.MUL(x, 0.5)
    up, down = g.EXP(half), g.EXP(g.NEG(half))
    return g.MUL(g.MUL(up, 0.5), up), g.MUL(g.MUL(down, 0.5), down)


@lower("Asinh", samples=[X])
def inverse_hyperbolic_sine(g: Builder, x: Value, /) -> Value:
    """sign(x) · log(|x| + √(x² + 1)), which is infinite where x² is: from 1.8e19."""
    size = g.ABS(x)
    return g.MUL(g.SIGN(x), g.LOG(g.ADD(size, g.SQRT(g.ADD(g.SQUARE(x), 1.0)))))


@lower("Acosh", samples=[case(x=FROM_ONE)])
def inverse_hyperbolic_cosine(g: Builder, x: Value, /) -> Value:
    """log(x + √(x - 1) · √(x + 1)), which is NaN below one."""
    root = g.MUL(g.SQRT(g.SUB(x, 1.0)), g.SQRT(g.ADD(x, 1.0)))
    return g.LOG(g.ADD(x, root))


@lower("Atanh", samples=[case(x=INSIDE)])
def inverse_hyperbolic_tangent(g: Builder, x: Value, /) -> Value:
    """log((1 + x) / (1 - x)) / 2."""
    return g.MUL(g.LOG(g.DIV(g.ADD(x, 1.0), g.SUB(1.0, x))), 0.5)


@lower("Atan", samples=[X])
def inverse_tangent(g: Builder, x: Value, /) -> Value:
    """The angle of the point (1, x)."""
    return g.ATAN2(x, g.const(np.ones(x.shape, x.dtype)))


@lower("Asin", samples=[case(x=UNIT)])
def inverse_sine(g: Builder, x: Value, /) -> Value:
    """The angle of the point (√(1 - x²), x)."""
    return g.ATAN2(x, _leg(g, x))


@lower("Acos", samples=[case(x=UNIT)])
def inverse_cosine(g: Builder, x: Value, /) -> Value:
    """The angle of the point (x, √(1 - x²))."""
    return g.ATAN2(_leg(g, x), x)


def _leg(g: Builder, x: Value) -> Value:
    """√(1 - x²), without cancellation near ±1; NaN outside [-1, 1]."""
    return g.SQRT(g.MUL(g.SUB(1.0, x), g.ADD(x, 1.0)))


@lower("Softplus", samples=[X])
def softplus(g: Builder, x: Value, /) -> Value:
    """log(1 + eˣ) = max(x, 0) + log(1 + e^-|x|), which no x overflows."""
    return g.ADD(g.RELU(x), g.LOG(g.ADD(g.EXP(g.NEG(g.ABS(x))), 1.0)))


@lower("Softsign", samples=[X])
def softsign(g: Builder, x: Value, /) -> Value:
    """X / (1 + |x|)."""
    return g.DIV(x, g.ADD(g.ABS(x), 1.0))


@lower("Mish", samples=[X])
def mish(g: Builder, x: Value, /) -> Value:
    """X · tanh(log(1 + eˣ)) = x · w / (w + 2) with w = eˣ(eˣ + 2); from 20 on the quotient is 1."""
    power = g.EXP(g.MINIMUM(x, 20.0))
    product = g.MUL(power, g.ADD(power, 2.0))
    return g.MUL(x, g.DIV(product, g.ADD(product, 2.0)))


@lower("Relu", samples=[X, case(x=INTEGERS, opset=14), case(x=BYTES, opset=14)])
def relu(g: Builder, x: Value, /) -> Value:
    """One op; whole numbers are compared with zero."""
    if is_integer(x):
        return widened(g, lambda a: g.MAXIMUM(a, 0), x)
    return g.RELU(x)
