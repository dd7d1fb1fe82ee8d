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

from straightway.ir import Graph, Node, Quant, Value, edit, tensor_type
from straightway.passes.arguments import argument, is_onnx, onnx_op
from straightway.passes.qlinear import PICKS
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.fake_quantize"
SINCE = 13
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
    begin, shift = divided.producer, 0.0
    if begin is not None and is_onnx(begin, "Add", "Sub"):
        divided, shift = _shifted(begin)
        begin = divided.producer
    ratio = None if begin is None else _factor(begin, divided)
    if ratio is None or divided.dtype != FLOAT32 or shift != round(shift):
        return None
    x, inverse = ratio
    steps = _steps(node, shift)
    if steps is None:
        return None
    last, before, limits, after = steps
    back = _factor(last, last.outputs[0])
    if back is None or before + after or abs(back[1] * inverse - 1) > SAME:
        return None
    least, most = (limit - before for limit in limits)
    if not np.isfinite([least, most]).all():
        return None
    scale = back[1] if is_onnx(last, "Mul") else 1 / inverse
    is_known = x.type is not None and x.shape == last.outputs[0].known_type.shape
    if not (is_known and scale > 0 and least <= 0 <= most and most - least <= MOST - LEAST):
        return None
    return Rounding(x=x, scale=scale, least=int(least), most=int(most), last=last)


def _shifted(node: Node) -> tuple[Value, float]:
    """What a whole number is added to before the rounding, and the number; half of one where there is none."""
    number = _added(node)
    x = node.operands()[0] if node.operands()[1].const is not None else node.operands()[1]
    return x, 0.5 if number is None else number


def _steps(node: Node, shift: float) -> tuple[Node, float, tuple[float, float], float] | None:
    """After a Round: the node that multiplies, what is added before a Clip, its limits, what after it."""
    added = [shift, 0.0]
    limits = None
    for user in _users(node):
        if is_onnx(user, "Clip", "Max", "Min"):
            found = _limits(user)
            if found is None or (limits is not None and is_onnx(user, "Clip")):
                return None
            low, high = limits or (-np.inf, np.inf)
            limits = (max(low, found[0]), min(high, found[1]))
        elif is_onnx(user, "Add", "Sub"):
            number = _added(user)
            if number is None or number != round(number):
                return None
            added[limits is not None] += number
        else:
            return None if limits is None else (user, added[0], limits, added[1])
    return None


def _users(node: Node) -> Iterator[Node]:
    """The only user of a node's result, that one's only user, and so on."""
    while len(node.outputs[0].uses) == 1 and (users := node.outputs[0].users()):
        node = users[0]
        yield node


def _number(value: Value | None) -> float | None:
    """The one element of a constant."""
    if value is None or value.const is None or value.const.size != 1:
        return None
    number = float(value.const.reshape(-1)[0])
    return number if np.isfinite(number) else None


def _limits(node: Node) -> tuple[float, float] | None:
    """Between which whole numbers a Clip, a Max or a Min keeps its operand."""
    if is_onnx(node, "Max", "Min"):
        numbers = [n for n in map(_number, node.operands()) if n is not None and n == round(n)]
        if len(numbers) != 1 or len(node.operands()) != len(numbers) + 1:
            return None
        return (numbers[0], np.inf) if is_onnx(node, "Max") else (-np.inf, numbers[0])
    values = [argument(node, name) for name in ("min", "max")]
    if any(np.size(value) != 1 or value is None for value in values):
        return None
    low, high = (float(np.reshape(value, -1)[0]) for value in values)
    is_whole = np.isfinite([low, high]).all() and (low, high) == (round(low), round(high))
    return (low, high) if is_whole and low <= high else None


def _added(node: Node) -> float | None:
    """What an Add or a Sub adds to its other operand."""
    first, second = node.operands()
    if is_onnx(node, "Sub"):
        number = _number(second)
        return None if number is None else -number
    return _number(second) if second.const is not None else _number(first)


def _factor(node: Node, result: Value) -> tuple[Value, float] | None:
    """The operand of a product with a number, or of a quotient by one, and what it is multiplied with."""
    if not is_onnx(node, "Mul", "Div") or node.outputs[0] is not result:
        return None
    x, number = node.operands()
    if is_onnx(node, "Mul") and number.const is None:
        x, number = number, x
    factor = _number(number)
    if factor is None or not factor > 0 or x.const is not None:
        return None
    return x, factor if is_onnx(node, "Mul") else 1 / factor


def _replace(graph: Graph, found: Rounding) -> None:
    """One rounding, and one more where neither end of 256 numbers is both limits."""
    last, value = found.last, found.x
    kind = last.outputs[0].known_type
    scale = np.float32(found.scale)
    for zero in dict.fromkeys((LEAST - found.least, MOST - found.most)):
        given = [
            edit.constant(graph, np.array(scale), f"{last.outputs[0].name}/scale"),
            edit.constant(graph, np.array(zero, np.int8), f"{last.outputs[0].name}/zero_point"),
        ]
        for name, made in (
            ("QuantizeLinear", tensor_type("int8", kind.shape)),
            ("DequantizeLinear", kind),
        ):
            result = Value(graph.fresh(last.outputs[0].name), made)
            node = Node(
                onnx_op(name, SINCE),
                [value, *given],
                [result],
                {},
                name=last.name,
                origins=last.origins,
            )
            edit.insert(graph, node, last)
            value = result
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
