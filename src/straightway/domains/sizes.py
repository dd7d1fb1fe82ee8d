"""Sizes that depend on the sizes of the inputs: found from samples, written as ops.

A size known at three sample points is explained by one open dimension of a tensor, `m·s + c`, by
the product of two, `m·s·t`, or by their sum, `s + t + c`. Two points determine the explanation, the
third must agree with it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from straightway.errors import NotYet
from straightway.ir import Graph, Node, Op, Value, edit, tensor_type

Sample = tuple[int, ...]
POINTS = 3
LARGEST = 2**31 - 1
MASKS = ("beginMask", "endMask", "ellipsisMask", "newAxisMask", "shrinkAxisMask")


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """One stored dimension of a tensor that stays open: its sizes at the samples."""

    value: Value
    dim: int
    sizes: Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """factor · (product, or sum, of the open dimensions) / divisor + offset, without a rest."""

    opens: tuple[Open, ...] = ()
    adds: bool = False
    factor: int = 1
    divisor: int = 1
    offset: int = 0

    def at(self, sizes: Mapping[Open, int]) -> int:
        """The size for given sizes of the open dimensions."""
        found = [sizes[one] for one in self.opens]
        joined = sum(found) if self.adds else math.prod(found)
        return self.factor * joined // self.divisor + self.offset


def explain(sample: Sample, opens: Sequence[Open], others: Iterable[Open] = ()) -> Size | None:
    """Find what a size depends on; None where nothing simple explains it.

    `others` explain it alone, if they do, and better than a function of `opens` where they are equal.
    """
    if len(set(sample)) == 1:
        return Size(factor=0, offset=sample[0])
    for one in (*opens, *others):
        if one.sizes == sample:
            return Size(opens=(one,))
    for one in (*opens, *others):
        found = _line(sample, one)
        if found is not None:
            return found
    for pair in combinations(opens, 2):
        ratios = {
            Fraction(s, a * b) for s, a, b in zip(sample, *(o.sizes for o in pair), strict=True)
        }
        if len(ratios) == 1:
            (ratio,) = ratios
            return Size(opens=pair, factor=ratio.numerator, divisor=ratio.denominator)
    for pair in combinations(opens, 2):
        offsets = {s - a - b for s, a, b in zip(sample, *(o.sizes for o in pair), strict=True)}
        if len(offsets) == 1:
            return Size(opens=pair, adds=True, offset=offsets.pop())
    return None


def are_independent(samples: Sequence[Sample]) -> bool:
    """Whether none of these sizes, each of one open dimension, is explained by the others."""
    value = Value("size", None)
    opens = [Open(value=value, dim=dim, sizes=sizes) for dim, sizes in enumerate(samples)]
    return all(explain(one.sizes, [o for o in opens if o is not one]) is None for one in opens)


def _line(sample: Sample, one: Open) -> Size | None:
    first, second, third = one.sizes
    offsets = {size - open_ for size, open_ in zip(sample, one.sizes, strict=True)}
    if len(offsets) == 1:  # no third point needs to tell it from what bends: strides make two alike
        return Size(opens=(one,), offset=offsets.pop())
    if first == second:
        return None
    slope = Fraction(sample[1] - sample[0], second - first)
    offset = sample[0] - slope * first
    if slope * third + offset != sample[2] or offset.denominator != 1 or slope <= 0:
        return None
    return Size(
        opens=(one,),
        factor=slope.numerator,
        divisor=slope.denominator,
        offset=int(offset),
    )


class Writer:
    """Writes sizes as int32 ops before `place`; each is written once.

    Of ops, as far as that goes, that LiteRT computes when it plans the memory, so that what they shape
    stays a tensor of known size (SetTensorToPersistentRo: kernels/shape.cc, strided_slice.cc,
    concatenation.cc, mul.cc). SLICE, ADD and DIV are none of those.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.place = graph.first
        self.shapes: dict[Value, Value] = {}
        self.sizes: dict[Open, Value] = {}
        self.made: dict[Size, Value] = {}

    def vector(self, sizes: Sequence[Size]) -> Value:
        """All sizes, one after the other."""
        parts = [self.size(size) for size in sizes]
        if len(parts) == 1:
            return parts[0]
        return self.op("CONCATENATION", parts, (len(parts),), {"axis": 0})

    def like(self, sizes: Value, array: np.ndarray) -> Value:
        """A vector of sizes in the type and shape of a constant."""
        if array.dtype != np.int32:
            sizes = self.op("CAST", [sizes], sizes.shape, {}, array.dtype)
        if array.ndim != 1:
            shape = np.array(array.shape, np.int32)
            operands = [sizes, edit.constant(self.graph, shape, "shape")]
            sizes = self.op("RESHAPE", operands, array.shape, {"newShape": shape}, array.dtype)
        return sizes

    def range(self, start: int, limit: Size, step: int, shape: tuple[int, ...]) -> Value:
        """Whole numbers from a start to a limit, in a shape with one −1."""
        ends = [self.const(start), self.size(limit), self.const(step)]
        scalars = [self.like(end, np.zeros((), np.int32)) for end in ends]
        made = self.op("RANGE", scalars, (1,), {})
        target = np.array(shape, np.int32)
        operands = [made, edit.constant(self.graph, target, "shape")]
        return self.op("RESHAPE", operands, tuple(map(abs, shape)), {"newShape": target})

    def size(self, size: Size) -> Value:
        """One size, a vector of one element."""
        if not size.opens:
            return self.const(size.offset)
        if size not in self.made:
            result = self.open(size.opens[0])
            for one in size.opens[1:]:
                name = "ADD" if size.adds else "MUL"
                result = self.op(name, [result, self.open(one)], (1,), {})
            for name, number, neutral in (
                ("MUL", size.factor, 1),
                ("DIV", size.divisor, 1),
                ("ADD", size.offset, 0),
            ):
                if number != neutral:
                    result = self.op(name, [result, self.const(number)], (1,), {})
            self.made[size] = result
        return self.made[size]

    def open(self, one: Open) -> Value:
        """The run-time size of an open dimension."""
        if one.value not in self.shapes:
            rank = (one.value.rank,)
            self.shapes[one.value] = self.op("SHAPE", [one.value], rank, {"outType": "INT32"})
        if one not in self.sizes:
            places = [self.const(one.dim), self.const(one.dim + 1), self.const(1)]
            self.sizes[one] = self.op(
                "STRIDED_SLICE", [self.shapes[one.value], *places], (1,), dict.fromkeys(MASKS, 0)
            )
        return self.sizes[one]

    def const(self, number: int) -> Value:
        """A vector of one element; raises NotYet beyond int32, in which shapes are computed."""
        if not -LARGEST - 1 <= number <= LARGEST:
            raise NotYet(f"a number that follows from open sizes is beyond int32: {number}")
        return edit.constant(self.graph, np.array([number], np.int32), "size")

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        shape: tuple[int, ...],
        attrs: dict[str, object],
        dtype: np.typing.DTypeLike = np.int32,
    ) -> Value:
        """Write one op."""
        result = Value(self.graph.fresh("size"), tensor_type(dtype, shape))
        origins = self.place.origins if self.place is not None else frozenset()
        node = Node(
            Op(dialect="tflite", name=name),
            operands,
            [result],
            attrs,
            name="sizes",
            origins=origins,
        )
        edit.insert(self.graph, node, self.place)
        return result
