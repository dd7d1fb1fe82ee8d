"""Linear operators whose weights take in a scale and an offset of each channel.

Products are computed in float64 and stored in the weights' own type.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.ir.elements import empty
from straightway.ir.scheme import multiplied
from straightway.passes.arguments import argument, is_onnx
from straightway.passes.channelwise import Channelwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """New weights, bias and attributes of a linear operator; the bias None where there is none.

    The weights are the old ones times `factor`, one for all or one for each index of `axis`.
    """

    weights: np.ndarray
    bias: np.ndarray | None
    attrs: dict[str, object]
    factor: np.ndarray
    axis: int = 0


def scaled(weights: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Multiply in float64, block by block, and round to the weights' type."""
    result = empty(weights.shape, weights.dtype)
    with np.errstate(all="ignore"):
        np.multiply(weights, factor, out=result, dtype=np.float64, casting="unsafe")
    return result


def _bias(node: Node, index: int = 2) -> Value | None:
    return node.inputs[index] if len(node.inputs) > index else None


def _shifted(bias: Value | None, change: Channelwise, dtype: np.dtype) -> np.ndarray | None:
    """Give bias·scale + offset, or None where it is zero and there was none."""
    if bias is None or bias.const is None:
        return change.offset.astype(dtype) if change.shifts else None
    shifted: np.ndarray = bias.const.astype(np.float64) * change.scale + change.offset
    return shifted.astype(dtype)


def _one_for_all(factor: np.ndarray) -> np.ndarray:
    """A factor that all weights share; 0, which no scheme survives, where there are several."""
    return factor.reshape(-1)[:1] if np.all(factor == factor.reshape(-1)[0]) else np.zeros(1)


def _convolution(node: Node, weights: np.ndarray, change: Channelwise) -> Linear:
    """Weights [M, C/group, ...]: each filter makes one channel."""
    factor = change.scale.reshape(-1, *(1,) * (weights.ndim - 1))
    bias = _shifted(_bias(node), change, weights.dtype)
    return Linear(weights=scaled(weights, factor), bias=bias, attrs=node.attrs, factor=change.scale)


def _transposed_convolution(node: Node, weights: np.ndarray, change: Channelwise) -> Linear:
    """Weights [C, M/group, ...]: the input channels of a group make its output channels."""
    group = int(argument(node, "group", 1))
    grouped = weights.reshape(group, weights.shape[0] // group, *weights.shape[1:])
    factor = change.scale.reshape(group, 1, -1, *(1,) * (weights.ndim - 2))
    bias = _shifted(_bias(node), change, weights.dtype)
    products = scaled(grouped, factor).reshape(weights.shape)
    kept = change.scale if group == 1 else _one_for_all(change.scale)
    return Linear(weights=products, bias=bias, attrs=node.attrs, factor=kept, axis=1)


def _gemm(node: Node, weights: np.ndarray, change: Channelwise) -> Linear:
    """Y = alpha·A·B + beta·C: columns of B; beta joins C."""
    factor = change.scale.reshape(-1, 1) if argument(node, "transB") else change.scale
    bias = _bias(node)
    beta = float(argument(node, "beta"))
    old = bias.const.astype(np.float64) * beta if bias is not None and bias.const is not None else 0
    new = (old * change.scale + change.offset).astype(weights.dtype)
    kept = new if bias is not None or change.shifts else None
    attrs = {**node.attrs, "beta": 1.0}
    axis = 0 if argument(node, "transB") else 1
    return Linear(
        weights=scaled(weights, factor), bias=kept, attrs=attrs, factor=change.scale, axis=axis
    )


def _matmul(node: Node, weights: np.ndarray, change: Channelwise) -> Linear:
    return Linear(
        weights=scaled(weights, change.scale),
        bias=None,
        attrs=node.attrs,
        factor=change.scale,
        axis=weights.ndim - 1,
    )


OUTPUT_SIDE: dict[str, Callable[[Node, np.ndarray, Channelwise], Linear]] = {
    "Conv": _convolution,
    "ConvTranspose": _transposed_convolution,
    "Gemm": _gemm,
    "MatMul": _matmul,
}


def output_axis(node: Node) -> int | None:
    """The axis of the result that the weights' own outputs make, or None for another operator."""
    if is_onnx(node, "Conv", "ConvTranspose", "Gemm"):
        return 1
    return -1 if is_onnx(node, "MatMul") else None


def fold_fault(node: Node, change: Channelwise) -> str:
    """Why the node's weights can't take in a change of its result, or ""."""
    weights = node.inputs[1]
    if weights is None or weights.const is None:
        return f"the weights of '{node.name}' are computed at run time"
    if weights.const.ndim < 2:
        return f"the weights of '{node.name}' are a vector"
    if weights.quant is not None and weights.quant.dynamic and change.scales:
        return f"the weights of '{node.name}' are integers of the model"
    if is_onnx(node, "MatMul"):
        return f"'{node.name}' has no bias" if change.shifts else ""
    bias = _bias(node)
    if bias is not None and bias.const is None:
        return f"the bias of '{node.name}' is computed at run time"
    return ""


def after(graph: Graph, node: Node, change: Channelwise, result: Value) -> Node | None:
    """Make the node that computes `change` of what `node` computes; None where numbers overflow."""
    weights = node.inputs[1]
    if weights is None or weights.const is None:
        return None
    return _rebuilt(graph, node, OUTPUT_SIDE[node.op.name](node, weights.const, change), result)


def _rebuilt(graph: Graph, node: Node, linear: Linear, result: Value) -> Node | None:
    weights, bias = node.inputs[1], _bias(node)
    arrays = [linear.weights, *([] if linear.bias is None else [linear.bias])]
    if weights is None or not all(np.all(np.isfinite(array)) for array in arrays):
        return None
    same = weights.const is not None and np.array_equal(linear.weights, weights.const)
    given = weights
    if not same:
        given = edit.constant(graph, linear.weights, weights.name)
        given.quant = multiplied(weights.quant, linear.factor, linear.axis)
    inputs = [node.inputs[0], given]
    if linear.bias is not None:
        name = bias.name if bias is not None else f"{node.name}_bias"
        inputs.append(edit.constant(graph, linear.bias, name))
    return Node(node.op, inputs, [result], linear.attrs, name=node.name, origins=node.origins)


def is_unpadded(node: Node) -> bool:
    """Whether no place of a convolution's result reads beyond its operand."""
    weights = node.inputs[1]
    if str(argument(node, "auto_pad", "NOTSET")).startswith("SAME"):
        return weights is not None and all(size == 1 for size in weights.shape[2:])
    return not any(argument(node, "pads") or ())


def before(graph: Graph, node: Node, change: Channelwise, result: Value) -> Node | None:
    """Make the Conv that computes of x what `node` computes of `change` of x.

    An offset must not meet padding, which stays zero. None where numbers overflow.
    """
    weights, bias = node.inputs[1], _bias(node)
    if weights is None or weights.const is None:
        return None
    if weights.quant is not None and weights.quant.dynamic:  # its operand is rounded as it is
        return None
    array, group = weights.const, int(argument(node, "group", 1))
    grouped = array.reshape(group, -1, *array.shape[1:])
    trailing = (1,) * (array.ndim - 2)
    factor = change.scale.reshape(group, 1, -1, *trailing)
    new_bias = None if bias is None or bias.const is None else bias.const
    if change.shifts:
        offsets = change.offset.reshape(group, 1, -1, *trailing)
        spatial = tuple(range(2, grouped.ndim))
        sums = np.sum(grouped.astype(np.float64) * offsets, axis=spatial).reshape(-1)
        base = 0.0 if new_bias is None else new_bias.astype(np.float64)
        new_bias = (base + sums).astype(array.dtype)
    products = scaled(grouped, factor).reshape(array.shape)
    linear = Linear(
        weights=products, bias=new_bias, attrs=node.attrs, factor=_one_for_all(change.scale)
    )
    made = _rebuilt(graph, node, linear, result)
    if made is not None:
        made.inputs[0] = change.operand
    return made
