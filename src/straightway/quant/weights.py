"""Weights and biases as the 8-bit scheme stores them: int8 without zero points, int32 at s_x · s_w.

Beside int16 biases are int64.
"""

from dataclasses import dataclass, replace

import numpy as np

from straightway.ir import Graph, Node, Quant, Value, edit
from straightway.ir.scheme import aligned
from straightway.quant.scheme import INT8, INT16, Scheme, whole_numbers

NO_SCALE = "its weights have no scale"

# with as much room for the sum of products beside it: int32; beside int16, the 40 bits of Ethos-U
# (ethos-u-vela: constraint_bias_40bit), fewer than the 48 of LiteRT (kernels/internal/common.cc:62) and TFLM
BIAS_LIMIT = 2**31
WIDE_BIAS_LIMIT = 2**39
INT8_LIMITS = (-128, 127)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Weights and bias as integers; `raised` are channels whose scale was raised for the bias."""

    weights: Value
    bias: Value | None
    raised: int = 0


def bias_limit(dtype: np.dtype) -> int:
    """What the magnitude of a bias must be below, beside operands of this type."""
    return WIDE_BIAS_LIMIT if dtype == INT16 else BIAS_LIMIT


def least_scale(bias: Value | None, x: Scheme) -> np.ndarray:
    """The least scale of each channel of weights with which its bias takes half of the limit."""
    if bias is None or bias.const is None:
        return np.zeros(1)
    magnitude = np.abs(np.ravel(np.asarray(bias.const, np.float64)))
    return np.asarray(magnitude / (x.scale * (bias_limit(x.dtype) / 2)))


def output_axis(node: Node) -> int:
    """The dimension of the logical weights that counts output channels."""
    return 1 if "TRANSPOSE" in node.op.name else 0


def weights_of(node: Node) -> tuple[Value | None, Value | None]:
    """The logical operands: weights, bias."""
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    return node.inputs[1], bias


def fault(node: Node) -> str:
    """Why the weights of a node can't be stored as int8, or ""."""
    weights, bias = weights_of(node)
    if weights is None or weights.const is None:
        return "its weights are no constant"
    if bias is not None and bias.const is None:
        return "its bias is no constant"
    quant = weights.quant
    if quant is None:
        return NO_SCALE
    if quant.axis not in (None, output_axis(node)):
        return f"its weights have scales along dimension {quant.axis}, not along the results"
    if not np.all(np.isfinite(quant.scale)) or np.any(np.asarray(quant.scale) <= 0):
        return "a scale of its weights is not positive"
    numbers = whole_numbers(weights, quant)
    if numbers.size and (numbers.min() < INT8_LIMITS[0] or numbers.max() > INT8_LIMITS[1]):
        return "its weights less their zero points don't fit int8"
    return ""


def store(graph: Graph, node: Node, x: Scheme) -> Stored:
    """Make the integers of a node's weights and bias for an operand of scheme `x`; see `fault`."""
    weights, bias = weights_of(node)
    if weights is None or weights.const is None or weights.quant is None:
        raise ValueError(f"{node} has no weights to store")
    axis = output_axis(node)
    scale = np.ravel(np.asarray(weights.quant.scale, np.float32))
    count = weights.shape[axis]
    wanted = least_scale(bias, x)
    raised = wanted > scale
    if raised.any():
        scale = np.maximum(np.broadcast_to(scale, (count,)), wanted).astype(np.float32)
    quant = Quant(
        scale=scale,
        zero_point=np.zeros(scale.size, np.int64),
        axis=axis if scale.size > 1 else None,
    )
    made = edit.constant(graph, whole_numbers(weights, quant).astype(INT8), weights.name)
    made.quant = quant
    return Stored(
        weights=made,
        bias=None if bias is None else _bias(graph, bias, quant, x),
        raised=int(raised.sum()),
    )


def _bias(graph: Graph, bias: Value, weights: Quant, x: Scheme) -> Value:
    """Int32 at the product of the scales; int64 beside int16."""
    scale = (np.float32(x.scale) * np.ravel(weights.scale)).astype(np.float32)
    quant = replace(
        weights,
        scale=scale,
        zero_point=np.zeros(scale.size, np.int64),
        axis=0 if scale.size > 1 else None,
    )
    dtype = np.int64 if x.dtype == INT16 else np.int32
    wide = np.asarray(bias.const, np.float64) / aligned(scale.astype(np.float64), quant, 1)
    limit = bias_limit(x.dtype)
    made = edit.constant(graph, np.clip(np.rint(wide), -limit, limit - 1).astype(dtype), bias.name)
    made.quant = quant
    return made
