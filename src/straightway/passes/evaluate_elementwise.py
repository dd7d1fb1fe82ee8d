"""Elementwise operators on constants, in the operands' own type."""

import math
from collections.abc import Callable

import numpy as np

from straightway.ir.elements import converted
from straightway.passes.evaluator import Call, Result, Table, UnfoldableError

TABLE = Table()
# Broadcasting both ways came with opset 7; before, `broadcast` and `axis` said how.
BROADCASTING = 7

# The ufuncs keep the element type: float32 is computed in float32.
UNARY: dict[str, Callable[..., Result]] = {
    "Abs": np.abs,
    "Acos": np.arccos,
    "Acosh": np.arccosh,
    "Asin": np.arcsin,
    "Asinh": np.arcsinh,
    "Atan": np.arctan,
    "Atanh": np.arctanh,
    "BitwiseNot": np.invert,
    "Ceil": np.ceil,
    "Cos": np.cos,
    "Cosh": np.cosh,
    "Exp": np.exp,
    "Floor": np.floor,
    "IsNaN": np.isnan,
    "Log": np.log,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Reciprocal": np.reciprocal,
    "Round": np.rint,
    "Sign": np.sign,
    "Sin": np.sin,
    "Sinh": np.sinh,
    "Sqrt": np.sqrt,
    "Tan": np.tan,
    "Tanh": np.tanh,
}
BINARY: dict[str, Callable[..., Result]] = {
    "Add": np.add,
    "And": np.logical_and,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Mul": np.multiply,
    "Or": np.logical_or,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}


def _unary(function: Callable[..., Result]) -> Callable[..., Result]:
    return lambda x, /: function(x)


def _binary(function: Callable[..., Result]) -> Callable[..., Result]:
    return lambda a, b, /: function(a, b)


for _name, _function in UNARY.items():
    TABLE.enter(_name, _unary(_function))
for _name, _function in BINARY.items():
    TABLE.enter(_name, _binary(_function), since=BROADCASTING)


@TABLE.evaluates("Identity")
def identity(x: np.ndarray, /) -> Result:
    """Nothing changes."""
    return x


@TABLE.evaluates("Celu")
def celu(x: np.ndarray, /, *, alpha: float) -> Result:
    """By its formula: ONNX's definition in other operators is another function for a negative alpha."""
    below = np.minimum(0, alpha * np.expm1(x / alpha))
    return np.asarray(np.maximum(0, x) + below, x.dtype)


@TABLE.evaluates("Div", since=BROADCASTING)
def divide(a: np.ndarray, b: np.ndarray, /) -> Result:
    """Integers are cut towards zero, exactly, also where float64 could not hold them."""
    if a.dtype.kind not in "iu":
        return np.divide(a, b)
    _refuse_zero(b)
    quotient = a // b
    return quotient + ((a % b != 0) & ((a < 0) != (b < 0))).astype(a.dtype)


@TABLE.evaluates("Mod")
def modulo(a: np.ndarray, b: np.ndarray, /, *, fmod: int = 0) -> Result:
    """The sign follows the divisor, with `fmod` the dividend."""
    if a.dtype.kind in "iu":
        _refuse_zero(b)
    return np.fmod(a, b) if fmod else np.mod(a, b)


def _refuse_zero(divisor: np.ndarray) -> None:
    if not np.all(divisor):
        raise UnfoldableError("it divides an integer by zero")


@TABLE.evaluates("Pow", since=BROADCASTING)
def power(base: np.ndarray, exponent: np.ndarray, /) -> Result:
    """The result has the base's type; an integer base with another exponent goes by float64."""
    if base.dtype == exponent.dtype or base.dtype.kind not in "iu":
        return np.power(base, exponent.astype(base.dtype))
    if exponent.dtype.kind in "iu":
        return np.power(base, exponent).astype(base.dtype)
    return np.power(base.astype(np.float64), exponent).astype(base.dtype)


@TABLE.evaluates("BitShift")
def bit_shift(x: np.ndarray, y: np.ndarray, /, *, direction: str) -> Result:
    """Shift left or right."""
    return np.left_shift(x, y) if direction == "LEFT" else np.right_shift(x, y)


@TABLE.evaluates("Max")
def maximum(*operands: np.ndarray) -> Result:
    """The greatest; a NaN wins."""
    return _chain(np.maximum, operands)


@TABLE.evaluates("Min")
def minimum(*operands: np.ndarray) -> Result:
    """The least; a NaN wins."""
    return _chain(np.minimum, operands)


@TABLE.evaluates("Sum")
def total(*operands: np.ndarray) -> Result:
    """The sum of all operands."""
    return _chain(np.add, operands)


@TABLE.evaluates("Mean")
def mean(*operands: np.ndarray) -> Result:
    """The sum of all operands by their number."""
    return np.divide(_chain(np.add, operands), np.array(len(operands), operands[0].dtype))


def _chain(function: np.ufunc, operands: tuple[np.ndarray, ...]) -> Result:
    result: np.ndarray = operands[0]
    for operand in operands[1:]:
        result = function(result, operand)
    return result


@TABLE.evaluates("Where")
def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray, /) -> Result:
    """Choose by condition."""
    return np.where(condition, x, y)


@TABLE.evaluates("IsInf")
def is_infinite(x: np.ndarray, /, *, detect_negative: int = 1, detect_positive: int = 1) -> Result:
    """Infinity of the asked signs."""
    result = np.isinf(x)
    if not detect_negative:
        result &= x > 0
    if not detect_positive:
        result &= x < 0
    return result


@TABLE.evaluates("Clip")
def clip(
    x: np.ndarray,
    /,
    *,
    min_: np.ndarray | float | None = None,
    max_: np.ndarray | float | None = None,
) -> Result:
    """Where the bounds cross, the upper one wins."""
    if min_ is not None:
        x = np.maximum(x, np.asarray(min_, x.dtype))
    if max_ is not None:
        x = np.minimum(x, np.asarray(max_, x.dtype))
    return x


@TABLE.evaluates("Cast", "CastLike", ignored=("to", "target_type", "saturate", "round_mode"))
def cast(x: np.ndarray, /, *, call: Call) -> Result:
    """Cut towards zero from float to integer; what does not fit is left to the run time."""
    target = call.dtype
    if target == x.dtype:
        return x
    if object in (target, x.dtype):
        raise UnfoldableError("strings are not converted")
    if target == np.bool_:
        return x != 0
    if target.itemsize == 1 and target.kind not in "iub":
        raise UnfoldableError(f"conversion to {target} is left to the run time")
    if target.kind in "iu" and x.dtype.kind not in "iub":
        return _cut(x, target)
    return converted(x, target)


def _cut(x: np.ndarray, target: np.dtype) -> np.ndarray:
    """From floating to integer, where engines agree on the result."""
    limits = np.iinfo(target)
    wide = np.trunc(x.astype(np.float64))
    if target.kind == "i" and target.itemsize >= 4:
        # below the range C's conversion on x86 and a saturating one both give the least integer
        wide = np.maximum(wide, float(limits.min))
    # float64 rounds int64's upper limit up, so equal is too large; NaN compares false
    if not np.all((wide >= limits.min) & (wide < float(limits.max) + 1)):
        raise UnfoldableError(f"a number lies outside {target}")
    return wide.astype(target)


@TABLE.evaluates("Erf")
def error_function(x: np.ndarray, /) -> Result:
    """By float64, then rounded."""
    flat = [math.erf(v) for v in x.astype(np.float64).reshape(-1).tolist()]
    return np.array(flat, np.float64).reshape(x.shape).astype(x.dtype)


@TABLE.evaluates("Relu")
def relu(x: np.ndarray, /) -> Result:
    """max(x, 0)."""
    return np.maximum(x, np.zeros((), x.dtype))


@TABLE.evaluates("Sigmoid")
def sigmoid(x: np.ndarray, /) -> Result:
    """1 / (1 + e^-x)."""
    one = np.ones((), x.dtype)
    return np.divide(one, one + np.exp(-x))


@TABLE.evaluates("HardSigmoid")
def hard_sigmoid(x: np.ndarray, /, *, alpha: float, beta: float) -> Result:
    """max(0, min(1, alpha·x + beta))."""
    return np.clip(x * x.dtype.type(alpha) + x.dtype.type(beta), x.dtype.type(0), x.dtype.type(1))


@TABLE.evaluates("HardSwish")
def hard_swish(x: np.ndarray, /) -> Result:
    """Give x · HardSigmoid(x) with alpha 1/6 and beta 1/2."""
    return x * hard_sigmoid(x, alpha=1 / 6, beta=0.5)


@TABLE.evaluates("LeakyRelu")
def leaky_relu(x: np.ndarray, /, *, alpha: float) -> Result:
    """alpha·x below zero."""
    return np.where(x < 0, x * x.dtype.type(alpha), x)


@TABLE.evaluates("PRelu", since=BROADCASTING)
def prelu(x: np.ndarray, slope: np.ndarray, /) -> Result:
    """slope·x below zero."""
    return np.where(x < 0, x * slope, x)


@TABLE.evaluates("Elu")
def elu(x: np.ndarray, /, *, alpha: float) -> Result:
    """alpha·(e^x - 1) below zero."""
    return np.where(x < 0, np.expm1(x) * x.dtype.type(alpha), x)


@TABLE.evaluates("Softplus")
def softplus(x: np.ndarray, /) -> Result:
    """log(1 + e^x), without overflow."""
    return np.logaddexp(x, np.zeros((), x.dtype))


@TABLE.evaluates("Softsign")
def softsign(x: np.ndarray, /) -> Result:
    """Give x / (1 + |x|)."""
    return np.divide(x, np.ones((), x.dtype) + np.abs(x))
