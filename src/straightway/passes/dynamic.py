"""Products of operands that are rounded as the model runs become one operator.

    before                                              after
      %q, %s, %z = DynamicQuantizeLinear(%x)              %y = DynamicQuantizeMatMul(%x, const, %ws, const)
      %m = Cast(MatMulInteger(%q, const, %z, const))
      %y = Mul(%m, Mul(%s, %ws))

So does onnxruntime's own optimiser; the operator is of its domain (docs/ContribOperators.md). A
ConvInteger becomes a Conv of floats whose weights tell that its operand is rounded. TFLite's hybrid
kernels then compute either.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Op, Quant, Value, edit
from straightway.passes.arguments import is_onnx, onnx_op
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.dynamic"
CONTRIB = "com.microsoft"
PRODUCT = Op(dialect=CONTRIB, name="DynamicQuantizeMatMul", version=1)
SINCE = 11
FLOAT32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A product: the real operand, weights with their scale and zero point, and the node that ends it."""

    x: Value
    weights: Value
    scale: Value
    zero_point: Value | None
    last: Node


def run(graph: Graph) -> list[Remark]:
    """Join every product of what is rounded at run time with constant weights."""
    count = 0
    for inner in nested(graph):
        for node in list(inner.nodes):
            found = _product(node) if is_onnx(node, *JOINS) else None
            if found is not None:
                count += JOINS[node.op.name](inner, node, found)
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
    cast = _only_user(node.outputs[0])
    scaled = None if cast is None or not is_onnx(cast, "Cast") else _only_user(cast.outputs[0])
    if scaled is None or not is_onnx(scaled, "Mul") or scaled.outputs[0].type is None:
        return None
    factors = [v for v in scaled.operands() if v is not cast.outputs[0]]  # type: ignore[union-attr]
    scale = _weights_scale(factors[0], rounding.outputs[1]) if len(factors) == 1 else None
    (real,) = rounding.operands()
    if scale is None or real.type is None or real.rank < 2 or real.dtype != FLOAT32:
        return None
    return Found(x=real, weights=weights, scale=scale, zero_point=weights_zero, last=scaled)


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
    if found.weights.rank != 2:
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
    return _replace(graph, found.last, onnx_op("Conv", SINCE), [found.x, weights], node.attrs)


def _replace(
    graph: Graph, last: Node, op: Op, inputs: Sequence[Value | None], attrs: Mapping[str, Any]
) -> bool:
    result = Value(graph.fresh(last.outputs[0].name), last.outputs[0].type)
    made = Node(op, inputs, [result], dict(attrs), name=last.name, origins=last.origins)
    edit.insert(graph, made, last)
    edit.replace(last, [result])
    return True


JOINS = {"MatMulInteger": _join_matrices, "ConvInteger": _join_convolution}
