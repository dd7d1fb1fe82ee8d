"""Weights of a written graph as float16, int8 or int4, while everything else computes with floats.

before                                            after
  %y = CONV_2D(%x, const f32, %b)                   %w = DEQUANTIZE(const f16)
                                                    %y = CONV_2D(%x, %w, %b)
  %y = FULLY_CONNECTED(%x, const f32, %b)           %y = FULLY_CONNECTED(%x, const i4, %b)

XNNPACK's delegate unpacks what a DEQUANTIZE makes of constants once, when the file is loaded (float16
weights of products not even then: its kernels read them), so that no DEQUANTIZE runs
(delegates/xnnpack/xnnpack_delegate.cc:7183). Only weights of ops that it takes are stored so. int4 is
read by FULLY_CONNECTED's hybrid kernel, which rounds its operand to 8 bits, each row by its own range
(:4902); weights of other ops are int8 then.
"""

from collections import Counter
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from straightway.ir import Graph, Node, Op, Quant, TensorType, Value, edit
from straightway.quant import blocks
from straightway.quant.blocks import Spread
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

STEP = "quant.weights_only"
KINDS = ("float32", "float16", "int8", "int4")
FLOAT32 = np.dtype(np.float32)
INT4 = np.dtype(ml_dtypes.int4)
# of each op with weights, the written dimension that counts its results
CHANNELS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0}
PLACE = 1
# the greatest number stored, the same on both sides of zero
LIMITS = {"int8": 127, "int4": 7}
LARGEST_FLOAT16 = 65504.0
# below, the operator that unpacks them takes more room than is saved
LEAST_ELEMENTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Weights of some ops: how they are stored, and the same numbers as wider types hold them.

    `plain` computes the same as `small`: floats, or int8 where the operand is rounded as it runs.
    """

    kind: str
    users: tuple[Node, ...]
    small: Value
    plain: Value

    @property
    def has_blocks(self) -> bool:
        """Whether a row has several scales."""
        return self.small.quant is not None and bool(self.small.quant.block)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What is stored anew, and why the rest is not, counted by reason."""

    stored: tuple[Stored, ...]
    left: Counter[str] = field(default_factory=Counter)


def choose(graph: Graph, kind: str, block: int = 0) -> Choice:
    """Round the weights of every op that can have them so; the graph stays as it is.

    `block`: of int4, so many weights of a row share a scale where they are whole blocks.
    """
    found: list[Stored] = []
    left: Counter[str] = Counter()
    for value in [v for v in graph.values() if v.const is not None and v.dtype == FLOAT32]:
        users = value.users()
        if not any(node.op.name in CHANNELS and node.inputs[PLACE] is value for node in users):
            continue
        reason = _fault(value)
        if reason:
            left[reason] += 1
            continue
        found.append(_rounded(value, tuple(users), kind, block))
    return Choice(stored=tuple(found), left=left)


def _fault(value: Value) -> str:
    array = np.asarray(value.const)
    if value.known_type.size < LEAST_ELEMENTS:
        return f"have fewer than {LEAST_ELEMENTS} elements"
    if not np.all(np.abs(array) <= LARGEST_FLOAT16):
        return f"have numbers beyond {LARGEST_FLOAT16:.0f}"
    axes = set()
    for node, place in value.uses:
        row = ROWS.get(node.op.name)
        if row is None or node.op.name not in CHANNELS or place != PLACE:
            return "are read by other operators, too"
        if row.refused_by_xnnpack(node):
            return f"belong to a {node.op.name} that XNNPACK's delegate does not take"
        axes.add(CHANNELS[node.op.name])
    return "" if len(axes) == 1 else "are read along several dimensions"


def _rounded(value: Value, users: tuple[Node, ...], kind: str, block: int) -> Stored:
    array = np.asarray(value.const)
    if kind == "float16":
        half = array.astype(np.float16)
        return _stored("float16", value, users, half, half.astype(np.float32))
    four = kind == "int4" and all(_takes_int4(node) for node in users)
    kind = "int4" if four else "int8"
    if four and block and array.shape[1] % block == 0:
        scale = blocks.scales(array, block, LIMITS[kind])
        if scale is not None:
            return _in_blocks(value, users, scale, block)
    axis = CHANNELS[users[0].op.name]
    others = tuple(k for k in range(array.ndim) if k != axis)
    peaks = np.abs(array).max(others, keepdims=True).astype(np.float64)
    scale = (np.where(peaks > 0, peaks, 1.0) / LIMITS[kind]).astype(np.float32)
    numbers = np.clip(np.rint(array / scale), -LIMITS[kind], LIMITS[kind]).astype(np.int8)
    quant = Quant(scale=scale.reshape(-1), zero_point=np.zeros(scale.size, np.int64), axis=axis)
    if not four:
        plain = (numbers * scale).astype(np.float32)
        return _stored(kind, value, users, numbers, plain, quant)
    made = _stored(kind, value, users, numbers.astype(INT4), numbers, quant)
    made.plain.quant = quant
    return made


def _in_blocks(value: Value, users: tuple[Node, ...], scale: np.ndarray, block: int) -> Stored:
    array = np.asarray(value.const)
    each = blocks.wide(scale, block)
    numbers = np.clip(np.rint(array / each), -LIMITS["int4"], LIMITS["int4"]).astype(np.int8)
    quant = Quant(scale=scale, zero_point=np.zeros(1, np.int64), axis=0, block=block)
    return _stored("int4", value, users, numbers.astype(INT4), numbers * each, quant)


def _takes_int4(node: Node) -> bool:
    """VisitFullyConnectedNode: two numbers share a byte."""
    x, weights = node.operands()[:2]
    return bool(
        node.op.name == "FULLY_CONNECTED" and x.dtype == FLOAT32 and weights.shape[1] % 2 == 0
    )


def _stored(  # noqa: PLR0917 - what is stored, in order
    kind: str,
    value: Value,
    users: tuple[Node, ...],
    small: np.ndarray,
    plain: np.ndarray,
    quant: Quant | None = None,
) -> Stored:
    made = [Value(value.name, TensorType(dtype=a.dtype, shape=a.shape), a) for a in (small, plain)]
    made[0].quant = quant
    return Stored(kind=kind, users=users, small=made[0], plain=made[1])


def put_plain(choice: Choice) -> None:
    """Let the ops have the rounded numbers in types that need no unpacking."""
    for one in choice.stored:
        for node in one.users:
            edit.set_input(node, PLACE, one.plain)
            if one.kind == "int4":
                node.attrs["asymmetricQuantizeInputs"] = True
            if one.has_blocks:
                blocks.detach(node)


def spread(graph: Graph, choice: Choice) -> list[Spread]:
    """Let ops with 8-bit weights compute what blocks do; raises InvalidRequest where they would not fit."""
    found = [one for one in choice.stored if one.has_blocks]
    blocks.check_proof([one.small for one in found])
    return [blocks.spread(graph, node, one.small) for one in found for node in one.users]


def put_small(graph: Graph, choice: Choice) -> None:
    """Let the ops read the weights as they are stored."""
    first = graph.first
    for one in choice.stored:
        given = one.small
        if one.kind != "int4":
            label = one.users[0]
            kind = TensorType(dtype=FLOAT32, shape=one.small.known_type.shape)
            given = Value(graph.fresh(f"{one.small.name}/unpacked"), kind)
            op = Op(dialect="tflite", name="DEQUANTIZE")
            made = Node(op, [one.small], [given], {}, name=label.name, origins=label.origins)
            edit.insert(graph, made, first)
        for node in one.users:
            edit.set_input(node, PLACE, given)


TEXTS = {
    "blocks": "int4 with a scale for each block of a row, which XNNPACK's kernels read as it is, rounding what "
    "they multiply with to 8 bits, each row by its own range",
    "float16": "float16, which XNNPACK's kernels read as it is or unpack once, when the file is loaded",
    "int8": "int8 with a scale for each channel, which XNNPACK unpacks to floats once, when the file is "
    "loaded: the file shrinks, the memory of a run does not",
    "int4": "int4 with a scale for each channel, which XNNPACK's kernels read as it is, rounding what they "
    "multiply with to 8 bits, each row by its own range",
}


def remarks(choice: Choice) -> list[Remark]:
    """What is stored how, where it is unpacked, and what stays."""
    counts = Counter("blocks" if one.has_blocks else one.kind for one in choice.stored)
    found = [
        Remark(
            kind="done",
            step=STEP,
            text=f"weights of {n} tensors are {TEXTS[kind]}",
            numbers={"tensors": n},
        )
        for kind, n in counts.items()
    ]
    return found + [
        Remark(kind="missed", step=STEP, text=f"weights of {n} tensors stay float32: they {why}")
        for why, n in choice.left.items()
    ]
