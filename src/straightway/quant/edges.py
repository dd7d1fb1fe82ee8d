"""Where real numbers become integers and back: QUANTIZE, DEQUANTIZE, and who asks for what."""

from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Op, TensorType, Value, edit
from straightway.quant.scheme import INT8, INT16, Scheme, scheme_of

FLOAT32 = np.dtype(np.float32)


def is_op(node: Node | None, *names: str) -> bool:
    """Whether a node is one of these TFLite ops."""
    return node is not None and node.op.dialect == "tflite" and node.op.name in names


def rounds(node: Node | None) -> bool:
    """Whether a node makes integers of floats."""
    return is_op(node, "QUANTIZE") and node.operands()[0].dtype == FLOAT32  # type: ignore[union-attr]


def requantizes(node: Node | None) -> bool:
    """Whether a node makes integers of other integers."""
    return is_op(node, "QUANTIZE") and node.operands()[0].dtype != FLOAT32  # type: ignore[union-attr]


def is_requantized(source: Value, result: Value) -> bool:
    """Whether QUANTIZE makes integers of these without floats: to int16 only LiteRT's of int16 does.

    kernels/quantize.cc (LiteRT v2.3.0): Prepare takes int8 to int8 and uint8, int16 to int8, too.
    """
    return source.dtype == result.dtype or (source.dtype == INT16 and result.dtype == INT8)


def shifts(node: Node) -> bool:
    """Whether a QUANTIZE only shifts between int8 and uint8."""
    own, other = scheme_of(node.operands()[0]), scheme_of(node.output)
    apart = other.zero_point - own.zero_point
    return own.dtype != other.dtype and own.scale == other.scale and abs(apart) == 128


def stored(value: Value) -> Value | None:
    """The integers behind floats that a DEQUANTIZE made, None where none did."""
    node = value.producer
    return node.operands()[0] if node is not None and is_op(node, "DEQUANTIZE") else None


def demand(value: Value) -> Scheme | None:
    """The one scheme in which all users want a value, None where they differ or take floats."""
    users = value.users()
    if not users or not all(rounds(user) for user in users):
        return None
    schemes = {scheme_of(user.output) for user in users}
    return schemes.pop() if len(schemes) == 1 else None


def integers(graph: Graph, like: Value, scheme: Scheme, name: str = "") -> Value:
    """Make a value that will hold `like` by a scheme."""
    kind = TensorType(dtype=scheme.dtype, shape=like.known_type.shape)
    made = Value(graph.fresh(name or f"{like.name}/{scheme.dtype}"), kind)
    made.quant = scheme.quant
    return made


def constant(graph: Graph, value: Value, scheme: Scheme) -> Value:
    """Round a constant of floats."""
    made = edit.constant(graph, scheme.stored(np.asarray(value.const)), value.name)
    made.quant = scheme.quant
    return made


def quantized(graph: Graph, value: Value, scheme: Scheme, before: Node) -> Value:
    """Return the integers of a value by a scheme: those it was made from, or what QUANTIZE gives."""
    if value.const is not None:
        return constant(graph, value, scheme)
    source = stored(value)
    if source is not None and scheme_of(source) == scheme:
        return source
    known = next((u.output for u in value.users() if rounds(u)), None)
    if known is not None and scheme_of(known) == scheme and _stands_before(known, before):
        return known
    made = integers(graph, value, scheme)
    attrs = {"dtype": scheme.dtype}
    edit.insert(
        graph,
        _conversion("QUANTIZE", source or value, made, value.producer or before, attrs),
        before,
    )
    return made


def dequantized(graph: Graph, value: Value, like: Value, before: Node) -> Value:
    """Return the floats that integers stand for, under the name of `like`."""
    made = Value(graph.fresh(like.name), like.type)
    edit.insert(graph, _conversion("DEQUANTIZE", value, made, like.producer or before), before)
    return made


def take_over(rounding: Node, maker: Node, place: int) -> None:
    """Let result `place` of `maker`, which gives integers, be what a QUANTIZE gave."""
    result = rounding.output
    for value in rounding.operands():
        value.uses.pop((rounding, 0), None)
    rounding.inputs, rounding.outputs = [], []
    edit.remove(rounding)
    maker.outputs[place] = result
    result.producer = maker


def _stands_before(value: Value, node: Node) -> bool:
    """Whether a value is made before a node runs."""
    current = value.producer
    while current is not None and current is not node:
        current = current.next
    return current is node


def _conversion(
    name: str, value: Value, result: Value, owner: Node, attrs: dict[str, Any] | None = None
) -> Node:
    """A conversion under the name of the node for which it is done."""
    op = Op(dialect="tflite", name=name)
    return Node(op, [value], [result], attrs, name=owner.name, origins=owner.origins)
