"""Scales and offsets of channels join the weights of the linear operator beside them.

    before                                        after
      %a = Conv(%x, %w, %b)                         %y = Relu(Conv(%x, %w1, %b1))
      %c = BatchNormalization(%a, ...)
      %d = Mul(%c, const [C,1,1])
      %y = Relu(%d)

      %a = Mul(%x, const [C,1,1])                   %y = Conv(%x, %w2, %b)
      %y = Conv(%a, %w, %b)

      %a = BatchNormalization(%x, ...)              %a = Mul(%x, const [C,1,1])
                                                    %y = Add(%a, const [C,1,1])

Constants in a row join as well: x·a·b = x·(a·b). Weights are computed in float64 and stored in their
own type, so results differ from the model's by the rounding of single weights.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.ir.source import merge
from straightway.passes import weights
from straightway.passes.arguments import is_onnx, onnx_op
from straightway.passes.channelwise import (
    ARITHMETIC,
    Channelwise,
    is_floating,
    read_arithmetic,
    read_normalization,
)
from straightway.passes.outputs import replace
from straightway.passes.renaming import behind, renamed_axis
from straightway.passes.types import nested, same_type
from straightway.remark import Remark

STEP = "passes.affine"
# x + a - b may be there to round x: sums that cancel so far are left.
LEAST_REMAINDER = 1e-3


def run(graph: Graph) -> list[Remark]:
    """Fold into the weights before, split what is left of normalisations, fold into those after."""
    remarks = []
    for inner in nested(graph):
        folding = _Folding(graph=inner)
        for node in inner.nodes:
            folding.backward(node)
        for node in inner.nodes:
            folding.split(node)
        for node in inner.nodes:
            folding.forward(node)
        remarks += folding.remarks()
    return remarks


@dataclass(slots=True, kw_only=True)
class _Folding:
    graph: Graph
    counts: Counter[str] = field(default_factory=Counter)
    missed: list[Remark] = field(default_factory=list)
    reasons: dict[Node, str] = field(default_factory=dict)

    def remarks(self) -> list[Remark]:
        texts = {
            "after": "scales and offsets folded into the weights before them",
            "before": "scales and offsets folded into the weights after them",
            "merged": "constants joined with the constant before them",
        }
        done = [
            Remark(kind="done", step=STEP, text=f"{count} {texts[key]}", numbers={"nodes": count})
            for key, count in sorted(self.counts.items())
        ]
        return [*done, *self.missed]

    def backward(self, node: Node) -> None:
        """Fold the node into what makes its operand."""
        if is_onnx(node, "BatchNormalization"):
            change = read_normalization(node)
            reason = change if isinstance(change, str) else self.fold_after(node, 0, change, 1)
            if reason:
                self.reasons[node] = reason
        elif is_onnx(node, "Neg", *ARITHMETIC) and not self.fold_arithmetic(node):
            self.merge_constants(node)

    def fold_arithmetic(self, node: Node) -> bool:
        """Fold Neg, Add, Sub, Mul or Div by a constant into the weights before it."""
        for index, value in enumerate(node.inputs):
            if value is None or value.producer is None:
                continue
            axis = _channel_axis(value)
            change = read_arithmetic(node, axis)
            if change is not None and change.operand is value:
                return not self.fold_after(node, index, change, axis)
        return False

    def fold_after(self, node: Node, index: int, change: Channelwise, axis: int | None) -> str:
        """Let the linear operator behind operand `index` compute the node; returns why not, or ""."""
        operand, path = behind(change.operand)
        maker = operand.producer
        channels = None if maker is None else _output_axis(maker)
        if maker is None or channels is None:
            return "no convolution or matrix product makes its operand"
        if change.scale.size > 1 and _renamed(path, channels) != axis:
            return f"its channels are not those of '{maker.name}'"
        whole = change.over(operand.shape[channels])
        reason = _fault(maker, whole)
        if reason:
            return reason
        bias = _matmul_bias(maker)
        made = self.rebuilt(maker, bias, whole)
        if made is None:
            return "a weight would overflow"
        edit.replace(maker, [made.output], node.origins)
        if bias is not None and bias.operand.producer is not None:
            edit.remove(bias.operand.producer)
        # what stands between means something new, and gives up its name
        for between in (made, *path):
            between.outputs[0].name = self.graph.fresh(between.outputs[0].name)
        value = node.inputs[index]
        if value is not None:
            replace(self.graph, node, value)
        self.counts["after"] += 1
        return ""

    def rebuilt(self, maker: Node, bias: Channelwise | None, change: Channelwise) -> Node | None:
        """Insert a linear operator before `maker` that computes `change` of its result."""
        if bias is None:
            made = weights.after(self.graph, maker, change, _result(self.graph, maker))
            return None if made is None else edit.insert(self.graph, made, maker)
        # (x·W + b)·s + t = x·(W·s) + (b·s + t)
        product = bias.operand.producer
        if product is None:
            return None
        scale = change.without_offset()
        made = weights.after(self.graph, product, scale, _result(self.graph, product))
        offset = (bias.offset * change.scale + change.offset).astype(maker.output.dtype)
        if made is None or not np.all(np.isfinite(offset)):
            return None
        edit.insert(self.graph, made, maker)
        constant = edit.constant(self.graph, offset, f"{maker.name}_offset")
        result = _result(self.graph, maker)
        total = Node(maker.op, [made.output, constant], [result], name=maker.name)
        return edit.insert(self.graph, total, maker)

    def take(self, node: Node, made: Node, *gone: Node) -> None:
        """Put `made` in the place of `node` and of the nodes before it that it stands for."""
        edit.insert(self.graph, made, before=node)
        edit.replace(node, [made.output], merge(*(other.origins for other in gone)))
        for other in gone:
            edit.remove(other)

    def merge_constants(self, node: Node) -> None:
        """x·a·b = x·(a·b), x + a + b = x + (a + b), where no number is lost by it."""
        found = _joined_constants(node)
        if found is None:
            return
        before, operand, constant = found
        value = edit.constant(self.graph, constant, f"{node.name}_constant")
        result = _result(self.graph, node)
        made = Node(node.op, [operand, value], [result], node.attrs, name=node.name)
        self.take(node, made, before)
        self.counts["merged"] += 1

    def split(self, node: Node) -> None:
        """Turn what is left of a normalisation into Mul and Add."""
        if not is_onnx(node, "BatchNormalization"):
            return
        change = read_normalization(node)
        reason = self.reasons.get(node, "")
        made = None if isinstance(change, str) else self.multiply_add(node, change)
        if made is not None:
            edit.replace(node, [made, *node.outputs[1:]])
            reason += "; it became a multiplication and an addition"
        text = f"not folded into weights: {reason}"
        self.missed.append(
            Remark(kind="missed", step=STEP, node=node.name, op=node.op.name, text=text)
        )

    def multiply_add(self, node: Node, change: Channelwise) -> Value | None:
        """Make scale·x + offset; None where the rank is unknown or a number overflows."""
        kind = node.outputs[0].type
        if kind is None or kind.rank < 2 or not is_floating(node.outputs[0]):
            return None
        shape = (-1, *(1,) * (kind.rank - 2))
        steps = {"Mul": change.scale, "Add": change.offset}
        with np.errstate(over="ignore"):
            arrays = {name: v.astype(kind.dtype).reshape(shape) for name, v in steps.items()}
        if not all(np.all(np.isfinite(array)) for array in arrays.values()):
            return None
        value = change.operand
        for name, array in arrays.items():
            constant = edit.constant(self.graph, array, f"{node.name}_{name.lower()}")
            result = Value(self.graph.fresh(node.outputs[0].name), kind)
            op, label = onnx_op(name, 14), node.name
            made = Node(op, [value, constant], [result], name=label, origins=node.origins)
            edit.insert(self.graph, made, before=node)
            value = result
        return value

    def forward(self, node: Node) -> None:
        """Fold what makes a convolution's operand into its weights, as long as there is some."""
        while is_onnx(node, "Conv") and not weights.fold_fault(node, NOTHING):
            value = node.inputs[0]
            maker = value.producer if value is not None and len(value.uses) == 1 else None
            change = read_arithmetic(maker, 1) if maker is not None else None
            if maker is None or change is None:
                return
            if change.shifts and not weights.is_unpadded(node):
                return
            whole = change.over(change.operand.shape[1])
            made = weights.before(self.graph, node, whole, _result(self.graph, node))
            if made is None:
                return
            self.take(node, made, maker)
            self.counts["before"] += 1
            node = made


NOTHING = Channelwise(operand=Value("", None), scale=np.ones(1), offset=np.zeros(1))


def _output_axis(maker: Node) -> int | None:
    """The axis of the channels that the weights make, counted from the first; also past a bias."""
    bias = _matmul_bias(maker)
    axis = weights.output_axis(maker) if bias is None else -1
    kind = maker.outputs[0].type
    if axis is None or kind is None or not kind.is_static:
        return None
    return axis % kind.rank


def _renamed(path: list[Node], axis: int) -> int | None:
    """Where the axis stands after the nodes, of which the last comes first."""
    found: int | None = axis
    for node in reversed(path):
        found = None if found is None else renamed_axis(node, found)
    return found


def _channel_axis(value: Value) -> int | None:
    """The axis of the channels of the linear operator behind a value, where it stays whole."""
    operand, path = behind(value)
    axis = None if operand.producer is None else _output_axis(operand.producer)
    return None if axis is None else _renamed(path, axis)


def _fault(maker: Node, change: Channelwise) -> str:
    """Why `maker` can't take in the change, or ""."""
    if len(maker.output.uses) != 1:
        return f"the result of '{maker.name}' is also used elsewhere"
    bias = _matmul_bias(maker)
    if bias is None or bias.operand.producer is None:
        return weights.fold_fault(maker, change)
    if not change.scales:
        return "an offset joins the bias as any constant does"
    if len(bias.operand.uses) != 1:
        return f"the result of '{bias.operand.producer.name}' is also used elsewhere"
    return weights.fold_fault(bias.operand.producer, change.without_offset())


def _result(graph: Graph, node: Node) -> Value:
    return Value(graph.fresh(node.outputs[0].name), node.outputs[0].type)


def _matmul_bias(add: Node) -> Channelwise | None:
    """Read an Add that gives a product by constant weights its bias."""
    kind = add.outputs[0].type if is_onnx(add, "Add") else None
    change = read_arithmetic(add, kind.rank - 1) if kind is not None else None
    if change is None or change.operand.producer is None:
        return None
    return change if is_onnx(change.operand.producer, "MatMul") else None


def _split_constant(node: Node) -> tuple[Value, np.ndarray] | None:
    """The operand and the constant of an Add or Mul that changes no shape."""
    for value, other in (node.inputs, node.inputs[::-1]):
        if value is not None and other is not None and other.const is not None:
            fits = value.const is None and same_type(value, node.output) and is_floating(value)
            return (value, other.const) if fits else None
    return None


def _joined_constants(node: Node) -> tuple[Node, Value, np.ndarray] | None:
    """The node before, its operand, and the constant that stands for both nodes' constants."""
    outer = _split_constant(node) if is_onnx(node, "Add", "Mul") else None
    before = outer[0].producer if outer is not None else None
    if outer is None or before is None or before.op != node.op or len(outer[0].uses) != 1:
        return None
    inner = _split_constant(before)
    if inner is None:
        return None
    first, second = inner[1].astype(np.float64), outer[1].astype(np.float64)
    with np.errstate(all="ignore"):
        joined = first * second if node.op.name == "Mul" else first + second
        stored = joined.astype(node.output.dtype)
    return (before, inner[0], stored) if _is_safe(node, first, second, stored) else None


def _is_safe(node: Node, first: np.ndarray, second: np.ndarray, joined: np.ndarray) -> bool:
    """Whether the joined constant neither overflows, underflows nor cancels."""
    if not np.all(np.isfinite(joined)):
        return False
    if node.op.name == "Mul":
        tiny = float(np.finfo(np.float16 if joined.dtype.itemsize == 2 else joined.dtype).tiny)
        return bool(np.all((np.abs(joined) >= tiny) | (first * second == 0)))
    largest = np.maximum(np.abs(first), np.abs(second))
    return bool(np.all(np.abs(joined) >= LEAST_REMAINDER * largest))
