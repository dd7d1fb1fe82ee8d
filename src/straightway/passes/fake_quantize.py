"""Rounding that is spelled out in floats becomes a QuantizeLinear and a DequantizeLinear.

    before                                             after
      %a = Div(%x, s)                                    %q = QuantizeLinear(%x, s, z)
      %b = Clip(Add(Round(%a), z), -128, 127)            %y = DequantizeLinear(%q, s, z)
      %y = Mul(Sub(%b, z), s)

So training with fake quantization is exported where no operator stands for it. Limits that leave
fewer than 256 numbers are said by a second rounding with another zero point, as in qlinear.

Such exports hold weights as floats, the integers' multiples of a scale. The scale is found again: the
largest for each filter whose multiples the weights are, to the last digit but two.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from straightway.ir import Graph, Node, Quant, Value, edit
from straightway.passes.arguments import (
    RuntimeOperandError,
    argument,
    clip_limits,
    is_onnx,
    number,
)
from straightway.passes.qlinear import PICKS, rounded
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.fake_quantize"
FLOAT32 = np.dtype(np.float32)
LEAST, MOST = -128, 127
# of a scale and of the inverse of another, rounded each
SAME = 2.0**-22
# a product rounded once, of a scale that is known but for its last digit
DIGITS = 4 * 2.0**-24
# elements of a filter that are tried before all are
TRIED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """What is rounded to multiples of a scale, between which of them, and the node that ends it."""

    x: Value
    scale: float
    least: int
    most: int
    last: Node


def run(graph: Graph) -> list[Remark]:
    """Name every rounding that is spelled out, and the scale of every weight that is multiplied after one."""
    roundings = weights = 0
    for inner in nested(graph):
        for node in list(inner.nodes):
            found = _rounding(node) if is_onnx(node, "Round") else None
            if found is not None:
                _replace(inner, found)
                roundings += 1
        for node in list(inner.nodes):
            weights += is_onnx(node, "Conv", "Gemm", "MatMul") and _name_scale(inner, node)
    if not roundings + weights:
        return []
    text = (
        f"{roundings} roundings spelled out in floats became QuantizeLinear and DequantizeLinear, "
        f"{weights} weights in floats are the multiples of a scale"
    )
    numbers = {"roundings": roundings, "weights": weights}
    return [Remark(kind="done", step=STEP, text=text, numbers=numbers)]


def _rounding(node: Node) -> Rounding | None:
    """From what is divided by a scale to the product with it."""
    (divided,) = node.operands()
    before = None if divided.producer is None else _added(divided.producer)
    divided, shift = before or (divided, 0.0)
    ratio = None if divided.producer is None else _factor(divided.producer)
    ending = _ending(node, shift)
    if ratio is None or ending is None or divided.dtype != FLOAT32:
        return None
    x, inverse = ratio
    last, least, most = ending
    back = _factor(last)
    if back is None or abs(back[1] * inverse - 1) > SAME:
        return None
    scale = back[1] if is_onnx(last, "Mul") else 1 / inverse
    is_known = x.type is not None and x.shape == last.outputs[0].known_type.shape
    if not (is_known and scale > 0 and least <= 0 <= most and most - least <= MOST - LEAST):
        return None
    return Rounding(x=x, scale=scale, least=int(least), most=int(most), last=last)


def _ending(node: Node, shift: float) -> tuple[Node, float, float] | None:
    """After a Round: the node that multiplies, and between which limits, whatever was added on the way."""
    least, most = -np.inf, np.inf
    for user in _users(node):
        limits, added = _limits(user), _added(user)
        if limits is not None:
            least, most = max(least, limits[0] - shift), min(most, limits[1] - shift)
        elif added is not None:
            shift += added[1]
        else:
            return None if shift else (user, least, most)
    return None


def _users(node: Node) -> Iterator[Node]:
    """The only user of a node's result, that one's only user, and so on, in one graph."""
    while len(node.outputs[0].uses) == 1:
        (user,) = node.outputs[0].users()
        if user.graph is not node.graph:
            return
        yield (node := user)


def _number(value: Value) -> float | None:
    """The one element of a constant."""
    found = number(value.const)
    return found if found is not None and np.isfinite(found) else None


def _limits(node: Node) -> tuple[float, float] | None:
    """Between which whole numbers a Clip, a Max or a Min keeps its operand."""
    low, high = -np.inf, np.inf
    if is_onnx(node, "Clip"):
        try:
            low, high = clip_limits(node)
        except RuntimeOperandError:
            return None
    elif is_onnx(node, "Max", "Min"):
        numbers = [n for n in map(_number, node.operands()) if n is not None]
        if len(numbers) != 1 or len(node.operands()) != 2:
            return None
        low, high = (numbers[0], high) if is_onnx(node, "Max") else (low, numbers[0])
    else:
        return None
    return (low, high) if low <= high and (low, high) == (np.rint(low), np.rint(high)) else None


def _added(node: Node) -> tuple[Value, float] | None:
    """The operand of a sum with a whole number, or of a difference from one, and what is added to it."""
    if not is_onnx(node, "Add", "Sub"):
        return None
    x, found = _and_number(node, "Add")
    if found is None or found != round(found):
        return None
    return x, -found if is_onnx(node, "Sub") else found


def _and_number(node: Node, commutes: str) -> tuple[Value, float | None]:
    """The operand, and the number beside it: the second, or either of an op that commutes."""
    x, constant = node.operands()
    if is_onnx(node, commutes) and constant.const is None:
        x, constant = constant, x
    return x, _number(constant)


def _factor(node: Node) -> tuple[Value, float] | None:
    """The operand of a product with a number, or of a quotient by one, and what it is multiplied with."""
    if not is_onnx(node, "Mul", "Div"):
        return None
    x, factor = _and_number(node, "Mul")
    if factor is None or not factor > 0 or x.const is not None:
        return None
    return x, factor if is_onnx(node, "Mul") else 1 / factor


def _replace(graph: Graph, found: Rounding) -> None:
    """One rounding, and one more where neither end of 256 numbers is both limits."""
    last, value = found.last, found.x
    name = last.outputs[0].name
    scale = edit.constant(graph, np.array(found.scale, np.float32), f"{name}/scale")
    for zero in dict.fromkeys((LEAST - found.least, MOST - found.most)):
        point = edit.constant(graph, np.array(zero, np.int8), f"{name}/zero_point")
        value = rounded(graph, last, value, scale, point)
    edit.replace(last, [value])


def _name_scale(graph: Graph, node: Node) -> bool:
    """Say of which scales the weights are multiples, where they multiply what is rounded."""
    x, weights, *_ = node.operands()
    maker = x.producer
    while maker is not None and is_onnx(maker, *PICKS):
        maker = maker.operands()[0].producer
    if maker is None or not is_onnx(maker, "DequantizeLinear"):
        return False
    if weights.const is None or weights.quant is not None or weights.dtype != FLOAT32:
        return False
    if weights.rank < 2 or (not is_onnx(node, "Conv") and weights.rank != 2):
        return False
    axis = 0 if is_onnx(node, "Conv") or argument(node, "transB", 0) else 1
    scales = scales_of(np.moveaxis(weights.const, axis, 0).reshape(weights.shape[axis], -1))
    if scales is None:
        return False
    made = edit.constant(graph, weights.const, weights.name)
    zeros = np.zeros(scales.size, np.int64)
    made.quant = Quant(scale=scales, zero_point=zeros, axis=axis)
    edit.set_input(node, 1, made)
    return True


def scales_of(filters: np.ndarray) -> np.ndarray | None:
    """The largest scale of each filter, [filters, elements], whose multiples from -127 to 127 its elements are."""
    if not filters.size or not np.isfinite(filters).all():
        return None
    wide = filters.astype(np.float64)
    largest = np.abs(wide).max(1)
    steps = np.where(largest > 0, 0, 1)
    for step in range(1, MOST + 1):
        for some in (wide[:, :TRIED], wide):
            left = np.flatnonzero(steps == 0)
            if not left.size:
                break
            multiples = some[left] * (step / largest[left])[:, None]
            fits = (np.abs(multiples - np.rint(multiples)) <= DIGITS * step).all(1)
            if not fits.any():
                break
        else:
            steps[left[fits]] = step
    if not steps.all():
        return None
    return np.where(largest > 0, largest / steps, 1.0).astype(np.float32)
