"""How much work an op is, from its shapes: multiplications and bytes moved, so that rates follow."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from straightway.trace.schema import Op, Tensor
from straightway.trace.taxonomy import family

_BITS = {
    "bool": 8,
    "int2": 2,
    "int4": 4,
    "uint4": 4,
    "int8": 8,
    "uint8": 8,
    "float8": 8,
    "int16": 16,
    "uint16": 16,
    "float16": 16,
    "bfloat16": 16,
    "int32": 32,
    "uint32": 32,
    "float32": 32,
    "int64": 64,
    "uint64": 64,
    "float64": 64,
    "complex64": 64,
    "complex128": 128,
}


_INT8 = frozenset({"int2", "int4", "uint4", "int8", "uint8"})


def elements(tensor: Tensor) -> int | None:
    """How many numbers it holds; None if a dimension is unknown."""
    return None if any(size < 0 for size in tensor.shape) else math.prod(tensor.shape)


def size_bytes(tensor: Tensor) -> int | None:
    """Its size in memory; None if its shape or type is unknown."""
    count, bits = elements(tensor), _BITS.get(tensor.dtype)
    return None if count is None or bits is None else (count * bits + 7) // 8


def moved_bytes(op: Op) -> int | None:
    """Bytes read and written once each, weights included; None if a shape or type is unknown.

    A lower bound: caches may be missed more than once. Ops that only rename move nothing.
    """
    known = family(op.kind)
    traffic = known.traffic if known else "all"
    if traffic == "none":
        return 0
    # A slice or gather reads no more of its data than it writes; x · x reads x once.
    read = [
        one for place, one in enumerate(op.inputs) if one not in op.inputs[:place] or not one.name
    ]
    tensors = (*op.outputs, *(op.outputs if traffic == "written" else read))
    sizes = [size_bytes(tensor) for tensor in tensors]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def macs(op: Op) -> int | None:
    """Multiply-accumulates of a convolution or matrix product; 0 for all others.

    None where the shapes do not tell.
    """
    rule = _MACS.get(op.kind)
    if rule is None:
        return 0
    try:
        return rule(op)
    except (IndexError, ZeroDivisionError):
        return None


def arithmetic(op: Op) -> str:
    """The number type in which an op multiplies: int8 where its weights are integers of 8 bits or less.

    Also where operand and result are float32: XNNPACK then quantizes each row of the operand
    (the kernels named qd8-f32-qc8w and qc4w). Weights of float16 become float32 before.
    """
    weights = op.inputs[1].dtype if len(op.inputs) > 1 else ""
    if macs(op) and weights in _INT8:
        return "int8"
    return op.outputs[0].dtype if op.outputs else ""


def _product(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first * second


def _per_output(weights: slice) -> Callable[[Op], int | None]:
    """One multiplication for each output element and each element of the weights' slice."""
    return lambda op: _product(
        elements(op.outputs[0]), elements(Tensor(shape=op.inputs[1].shape[weights]))
    )


def _depthwise(op: Op) -> int | None:
    """TFLite's depthwise weights are 1, height, width, channels."""
    return _product(elements(op.outputs[0]), math.prod(op.inputs[1].shape[1:3]))


def _transposed_tflite(op: Op) -> int | None:
    """Inputs are output shape, weights O, height, width, I, and data: each datum meets O·h·w."""
    return _product(elements(op.inputs[2]), math.prod(op.inputs[1].shape[:3]))


def _transposed_onnx(op: Op) -> int | None:
    """Weights are I, O / groups, spatial: each datum meets all but the first."""
    return _product(elements(op.inputs[0]), math.prod(op.inputs[1].shape[1:]))


def _matmul(op: Op) -> int | None:
    """The inner length is what of the first operand's matrix is not a row of the output.

    That holds for either order of either operand, and where the second one's shape is not told.
    """
    first = op.inputs[0].shape
    if 1 in (len(one.shape) for one in op.inputs[:2]):
        return _product(elements(op.outputs[0]), elements(Tensor(shape=first[-1:])))
    matrix = elements(Tensor(shape=first[-2:]))
    inner = None if matrix is None else matrix // op.outputs[0].shape[-2]
    return _product(elements(op.outputs[0]), inner)


def _gemm(op: Op) -> int | None:
    first, rows = elements(op.inputs[0]), op.outputs[0].shape[-2]
    return None if first is None else _product(elements(op.outputs[0]), first // rows)


def _recurrent(last: int) -> Callable[[Op], int | None]:
    """Every weight matrix, up to input `last`, meets every step of every sequence once."""

    def count(op: Op) -> int | None:
        weights = [elements(one) for one in op.inputs[1 : last + 1] if len(one.shape) > 1]
        known = [size for size in weights if size is not None]
        steps = elements(Tensor(shape=op.inputs[0].shape[:2]))
        return _product(steps, sum(known)) if len(known) == len(weights) else None

    return count


_MACS: Mapping[str, Callable[[Op], int | None]] = {
    "CONV_2D": _per_output(slice(1, None)),
    "DEPTHWISE_CONV_2D": _depthwise,
    "TRANSPOSE_CONV": _transposed_tflite,
    "CONV_3D": _per_output(slice(None, -1)),
    "FULLY_CONNECTED": _per_output(slice(-1, None)),
    "BATCH_MATMUL": _matmul,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _recurrent(16),  # 16 is the projection; states follow
    "UNIDIRECTIONAL_SEQUENCE_RNN": _recurrent(2),
    "Conv": _per_output(slice(1, None)),
    "FusedConv": _per_output(slice(1, None)),
    "ConvInteger": _per_output(slice(1, None)),
    "ConvTranspose": _transposed_onnx,
    "MatMul": _matmul,
    "FusedMatMul": _matmul,
    "MatMulInteger": _matmul,
    "MatMulIntegerToFloat": _matmul,
    "DynamicQuantizeMatMul": _matmul,
    "Gemm": _gemm,
    "FusedGemm": _gemm,
    "LSTM": _recurrent(2),
    "GRU": _recurrent(2),
    "RNN": _recurrent(2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """What the machine can do at most, single-threaded, and how that was measured.

    `gmacs` maps a number type to 10⁹ multiply-accumulates a second; `bandwidths` lists (bytes that
    one operator moves, 10⁹ bytes a second), ascending: the more is moved, the farther the cache.
    """

    gmacs: Mapping[str, float]
    bandwidths: tuple[tuple[int, float], ...]
    method: str

    def bandwidth_gbs(self, moved: int) -> float:
        """10⁹ bytes a second for an operator that moves so many bytes, between two measured sizes.

        In between, size and rate are taken as logarithms; outside, the nearest measured one holds.
        """
        sizes, rates = zip(*self.bandwidths, strict=True)
        found = np.interp(math.log(max(1, moved)), np.log(sizes), np.log(rates))
        return math.exp(float(found))

    def limit_ns(self, work_macs: int, work_bytes: int, dtype: str) -> float:
        """The least time that work can take: compute or memory, whichever is slower."""
        rate = self.gmacs.get(dtype)
        compute_ns = work_macs / rate if rate else 0.0
        return max(compute_ns, work_bytes / self.bandwidth_gbs(work_bytes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast an op ran, and which share of the roofline it reached (0 to 1, or a little more).

    `limit_gbs` is the bandwidth that it was compared with.
    """

    gmacs: float
    gbs: float
    limit_gbs: float
    roofline: float
    bound: str


def rate(op: Op, duration_ns: float, peak: Peak) -> Rate | None:
    """Compare an op's time with the least that the machine allows; None if its work is unknown."""
    work_macs, work_bytes = macs(op), moved_bytes(op)
    if work_macs is None or work_bytes is None or duration_ns <= 0:
        return None
    limit_ns = peak.limit_ns(work_macs, work_bytes, arithmetic(op))
    limit_gbs = peak.bandwidth_gbs(work_bytes)
    memory_ns = work_bytes / limit_gbs
    return Rate(
        gmacs=work_macs / duration_ns,
        gbs=work_bytes / duration_ns,
        limit_gbs=limit_gbs,
        roofline=limit_ns / duration_ns,
        bound="compute" if limit_ns > memory_ns else "memory",
    )
