"""Products of operands that are rounded as the model runs become one operator.

    before                                              after
      %q, %s, %z = DynamicQuantizeLinear(%x)              %y = DynamicQuantizeMatMul(%x, const, %ws, const)
      %m = Cast(MatMulInteger(%q, const, %z, const))
      %y = Mul(%m, Mul(%s, %ws))

or
      %y = MatMul(DequantizeLinear(%q, %s, %z), DequantizeLinear(const))

So does onnxruntime's own optimiser; the operator is of its domain (docs/ContribOperators.md). A
ConvInteger becomes a Conv of floats whose weights tell that its operand is rounded. TFLite's hybrid
kernels then compute either. A bias that the model rounds to the scale of the products, since integers
are added to integers, is added as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Op, Quant, Value, edit
from straightway.passes.arguments import argument, is_onnx, onnx_op
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.dynamic"
CONTRIB = "com.microsoft"
PRODUCT = Op(dialect=CONTRIB, name="DynamicQuantizeMatMul", version=1)
SINCE = 11
INT8_MOST = 127
FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A product: the real operand, weights with their scale and zero point, and the node that ends it.

    `bias`: what the model rounds and adds before.
    """

    x: Value
    weights: Value
    scale: Value
    zero_point: Value | None
    last: Node
    bias: Value | None = None


def run(graph: Graph) -> list[Remark]:
    """Join every product of what is rounded at run time with constant weights."""
    count = 0
    for inner in nested(graph):
        for node in list(inner.nodes):
            found = _product(node) if is_onnx(node, *JOINS) else None
            if found is not None:
                count += JOINS[node.op.name](inner, node, found)
            elif is_onnx(node, *REALS):
                count += _join_real(inner, node)
    if not count:
        return []
    text = (
        f"{count} products of operands that are rounded as the model runs became one operator each"
    )
    return [Remark(kind="done", step=STEP, text=text, numbers={"nodes": count})]


def _product(node: Node) -> Found | None:
    """The integers, their scales and what makes floats of the product again."""
    x, weights, zero_point, weights_zero = [*node.inputs, None, None][:4]
    rounding = None if x is None else x.producer
    if rounding is None or not is_onnx(rounding, "DynamicQuantizeLinear"):
        return None
    if x is not rounding.outputs[0] or zero_point is not rounding.outputs[2]:
        return None
    if weights is None or weights.const is None or weights.rank < 2:
        return None
    if weights_zero is not None and weights_zero.const is None:
        return None
    ending = _ending(node.outputs[0], rounding.outputs[1])
    (real,) = rounding.operands()
    if ending is None or real.type is None or real.rank < 2 or real.dtype != FLOAT32:
        return None
    last, scale, bias = ending
    return Found(
        x=real, weights=weights, scale=scale, zero_point=weights_zero, last=last, bias=bias
    )


def _ending(product: Value, rounded: Value) -> tuple[Node, Value, Value | None] | None:
    """The node that makes floats of a product, the scale of the weights, the bias added before."""
    first = _only_user(product)
    add = first if first is not None and is_onnx(first, "Add") else None
    cast = first if add is None else _only_user(add.outputs[0])
    last = None if cast is None or not is_onnx(cast, "Cast") else _only_user(cast.outputs[0])
    if cast is None or last is None or not is_onnx(last, "Mul") or last.outputs[0].type is None:
        return None
    factors = [v for v in last.operands() if v is not cast.outputs[0]]
    scale = _weights_scale(factors[0], rounded) if len(factors) == 1 else None
    bias = None if add is None or scale is None else _rounded_bias(add, product, rounded, scale)
    return None if scale is None or (add is not None and bias is None) else (last, scale, bias)


def _rounded_bias(add: Node, product: Value, rounded: Value, factor: Value) -> Value | None:
    """The constant for each channel that, over both scales and rounded, is added to integers."""
    added = value = next((v for v in add.operands() if v is not product), product)
    for ops in (("Reshape", "Unsqueeze", "Cast"), ("Floor", "Round")):
        while value.producer is not None and is_onnx(value.producer, *ops):
            value = value.producer.operands()[0]
    maker = value.producer
    if maker is None or not is_onnx(maker, "Div") or value is add.outputs[0]:
        return None
    bias, scale = maker.operands()
    if bias.const is None or _weights_scale(scale, rounded) is not factor or added.type is None:
        return None
    channels = (1, *bias.shape, *[1] * (product.rank - 2))
    return bias if added.shape == channels else None


def _only_user(value: Value) -> Node | None:
    users = value.users()
    return users[0] if len(value.uses) == 1 and users else None


def _weights_scale(factor: Value, rounded: Value) -> Value | None:
    """Of the product of both scales, that of the weights."""
    maker = factor.producer
    if maker is None or not is_onnx(maker, "Mul") or rounded not in maker.operands():
        return None
    others = [v for v in maker.operands() if v is not rounded]
    return others[0] if len(others) == 1 and others[0].const is not None else None


def _join_matrices(graph: Graph, _: Node, found: Found) -> bool:
    if found.weights.rank != 2 or found.bias is not None:
        return False
    inputs = [found.x, found.weights, found.scale, found.zero_point]
    return _replace(graph, found.last, PRODUCT, inputs, {})


def _join_convolution(graph: Graph, node: Node, found: Found) -> bool:
    """One scale for all filters, or for each, shaped as a channel of the result."""
    rank = found.weights.rank
    scale, zero = (
        np.zeros(1) if v is None or v.const is None else v.const.reshape(-1)
        for v in (found.scale, found.zero_point)
    )
    along = found.scale.rank - (rank - 1)
    filters = found.weights.shape[0]
    if scale.size != 1 and not (scale.size == filters and along in (0, 1)):
        return False
    if scale.size != 1 and found.scale.shape[along] != filters:
        return False
    if found.bias is not None and found.bias.known_type.shape != (filters,):
        return False
    numbers = found.weights.const.astype(np.int64) - zero.astype(np.int64).reshape(  # type: ignore[union-attr]
        -1, *[1] * (rank - 1)
    )
    factors = scale.astype(np.float32)
    real = (numbers * factors.reshape(-1, *[1] * (rank - 1))).astype(np.float32)
    weights = edit.constant(graph, real, f"{found.weights.name}/float")
    weights.quant = Quant(
        scale=factors,
        zero_point=np.zeros(factors.size, np.int64),
        axis=0 if factors.size > 1 else None,
        dynamic=True,
    )
    inputs = [found.x, weights, found.bias][: 2 + (found.bias is not None)]
    return _replace(graph, found.last, onnx_op("Conv", SINCE), inputs, node.attrs)


def _join_real(graph: Graph, node: Node) -> bool:
    """A product of floats that were rounded as the model runs, and of floats that int8 stand for."""
    x, weights, bias = [*node.inputs, None][:3]
    real = None if x is None else _rounded_now(x)
    quant = None if weights is None else weights.quant
    if real is None or weights is None or weights.const is None or quant is None:
        return False
    axis = 0 if is_onnx(node, "Conv") else weights.rank - 1
    if quant.axis not in (None, axis) or np.any(quant.zero_point) or quant.dynamic:
        return False
    if is_onnx(node, "Conv"):
        made = edit.constant(graph, weights.const, weights.name)
        made.quant = replace(quant, dynamic=True)
        return _replace(graph, node, node.op, [real, made, *node.inputs[2:]], node.attrs)
    if weights.rank != 2 or any(argument(node, name, 0) for name in ("transA", "transB")):
        return False
    if bias is not None and (argument(node, "alpha", 1.0), argument(node, "beta", 1.0)) != (1, 1):
        return False
    scale = np.ravel(np.asarray(quant.scale, np.float32))
    numbers = np.rint(weights.const / scale)
    if np.abs(numbers).max(initial=0) > INT8_MOST:
        return False
    given = [
        edit.constant(graph, array, f"{weights.name}/{label}")
        for array, label in ((numbers.astype(np.int8), "stored"), (scale, "scale"))
    ]
    return _replace(graph, node, PRODUCT, [real, *given, None, bias], {})


def _rounded_now(x: Value) -> Value | None:
    """What a value was before it was rounded by its range as the model runs."""
    maker = x.producer
    if maker is None or not is_onnx(maker, "DequantizeLinear") or len(maker.operands()) != 3:
        return None
    rounding = maker.operands()[0].producer
    if rounding is None or not is_onnx(rounding, "DynamicQuantizeLinear"):
        return None
    same = [v is w for v, w in zip(maker.operands(), rounding.outputs, strict=True)]
    (real,) = rounding.operands()
    is_known = all(same) and real.type is not None and real.rank >= 2 and real.dtype == FLOAT32
    return real if is_known else None


def _replace(
    graph: Graph, last: Node, op: Op, inputs: Sequence[Value | None], attrs: Mapping[str, Any]
) -> bool:
    result = Value(graph.fresh(last.outputs[0].name), last.outputs[0].type)
    made = Node(op, inputs, [result], dict(attrs), name=last.name, origins=last.origins)
    edit.insert(graph, made, last)
    edit.replace(last, [result])
    return True


REALS = ("Conv", "MatMul", "Gemm")
JOINS = {"MatMulInteger": _join_matrices, "ConvInteger": _join_convolution}
