"""Convolutions with few channels, several columns at once: the same numbers on all vector lanes.

A kernel computes a vector of output channels at a time; of a convolution with two of them, most
lanes idle. Where P neighbouring columns of the result are taken as channels, they don't:

    [N, H, W, C] ─ CONV_2D(w) ─ [N, H', W', C']
    [N, H, W, C] ─ CONV_2D(w shifted P times, P·stride) ─ [N, H', W'/P, P·C'] ─ RESHAPE ─

Where the input has few channels as well, its columns are taken as channels in the same way, so that
a window has fewer and longer runs.
"""

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from straightway.ir import Graph, Node, Op, TensorType, Value, edit
from straightway.remark import Remark

STEP = "domains.packing"

# Lanes of the f32 kernels: 8 with NEON, 16 with AVX and AVX-512, 32 with SME2 at its usual 512 bits
# (XNNPACK, src/configs/gemm-config.c, init_f32_gemm_config: 6x8, 5x16, 7x16).
LANES = (8, 16, 32)
# What a run of a window costs beside its elements, in elements: the rows' pointers, which XNNPACK
# keeps in memory for each row of the result (src/indirection.c).
RUN_COST = 4.0
# An element copied by RESHAPE, against an element of a window for all lanes.
COPY_COST = 1.5
LEAST_GAIN = 1.2
MOST_LOSS = 0.95
MOST_FILTERS = 256
MOST_CHANNELS = 256
# The file has to travel: a weight more must save some of so many multiplications.
MACS_A_WEIGHT = 2048
FREE_WEIGHTS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A convolution along its columns.

    `rows` is the height of its window, `results` how many places it is applied at; `paddings` are TFLite's that leave the rows as they are.
    """

    width: int
    out: int
    kernel: int
    stride: int
    before: int
    channels: int
    filters: int
    rows: int
    results: int
    paddings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The same over blocks: `columns` of the result and `block` of the input are channels.

    `kernel`, `stride` and `before` (padding) count blocks of the input.
    """

    columns: int
    block: int
    kernel: int
    stride: int
    before: int
    padding: str

    def cost(self, one: Columns, lanes: int) -> float:
        """What one column of the result costs, in elements of a window on all lanes."""
        vectors = math.ceil(self.columns * one.filters / lanes) * lanes
        run = self.block * one.channels + RUN_COST
        copied = one.filters if self.columns > 1 else 0
        copied += one.channels * one.stride if self.block > 1 else 0
        return one.rows * self.kernel * run * vectors / self.columns + COPY_COST * lanes * copied

    def weights(self, one: Columns) -> int:
        """How many weights it has."""
        taps = one.rows * self.kernel * self.block * one.channels
        return taps * self.columns * one.filters


def pack(graph: Graph) -> list[Remark]:
    """Rewrite the float CONV_2D ops of a written graph that run faster over blocks of columns."""
    remarks = []
    for node in list(graph.nodes):
        one = _columns(graph, node)
        best = choose(one) if one is not None else None
        if one is None or best is None:
            continue
        remarks.append(
            Remark(kind="done", step=STEP, text=_text(one, best), node=node.name, op="CONV_2D")
        )
        _rewrite(graph, node, one, best)
    return remarks


def _text(one: Columns, packing: Packing) -> str:
    wide = packing.columns * one.filters
    return (
        f"{one.filters} filters of {one.channels} channels use few lanes: {packing.columns} columns "
        f"of the result are computed as {wide} filters, from blocks of {packing.block} columns"
    )


def choose(one: Columns) -> Packing | None:
    """The packing that gains most on the mean of the widths of vectors, and loses by none of them."""
    plain = Packing(
        columns=1, block=1, kernel=one.kernel, stride=one.stride, before=one.before, padding=""
    )
    costs = [plain.cost(one, lanes) for lanes in LANES]
    present = plain.weights(one)
    affordable = present + max(present * one.results / MACS_A_WEIGHT, FREE_WEIGHTS)
    best, most = None, LEAST_GAIN
    for packing in candidates(one):
        gains = [cost / packing.cost(one, k) for cost, k in zip(costs, LANES, strict=True)]
        gain = statistics.geometric_mean(gains)
        if gain > most and min(gains) >= MOST_LOSS and packing.weights(one) <= affordable:
            best, most = packing, gain
    return best


def candidates(one: Columns) -> Iterator[Packing]:
    """All packings that one of TFLite's two paddings expresses."""
    for columns in _divisors(one.out, max(1, MOST_FILTERS // one.filters)):
        step = columns * one.stride
        for block in _divisors(math.gcd(step, one.width), max(1, MOST_CHANNELS // one.channels)):
            if columns == block == 1:
                continue
            for padding in one.paddings:
                yield from _padded(one, columns, block, padding)


def _divisors(number: int, most: int) -> Iterator[int]:
    return (k for k in range(1, min(number, most) + 1) if number % k == 0)


def _padded(one: Columns, columns: int, block: int, padding: str) -> Iterator[Packing]:
    """The shortest window over blocks that this padding puts in the right place."""
    stride = columns * one.stride // block
    reach = one.kernel + (columns - 1) * one.stride
    least = -(-one.before // block)
    after = (reach - one.before - 1) // block
    width, out = one.width // block, one.out // columns
    for before in range(least, least + 2):
        for kernel in range(before + after + 1, before + after + 3):
            if (out, before) == _window(width, kernel, stride, padding):
                yield Packing(
                    columns=columns,
                    block=block,
                    kernel=kernel,
                    stride=stride,
                    before=before,
                    padding=padding,
                )
                return


def _window(width: int, kernel: int, stride: int, padding: str) -> tuple[int, int]:
    """Windows and padding before them, as kernels/padding.h has it (ComputePaddingWithOffset)."""
    if padding == "VALID":
        return (width - kernel) // stride + 1, 0
    out = -(-width // stride)
    return out, max((out - 1) * stride + kernel - width, 0) // 2


def _columns(graph: Graph, node: Node) -> Columns | None:
    """A float convolution of known sizes with weights that are known and not dilated, or None."""
    if node.op.name != "CONV_2D" or node.attrs["dilationWFactor"] != 1:
        return None
    x, w, bias = node.inputs[:3]
    if x is None or w is None or bias is None or w.const is None or bias.const is None:
        return None
    open_sizes = any(
        -1 in graph.signatures[v][1][1:] for v in (x, node.output) if v in graph.signatures
    )
    if w.dtype != np.float32 or w.shape[3] != x.shape[3] or open_sizes:
        return None
    padding, stride = node.attrs["padding"], node.attrs["strideW"]
    out, before = _window(x.shape[2], w.shape[2], stride, padding)
    free = w.shape[1] == 1 and node.attrs["strideH"] == 1
    return Columns(
        width=x.shape[2],
        out=out,
        kernel=w.shape[2],
        stride=stride,
        before=before,
        channels=w.shape[3],
        filters=w.shape[0],
        rows=w.shape[1],
        results=math.prod(node.output.shape[:3]),
        paddings=("VALID", "SAME") if free else (padding,),
    )


def packed_weights(weights: np.ndarray, one: Columns, packing: Packing) -> np.ndarray:
    """The filters [O, rows, kernel, C] over blocks: [P·O, rows, blocks, block·C]."""
    filters, rows, kernel, channels = weights.shape
    length = packing.kernel * packing.block
    made = np.zeros((packing.columns, filters, rows, length, channels), weights.dtype)
    first = packing.before * packing.block - one.before
    for column in range(packing.columns):
        start = first + column * one.stride
        made[column, :, :, start : start + kernel] = weights
    return made.reshape(packing.columns * filters, rows, packing.kernel, packing.block * channels)


def _rewrite(graph: Graph, node: Node, one: Columns, packing: Packing) -> None:
    """Change the op and its constants; RESHAPEs, which move nothing, lead to it and from it."""
    x, w, bias = node.operands()
    if w.const is None or bias.const is None:
        raise ValueError(f"{node} has no constant weights")
    filters = edit.constant(graph, packed_weights(w.const, one, packing), w.name)
    biases = edit.constant(graph, np.tile(bias.const, packing.columns), bias.name)
    if packing.block > 1:
        made = _packed(graph, x, packing.block)
        edit.insert(graph, _reshape(graph, node, x, made), node)
        x = made
    for index, value in enumerate((x, filters, biases)):
        edit.set_input(node, index, value)
    node.attrs |= {"padding": packing.padding, "strideW": packing.stride}
    if packing.columns > 1:
        result = node.output
        node.outputs = [_packed(graph, result, packing.columns)]
        node.output.producer = node
        edit.insert(graph, _reshape(graph, node, node.output, result), node.next)


def _packed(graph: Graph, value: Value, columns: int) -> Value:
    """A tensor like `value` with so many columns as channels."""

    def sizes(shape: tuple[int, ...]) -> tuple[int, ...]:
        batch, height, width, channels = shape
        return batch, height, width // columns, channels * columns

    kind = TensorType(dtype=value.dtype, shape=sizes(value.shape))
    made = Value(graph.fresh(f"{value.name}/packed"), kind)
    if value in graph.signatures:
        shown, signature = graph.signatures[value]
        graph.signatures[made] = sizes(shown), sizes(signature)
    return made


def _reshape(graph: Graph, node: Node, x: Value, result: Value) -> Node:
    _, signature = graph.signatures.get(result, ((), result.shape))
    sizes = np.array(signature, np.int32)
    return Node(
        Op(dialect="tflite", name="RESHAPE"),
        [x, edit.constant(graph, sizes, "shape")],
        [result],
        {"newShape": sizes},
        name=node.name,
        origins=node.origins,
    )
