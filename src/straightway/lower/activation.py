"""Activation functions with parameters."""

import math

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Node, Value
from straightway.lower.broadcast import fits
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import WIDER, is_integer, unsigned, widened

X = case(x=(2, 3, 4, 5))
WHOLE = run([[-5, 0, 7], [3, -128, 127]], np.int64)
MOST = 2**31
BYTES = run([[-5, 0, 7], [3, -128, 127]], np.int8)
HUGE = run([[5, 0, 2**63], [2**64 - 1, 7, 2**63 + 1]], np.uint64)


def array(*numbers: float, dtype: type = np.float32) -> np.ndarray:
    """Make a constant of a sample."""
    return np.array(numbers[0] if len(numbers) == 1 else numbers, dtype)


# XNNPACK's sigmoid makes NaN of what is beyond 2^88
LARGEST = 2.0**80
MOST_ANCESTORS = 32


@lower("Sigmoid", samples=[X])
def sigmoid(g: Builder, x: Value, /) -> Value:
    """One op; behind a constant that large, the operand is clipped first."""
    if meets_more_than(x, LARGEST):
        x = g.MAXIMUM(g.MINIMUM(x, LARGEST), -LARGEST)
    return g.LOGISTIC(x)


def meets_more_than(x: Value, limit: float) -> bool:
    """Whether a finite constant above the limit went into a value, a few ops before."""
    waiting = [x]
    for value in waiting:
        known = value.const
        if known is not None and known.dtype.kind == "f":
            size = np.abs(known[np.isfinite(known)])
            if size.max(initial=0) > limit:
                return True
        if value.producer is not None and len(waiting) < MOST_ANCESTORS:
            waiting += value.producer.operands()
    return False


@lower("Elu", samples=[X, case(x=(2, 3, 5), alpha=2.5)])
def elu(g: Builder, x: Value, /, alpha: float) -> Value:
    """TFLite's ELU has alpha fixed at 1: another alpha weighs its negative part alone."""
    if alpha == 1.0:
        return g.ELU(x)
    return _two_sided(g, x, g.MUL(g.ELU(g.MINIMUM(x, 0.0)), alpha))


@lower("Selu", samples=[X, case(x=(2, 3, 5), alpha=2.0, gamma=3.0)])
def selu(g: Builder, x: Value, /, alpha: float, gamma: float) -> Value:
    """Gamma · Elu with a given alpha."""
    return g.MUL(_two_sided(g, x, g.MUL(g.ELU(g.MINIMUM(x, 0.0)), alpha)), gamma)


@lower(
    "Celu",
    needs=[
        need(
            lambda alpha: alpha > 0,
            "alpha must be positive; got {alpha}",
            possible=True,
        )
    ],
    samples=[X, case(x=(2, 3, 5), alpha=2.0)],
    refuses=[case(x=(2, 3, 5), alpha=-1.0)],
)
def celu(g: Builder, x: Value, /, alpha: float) -> Value:
    """Alpha · Elu(x / alpha) below zero, x above."""
    if alpha == 1.0:
        return g.ELU(x)
    below = g.ELU(g.DIV(g.MINIMUM(x, 0.0), alpha))
    return _two_sided(g, x, g.MUL(below, alpha))


def _two_sided(g: Builder, x: Value, below: Value) -> Value:
    """Join what holds above zero, x itself, and what holds below, each zero on the other side."""
    return g.ADD(g.RELU(x), below)


@lower("LeakyRelu", samples=[X, case(x=(2, 3, 5), alpha=0.0), case(x=(2, 3, 5), alpha=2.0)])
def leaky_relu(g: Builder, x: Value, /, alpha: float) -> Value:
    """One op; XNNPACK's delegate leaves out an alpha of zero, which RELU is."""
    return g.RELU(x) if alpha == 0 else g.LEAKY_RELU(x, alpha=alpha)


# Since opset 7 operands broadcast as numpy's do (onnx/docs/Changelog.md).
BROADCASTS = 7


@lower(
    "PRelu",
    samples=[
        case(x=(2, 3, 4, 5), slope=np.linspace(-1, 2, 3, dtype=np.float32), opset=6),
        case(x=(2, 3, 4, 5), slope=np.linspace(-1, 2, 3, dtype=np.float32).reshape(3, 1, 1)),
        case(x=(2, 3, 4, 5), slope=array(0.25)),
        case(x=(2, 3, 4, 5), slope=(3, 1, 1)),
        case(x=run([[-5, 0, 7]], np.int32), slope=array(3, dtype=np.int32)),
        case(x=HUGE, slope=array(3, dtype=np.uint64)),
    ],
)
def prelu(g: Builder, x: Value, slope: Value, /, *, node: Node) -> Value:
    """One op where the slope is constant, as XNNPACK's delegate asks; else in its parts.

    Before opset 7 the slope is a number, or a vector along the channels.
    """
    if node.op.version < BROADCASTS and slope.shape not in ((), (1,)):
        slope = g.reshape(slope, (*slope.shape, *[1] * (x.rank - 2)))
    if not fits(slope, x):
        raise InvalidModel(f"the slope broadcasts to what it slopes; got {slope.type} for {x.type}")
    if slope.const is not None and not is_integer(x):
        if slope.const.size == 1:
            return leaky_relu(g, x, float(slope.const.reshape(-1)[0]))
        if x.rank <= 4:  # the builtin kernel's loops (kernels/activations.cc: BroadcastPrelu4DSlow)
            return g.PRELU(x, slope)
    if unsigned(x):
        return x
    return widened(g, lambda a, s: _prelu_in_parts(g, a, s), x, slope)


def _prelu_in_parts(g: Builder, x: Value, slope: Value) -> Value:
    return g.ADD(g.MAXIMUM(x, 0), g.MUL(g.MINIMUM(x, 0), slope))


@lower("ThresholdedRelu", samples=[X, case(x=(2, 3, 5), alpha=-0.5)])
def thresholded_relu(g: Builder, x: Value, /, alpha: float) -> Value:
    """X where it passes alpha, else zero."""
    return g.SELECT_V2(g.GREATER(x, alpha), x, g.const(0, x.dtype))


@lower(
    "Shrink",
    needs=[
        need(
            lambda x, bias, lambd: (
                not is_integer(x) or all(abs(v) < MOST and v == round(v) for v in (bias, lambd))
            ),
            "bias and lambd of whole numbers must be whole numbers of 32 bits, since ONNX's definition "
            "and ONNX Runtime disagree on others; got {bias}, {lambd}",
            possible=True,
        )
    ],
    samples=[
        X,
        case(x=(2, 3, 5), lambd=0.5, bias=0.5),
        case(x=(2, 3, 5), lambd=0.5, bias=0.25),
        case(x=(2, 3, 5), lambd=-0.5, bias=0.25),
        case(x=WHOLE, lambd=2.0, bias=2.0),
        case(x=run([[0, 3, 255]], np.uint8), lambd=2.0, bias=2.0),
    ],
    refuses=[case(x=WHOLE, lambd=2.0, bias=0.5)],
)
def shrink(g: Builder, x: Value, /, bias: float, lambd: float) -> Value:
    """Soft shrinkage is x less x clamped; in general two selections."""
    if not is_integer(x) and bias == lambd and bias > 0:
        return g.SUB(x, g.MAXIMUM(g.MINIMUM(x, bias), -bias))
    if not is_integer(x):
        return _shrink(g, x, bias, lambd)
    return g.cast(_shrink(g, g.cast(x, WIDER.get(x.dtype, x.dtype)), bias, lambd), x.dtype)


def _shrink(g: Builder, x: Value, bias: float, lambd: float) -> Value:
    above = g.SELECT_V2(g.GREATER(x, lambd), g.SUB(x, bias), g.const(0, x.dtype))
    return g.SELECT_V2(g.LESS(x, -lambd), g.ADD(x, bias), above)


@lower("HardSigmoid", samples=[X, case(x=(2, 3, 5), alpha=1 / 6, beta=0.5)])
def hard_sigmoid(g: Builder, x: Value, /, alpha: float, beta: float) -> Value:
    """Clamp alpha · x + beta to [0, 1]; a slope of 1/6 is RELU6 scaled, two ops when fused."""
    if np.float32(alpha) == np.float32(1 / 6):
        return g.MUL(g.RELU6(g.ADD(x, beta * 6)), alpha)
    return g.MINIMUM(g.RELU(g.ADD(g.MUL(x, alpha), beta)), 1.0)


@lower("HardSwish", samples=[X])
def hard_swish(g: Builder, x: Value, /) -> Value:
    """One op."""
    return g.HARD_SWISH(x)


@lower("Gelu", samples=[X, case(x=(2, 3, 5), approximate="tanh")])
def gelu(g: Builder, x: Value, /, approximate: str) -> Value:
    """One op for either form."""
    return g.GELU(x, approximate=approximate == "tanh")


@lower("Swish", samples=[case(x=(2, 3, 4, 5), opset=24), case(x=(2, 3, 5), alpha=2.0, opset=24)])
def swish(g: Builder, x: Value, /, alpha: float) -> Value:
    """X times the sigmoid of alpha · x."""
    return g.MUL(x, sigmoid(g, x if alpha == 1.0 else g.MUL(x, alpha)))


@lower(
    "Clip",
    samples=[
        case(input=(2, 3, 4, 5), min=array(0), max=array(6)),
        case(input=(2, 3, 4, 5), min=array(-1), max=array(1)),
        case(input=(2, 3, 5), min=array(-0.5), max=array(0.25)),
        case(input=(2, 3, 5), min=array(0)),
        case(input=(2, 3, 5), max=array(0.5)),
        case(input=(2, 3, 5), min=run(-0.5), max=run(0.5)),
        case(input=(2, 3, 5), min=array(1), max=array(-1)),
        case(input=(2, 3, 5), min=0.0, max=6.0, opset=6),
        case(input=(2, 3, 5)),
        case(input=WHOLE, min=array(-2, dtype=np.int64), max=array(5, dtype=np.int64)),
        case(input=BYTES, max=array(5, dtype=np.int8)),
        case(input=HUGE, min=array(7, dtype=np.uint64), max=array(2**63, dtype=np.uint64)),
    ],
)
def clip(
    g: Builder,
    x: Value,
    /,
    min: Value | float | None = None,
    max: Value | float | None = None,
) -> Value:
    """Clamp to [min, max]; where they cross, max holds. The usual bounds are one op.

    The bound stands first: a > b ? a : b (kernels/maximum_minimum.h) keeps a NaN that is second.
    """
    low = _bound(min, -math.inf)
    high = _bound(max, math.inf)
    if not is_integer(x) and low is not None and high is not None:
        return clamp(g, x, low, high)
    if min is not None:
        x = widened(g, g.MAXIMUM, _operand(g, min, x), x, ordered=True)
    return x if max is None else widened(g, g.MINIMUM, _operand(g, max, x), x, ordered=True)


def _operand(g: Builder, bound: Value | float, x: Value) -> Value:
    return bound if isinstance(bound, Value) else g.const(bound, x.dtype)


def _bound(given: Value | float | None, absent: float) -> float | None:
    """A bound where it is known, None where it comes at run time."""
    if isinstance(given, Value):
        return None if given.const is None else float(given.const.reshape(-1)[0])
    return absent if given is None else float(given)


CLAMPS = {(0.0, math.inf): "RELU", (0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}


def clamp(g: Builder, x: Value, low: float, high: float) -> Value:
    """Clamp floats to known bounds, with TFLite's own clamp where it has it."""
    # the smallest and largest finite numbers are what exporters write for no bound at all
    low = -math.inf if low <= np.finfo(x.dtype).min else low
    high = math.inf if high >= np.finfo(x.dtype).max else high
    if (low, high) in CLAMPS:
        return g.emit(CLAMPS[low, high], [x], {})
    if low > -math.inf:
        x = g.MAXIMUM(low, x)
    return x if high == math.inf else g.MINIMUM(high, x)
