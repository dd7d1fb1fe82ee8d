"""Softmax, its logarithm, its hard form."""

import math

import numpy as np

from straightway.ir import Node, TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower

SAMPLES = [
    case(input=(2, 3, 4, 5)),
    case(input=(2, 3, 4, 5), axis=1),
    case(input=(2, 3, 4), axis=-2),
    case(input=(2, 3, 4, 5), opset=11),
    case(input=(2, 3, 4, 5), axis=2, opset=11),
    case(input=(2, 3, 1, 1), axis=1, opset=9),
    case(input=(2, 3), axis=1, opset=9),
    case(input=(2, 3), axis=0, opset=9),
]
# Before opset 13 the tensor is a matrix, whose rows begin at the axis (onnx/docs/Changelog.md).
BY_AXIS = 13


@lower("Softmax", "LogSoftmax", "Hardmax", samples=SAMPLES)
def softmax(
    g: Builder, x: Value, /, axis: int, *, op: str, node: Node, out: list[TensorType]
) -> Value:
    """One op along any axis; the logarithm and the hard form are composed."""
    function = {"Softmax": soft, "LogSoftmax": logarithmic, "Hardmax": hard}[op]
    axis = counted(axis, x.rank)
    if node.op.version >= BY_AXIS or math.prod(x.shape[axis:]) == x.shape[axis]:
        return function(g, x, axis)
    rows = (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))
    return g.reshape(function(g, g.reshape(x, rows), 1), x.shape)


def soft(g: Builder, x: Value, axis: int) -> Value:
    """One op."""
    return g.SOFTMAX(x, axis=axis)


def logarithmic(g: Builder, x: Value, axis: int) -> Value:
    """X - max - log(sum of exponentials): XNNPACK's delegate takes these, and no LOG_SOFTMAX."""
    less = g.SUB(x, g.REDUCE_MAX(x, axes=(axis,), keep_dims=True))
    total = g.SUM(g.EXP(less), axes=(axis,), keep_dims=True)
    return g.SUB(less, g.LOG(total))


def hard(g: Builder, x: Value, axis: int) -> Value:
    """One where the first largest element stands, zero elsewhere."""
    place = g.ARG_MAX(x, axis=axis, output_type="INT32")
    one, zero = np.array(1, x.dtype), np.array(0, x.dtype)
    return g.ONE_HOT(place, one, zero, axis=axis, depth=x.shape[axis])
