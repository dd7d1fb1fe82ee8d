"""Sizes that depend on the sizes of the inputs: found from samples, written as ops.

A size known at three sample points is explained by one open dimension of an input, `m·s + c`, or by
the product of two, `m·s·t`. Two points determine the explanation, the third must agree with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit, tensor_type

Sample = tuple[int, ...]
POINTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """One stored dimension of a graph input that stays open: its sizes at the samples."""

    value: Value
    dim: int
    sizes: Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """factor · (product of the open dimensions) + offset, divided by `divisor` without a rest."""

    opens: tuple[Open, ...] = ()
    factor: int = 1
    divisor: int = 1
    offset: int = 0

    def at(self, sizes: Mapping[Open, int]) -> int:
        """The size for given sizes of the open dimensions."""
        product = self.factor
        for one in self.opens:
            product *= sizes[one]
        return product // self.divisor + self.offset


def explain(sample: Sample, opens: Sequence[Open]) -> Size | None:
    """Find what a size depends on; None where nothing simple explains it."""
    if len(set(sample)) == 1:
        return Size(factor=0, offset=sample[0])
    for one in opens:
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
    return None


def _line(sample: Sample, one: Open) -> Size | None:
    first, second, third = one.sizes
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
    """Writes sizes as int32 ops at the beginning of a graph; each is written once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.first = graph.first
        self.shapes: dict[Value, Value] = {}
        self.made: dict[Size, Value] = {}

    def vector(self, sizes: Sequence[Size]) -> Value:
        """All sizes, one after the other."""
        parts = [self.size(size) for size in sizes]
        if len(parts) == 1:
            return parts[0]
        return self.op("CONCATENATION", parts, (len(parts),), {"axis": 0})

    def size(self, size: Size) -> Value:
        """One size, a vector of one element."""
        if not size.opens:
            return self.const(size.offset)
        if size not in self.made:
            result = self.open(size.opens[0])
            for one in size.opens[1:]:
                result = self.op("MUL", [result, self.open(one)], (1,), {})
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
        return self.op(
            "SLICE", [self.shapes[one.value], self.const(one.dim), self.const(1)], (1,), {}
        )

    def const(self, number: int) -> Value:
        """A vector of one element."""
        return edit.constant(self.graph, np.array([number], np.int32), "size")

    def op(
        self, name: str, operands: Sequence[Value], shape: tuple[int, ...], attrs: dict[str, object]
    ) -> Value:
        """Append one op before everything else."""
        result = Value(self.graph.fresh("size"), tensor_type(np.int32, shape))
        node = Node(Op(dialect="tflite", name=name), operands, [result], attrs, name="sizes")
        edit.insert(self.graph, node, self.first)
        return result
