"""Weights of every op in eight bits, a scale for each channel, and biases that fit beside them."""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Quant, Value
from straightway.ir.scheme import aligned
from straightway.quant.assignment import Assignment
from straightway.quant.scheme import INT8, INT16, Scheme
from straightway.quant.weights import BIAS_LIMIT, least_scale, output_axis
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

STEP = "quant.filters"
MOST = 127
# a product of scales this far below the result's changes nothing that is stored
LEAST_RATIO = 2.0**-24


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Integers of weights and bias, and their scales; a bias that is floats in the model is None."""

    weights: np.ndarray
    quant: Quant
    bias: np.ndarray | None
    bias_quant: Quant


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of a graph, by node; what was done to them.

    `shifts` belong to biases of floats: an op's own, or the constant that is added to its result.
    """

    by_node: Mapping[Node, Filter]
    remarks: tuple[Remark, ...]
    shifts: Mapping[Node, np.ndarray] = field(default_factory=dict)

    def of(self, node: Node, place: int) -> tuple[np.ndarray, Quant] | None:
        """Weights (place 1) or bias (2) of a node; None for a bias of floats."""
        found = self.by_node[node]
        if place == 1:
            return found.weights, found.quant
        return None if found.bias is None else (found.bias, found.bias_quant)


def store(
    graph: Graph,
    assignment: Assignment,
    *,
    per_channel: bool = True,
    single_scale: AbstractSet[str] = frozenset(),
) -> Filters:
    """Quantize the weights of every op that computes with integers, or rounds its operand as it runs.

    Those of the ops `single_scale` have one scale for all channels, whatever `per_channel` says.
    """
    found: dict[Node, Filter] = {}
    remarks: list[Remark] = []
    for node in graph.nodes:
        row = ROWS.get(node.op.name)
        if row is None or row.quant != "weights":
            continue
        if node in assignment.hybrids:
            found[node] = _hybrid(node, per_channel=per_channel)
        if node in assignment.floats:
            continue
        by_channel = per_channel and node.op.name not in single_scale
        found[node], said = _filter(node, assignment, per_channel=by_channel)
        remarks += said
    return Filters(by_node=found, remarks=tuple(remarks))


def _hybrid(node: Node, *, per_channel: bool) -> Filter:
    """Weights by their own ranges; the bias stays in floats."""
    weights, axis = node.operands()[1], output_axis(node)
    array = np.asarray(weights.const, np.float64)
    most = np.abs(array).max(tuple(k for k in range(array.ndim) if k != axis), initial=0.0)
    scale = np.where(most > 0, most, 1.0) / MOST
    scale = scale if per_channel else np.full_like(scale, most.max(initial=0.0) / MOST or 1.0)
    quant = _quant(scale, axis if per_channel else None)
    numbers = np.rint(array / aligned(quant.scale.astype(np.float64), quant, array.ndim))
    stored = np.clip(numbers, -MOST, MOST).astype(INT8)
    return Filter(weights=stored, quant=quant, bias=None, bias_quant=quant)


def _filter(
    node: Node, assignment: Assignment, *, per_channel: bool
) -> tuple[Filter, list[Remark]]:
    x, weights, bias = [*node.inputs, None][:3]
    if x is None or weights is None or weights.const is None:
        raise ValueError(f"{node} has no weights")
    axis = output_axis(node)
    array = np.asarray(weights.const, np.float64)
    others = tuple(k for k in range(array.ndim) if k != axis)
    most = np.abs(array).max(others) if array.size else np.zeros(array.shape[axis])
    most = most if per_channel else np.full_like(most, most.max(initial=0.0))
    read = assignment.roundings(node, x)[-1]
    least = np.full_like(most, LEAST_RATIO * _result_scale(node, assignment) / read.scale)
    wanted = np.broadcast_to(least_scale(bias, read), most.shape)
    scale = np.maximum.reduce([most / MOST, least, wanted])
    if not per_channel:
        scale = np.full_like(scale, scale.max(initial=0.0))
    remarks = _told(node, most / MOST, scale, wanted)
    quant = _quant(scale, axis if per_channel else None)
    numbers = np.rint(array / aligned(quant.scale.astype(np.float64), quant, array.ndim))
    return (
        Filter(
            weights=np.clip(numbers, -MOST, MOST).astype(INT8),
            quant=quant,
            bias=None if bias is None else _bias(bias, quant, read),
            bias_quant=_quant(np.float32(read.scale) * quant.scale, 0 if per_channel else None),
        ),
        remarks,
    )


def _quant(scale: Any, axis: int | None) -> Quant:
    """Scales along an axis; without one, the first stands for all."""
    single = np.ravel(np.asarray(scale, np.float32))
    single = single[:1] if axis is None else single
    return Quant(scale=single, zero_point=np.zeros(single.size, np.int64), axis=axis)


def _result_scale(node: Node, assignment: Assignment) -> float:
    """The scale of what the op gives, perhaps after an activation; the smallest where unknown."""
    value = node.output
    while value not in assignment.schemes and len(value.uses) == 1:
        (user,) = value.users()
        if len(user.outputs) != 1:
            break
        value = user.output
    scheme = assignment.schemes.get(value)
    return 0.0 if scheme is None else scheme.scale


def _bias(bias: Value, quant: Quant, x: Scheme) -> np.ndarray | None:
    """Int32; None beside int16, where it is int64, of which ONNX has no DequantizeLinear."""
    if x.dtype == INT16:
        return None
    scale = (np.float32(x.scale) * quant.scale).astype(np.float64)
    numbers = np.rint(np.ravel(np.asarray(bias.const, np.float64)) / scale)
    return np.clip(numbers, 1 - BIAS_LIMIT, BIAS_LIMIT - 1).astype(np.int32)


def _told(node: Node, own: np.ndarray, scale: np.ndarray, wanted: np.ndarray) -> list[Remark]:
    """Channels whose scale is not that of their own weights."""
    found = []
    dead = own == 0
    raised = (wanted > own) & ~dead
    tiny = (scale > own) & ~raised & ~dead
    for which, text in (
        (dead, "channels have no weights but zeros; their scale is that of their bias"),
        (
            raised,
            "channels have weights so small that their bias would not fit; their scale was raised",
        ),
        (tiny, "channels have weights too small to change the result; their scale was raised"),
    ):
        count = int(which.sum())
        if count and len(own) > 1:
            found.append(
                Remark(
                    kind="done",
                    step=STEP,
                    node=node.name,
                    op=node.op.name,
                    text=f"{count} of {len(own)} {text}",
                    numbers={"channels": count},
                )
            )
    return found
