"""Reductions, softmax and the like, running sums."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from typing import Any

import numpy as np

from straightway.errors import NotYet
from straightway.ir import TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.choice import by_axis, chosen
from straightway.lower.declare import Case, Need, case, lower, need, run
from straightway.lower.integers import (
    INT32,
    INT64,
    UINT64,
    is_integer,
    magnitude,
    quotient,
    to_int64,
    unsigned_quotient,
    widened,
)

Axes = tuple[int, ...]
WHOLE = run(np.arange(24).reshape(2, 3, 4) - 11, np.int64)
LONGS = run(np.arange(24).reshape(2, 3, 4) - 2**40, np.int64)
BYTES = run(np.arange(24).reshape(2, 3, 4) * 7 - 90, np.int8)
TRUTH = run([[True, False, True], [False, False, False]], bool)
HUGE = run(np.array([[3, 2**63, 5], [0, 2**64 - 1, 2**63 + 9]], np.uint64), np.uint64)
COUNTS = run([[3, 4, 0], [2**20, 2**24 - 1, 7], [1, 1, 0], [2**29, 5, 9]], np.int64)
POSITIVE = run(np.linspace(0.5, 7, 24).reshape(2, 3, 4))
LARGEST = float(np.finfo(np.float32).max)


# the least whole numbers whose natural logarithm is 1, 2, 3 …: up to 43, all that int64 holds
POWERS_OF_E = tuple(math.ceil(Decimal(k).exp()) for k in range(1, 44))


def ints(*numbers: int) -> np.ndarray:
    """Make a constant operand of a sample."""
    return np.array(numbers, np.int64)


class Reducer:
    """Reduces along fixed axes, `r("SUM", x)`; along none, it leaves the elements alone."""

    def __init__(self, g: Builder, axes: Axes, kind: np.dtype, *, keep_dims: bool) -> None:
        self.g = g
        self.axes = axes
        self.kind = kind
        self.keep_dims = keep_dims

    def __call__(self, name: str, x: Value, *, keep_dims: bool | None = None) -> Value:
        """Emit one reduction."""
        if not self.axes:
            return x
        keep = self.keep_dims if keep_dims is None else keep_dims
        return self.g.emit(name, [x], {"axes": self.axes, "keep_dims": keep})

    def total(self, x: Value) -> Value:
        """The sum of magnitudes."""
        return self("SUM", x if self.kind.kind == "u" else magnitude(self.g, x))

    def mean(self, x: Value) -> Value:
        """Whole numbers: the sum divided towards zero; no sum of int32 overflows int64."""
        if not is_integer(x):
            return self("MEAN", x)
        g, count = self.g, math.prod(x.shape[axis] for axis in self.axes)
        wide = INT64 if self.kind.itemsize >= INT32.itemsize else INT32
        total = self("SUM", g.cast(x, wide))
        divide = unsigned_quotient if self.kind == UINT64 else quotient
        return g.cast(divide(g, total, g.const(count, wide)), x.dtype)

    def whole_norm(self, x: Value) -> Value:
        """The root of the sum of squares, cut to a whole number: the estimate by floats is made exact.

        Two steps of Newton's method from float32's root leave an error of 1 at most.
        """
        g = self.g
        long = g.cast(x, INT64)
        wide = self("SUM", g.MUL(long, long))
        root = g.cast(g.SQRT(g.cast(wide, np.float32)), INT64)
        two = g.const(2, INT64)
        for _ in range(2):
            root = g.MAXIMUM(root, 1)
            root = quotient(g, g.ADD(root, quotient(g, wide, root)), two)
        high = g.GREATER(g.MUL(root, root), wide)
        root = g.SUB(root, g.cast(high, INT64))
        more = g.ADD(root, 1)
        fits = g.LESS_EQUAL(g.MUL(more, more), wide)
        return g.cast(g.ADD(root, g.cast(fits, INT64)), x.dtype)

    def whole_log(self, x: Value) -> Value:
        """The logarithm of the sum, cut to a whole number: how many powers of e it reaches."""
        g = self.g
        total = self("SUM", g.cast(x, INT64))
        wide = g.reshape(total, (*total.shape, 1))
        reached = g.cast(g.GREATER_EQUAL(wide, g.const(POWERS_OF_E, INT64)), INT64)
        return g.cast(g.SUM(reached, axes=(total.rank,), keep_dims=False), x.dtype)

    def log_sum_exp(self, x: Value) -> Value:
        """Less the largest element, so that nothing overflows; infinities are kept off the difference."""
        g = self.g
        most = g.MAXIMUM(g.MINIMUM(self("REDUCE_MAX", x, keep_dims=True), LARGEST), -LARGEST)
        total = g.LOG(self("SUM", g.EXP(g.SUB(x, most))))
        return g.ADD(total, g.reshape(most, total.shape))


SAMPLES = [
    case(data=POSITIVE),
    case(data=POSITIVE, keepdims=0),
    case(data=POSITIVE, noop_with_empty_axes=1),
    case(data=POSITIVE, axes=(1,), opset=11),
    case(data=POSITIVE, axes=(0, -1), keepdims=0, opset=11),
    case(data=POSITIVE, axes=ints(-2)),
    case(data=POSITIVE, axes=run([-2], np.int64)),
    case(data=run(np.linspace(0.5, 7, 18).reshape(2, 3, 3)), axes=run([2], np.int64), keepdims=0),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """How a reduction goes, what the reduction of nothing is, and whether whole numbers have one."""

    function: Callable[[Reducer, Value], Value]
    of_nothing: float = math.nan
    of_integers: bool = True
    of_uint64: bool = True
    of_truth: str = ""

    def identity(self, dtype: np.dtype) -> np.generic:
        """The reduction of nothing; for infinities, other types have their least and greatest."""
        if dtype == np.bool_:
            return np.bool_(self.of_nothing > 0)
        if np.isfinite(self.of_nothing) or not np.issubdtype(dtype, np.integer):
            return dtype.type(self.of_nothing)
        limits = np.iinfo(dtype)
        return dtype.type(limits.max if self.of_nothing > 0 else limits.min)

    def needs(self) -> list[Need]:
        """What the reduction asks of its operand."""
        found = []
        if not self.of_integers:
            text = "the tensor must be of floats; got {data.type}"
            found.append(need(lambda data: not is_integer(data), text, possible=True))
        if self.of_integers and not self.of_uint64:
            text = "the tensor must not be of uint64; got {data.type}"
            found.append(need(lambda data: data.dtype != UINT64, text, possible=True))
        if math.isnan(self.of_nothing):
            kernel = "onnx/docs/Operators.md"
            text = "the tensor must not be empty; got {data.type}"
            found.append(need(lambda data: 0 not in data.shape, text, kernel=kernel))
        return found

    def samples(self) -> list[Case]:
        """Cases that hold for all reductions, and those of whole numbers and of truth values."""
        found = [*SAMPLES]
        if self.of_integers:
            found.append(case(data=WHOLE if self.of_uint64 else COUNTS, axes=ints(1)))
            if self.of_uint64 and not math.isnan(self.of_nothing):
                found.append(case(data=HUGE, axes=ints(1)))
        if self.of_truth:
            found.append(case(data=TRUTH, axes=ints(1), keepdims=0))
            found.append(case(data=BYTES, axes=ints(1, 2)))
            found.append(case(data=run(np.zeros((2, 0)), bool), axes=ints(1)))
            found.append(case(data=run(np.zeros((2, 0)), np.int64), axes=ints(1)))
        if not math.isnan(self.of_nothing):
            found.append(case(data=(2, 0, 4), axes=ints(1)))
        return found

    def refuses(self) -> list[Case]:
        """What the needs refuse."""
        found = [] if self.of_integers else [case(data=WHOLE)]
        found += [] if self.of_uint64 else [case(data=HUGE)]
        return found + ([case(data=(2, 0, 4), axes=ints(1))] if math.isnan(self.of_nothing) else [])


# What the reduction of nothing is: onnx/docs/Operators.md.
REDUCTIONS = {
    "ReduceMean": Reduction(function=Reducer.mean),
    "ReduceSum": Reduction(function=lambda r, x: r("SUM", x), of_nothing=0),
    "ReduceMax": Reduction(
        function=lambda r, x: r("REDUCE_MAX", x), of_nothing=-math.inf, of_truth="REDUCE_ANY"
    ),
    "ReduceMin": Reduction(
        function=lambda r, x: r("REDUCE_MIN", x), of_nothing=math.inf, of_truth="REDUCE_ALL"
    ),
    "ReduceProd": Reduction(function=lambda r, x: r("REDUCE_PROD", x), of_nothing=1),
    "ReduceL1": Reduction(function=Reducer.total, of_nothing=0),
    "ReduceL2": Reduction(
        function=lambda r, x: (
            r.whole_norm(x) if is_integer(x) else r.g.SQRT(r("SUM", r.g.SQUARE(x)))
        ),
        of_nothing=0,
        of_uint64=False,
    ),
    "ReduceSumSquare": Reduction(function=lambda r, x: r("SUM", r.g.MUL(x, x)), of_nothing=0),
    "ReduceLogSum": Reduction(
        function=lambda r, x: r.whole_log(x) if is_integer(x) else r.g.LOG(r("SUM", x)),
        of_nothing=-math.inf,
        of_uint64=False,
    ),
    "ReduceLogSumExp": Reduction(
        function=Reducer.log_sum_exp, of_nothing=-math.inf, of_integers=False
    ),
}

MOST_CHOICES = 8


def known_axes(axes: Value | Axes | None, rank: int) -> Axes | None:
    """Axes as they stand in the model, none where none are named; None where they come at run time."""
    given: Any = axes
    if isinstance(axes, Value):
        given = () if axes.shape == (0,) else axes.const
        if given is None:
            return None
    return tuple(
        sorted({counted(int(axis), rank) for axis in np.ravel(() if given is None else given)})
    )


def possible_axes(shape: Axes, result: Axes, keep_dims: int) -> list[Axes]:
    """Which axes may have been reduced, by the result's shape; a dimension of size 1 may, or may not."""
    if keep_dims:
        return [tuple(k for k, size in enumerate(result) if size == 1)]
    return [
        axes
        for axes in combinations(range(len(shape)), len(shape) - len(result))
        if tuple(d for k, d in enumerate(shape) if k not in axes) == result
    ]


def at_run_time(
    g: Builder, axes: Value, rank: int, possible: list[Axes], result: Callable[[Axes], Value]
) -> Value:
    """Reduce along axes that come at run time: along all that fit the result's shape, then choose."""
    if not 0 < len(possible) <= MOST_CHOICES:
        raise NotYet(
            f"axes at run time are lowered where at most {MOST_CHOICES} fit the result's shape; "
            f"{len(possible)} do",
            remedy="export with constant axes, or with keepdims",
        )
    results = [result(found) for found in possible]
    if len(results) == 1:
        return results[0]
    places = g.reshape(g.FLOOR_MOD(g.cast(axes, INT32), rank), (axes.shape[0], 1))
    named = g.cast(g.EQUAL(places, g.const(np.arange(rank), INT32)), INT32)
    bits = g.MUL(named, g.const(1 << np.arange(rank), INT32))
    code = g.SUM(bits, axes=(0, 1), keep_dims=False)
    return chosen(g, code, [sum(1 << k for k in found) for found in possible], results)


for onnx_name, reduction in REDUCTIONS.items():

    @lower(
        onnx_name,
        needs=reduction.needs(),
        samples=reduction.samples(),
        refuses=reduction.refuses(),
    )
    def reduce(
        g: Builder,
        data: Value,
        /,
        axes: Value | Axes | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
        *,
        op: str,
        out: list[TensorType],
    ) -> Value:
        """One reduction of TFLite, or a few ops around one."""
        chosen = REDUCTIONS[op]
        (kind,) = out
        if 0 in data.shape:
            return g.const(np.full(kind.dims, chosen.identity(kind.dtype)))
        every = () if noop_with_empty_axes else tuple(range(data.rank))

        def along(found: Axes) -> Value:
            reducer = Reducer(g, found, data.dtype, keep_dims=bool(keepdims))
            if chosen.of_truth and data.dtype == np.bool_:
                return reducer(chosen.of_truth, data)
            ordered = bool(chosen.of_truth)
            return widened(g, lambda x: chosen.function(reducer, x), data, ordered=ordered)

        known = known_axes(axes, data.rank)
        if known is None and isinstance(axes, Value):
            possible = possible_axes(data.shape, kind.dims, keepdims)
            return at_run_time(g, axes, data.rank, possible, along)
        return along(known or every)


@lower(
    "CumSum",
    samples=[
        case(x=(2, 3, 4), axis=np.array(-2, np.int32)),
        case(x=(2, 3, 4), axis=ints(1), exclusive=1, reverse=1),
        case(x=LONGS, axis=np.array(2, np.int64)),
        case(x=(2, 3, 4), axis=run(-1, np.int32), reverse=1),
    ],
)
def cumulative_sum(g: Builder, x: Value, /, axis: Value, exclusive: int, reverse: int) -> Value:
    """One op; one for each axis, where that comes at run time."""
    flags = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
    return by_axis(g, axis, x.rank, lambda k: widened(g, lambda a: g.CUMSUM(a, axis=k, **flags), x))


@lower(
    "ArgMax",
    "ArgMin",
    samples=[
        case(data=(2, 5, 3), axis=1),
        case(data=(2, 5, 3), axis=-1, keepdims=0),
        case(data=run([[2.0, 7.0, 7.0, 2.0]]), axis=1),
        case(data=run([[2.0, 7.0, 7.0, 2.0]]), axis=1, select_last_index=1),
        case(data=LONGS, axis=1),
        case(data=run([[2, 7, 7, 2]], np.int64), axis=1, select_last_index=1),
        case(data=BYTES, axis=2),
        case(data=HUGE, axis=1),
        case(data=run([[7, 2**16 - 1, 2**15]], np.uint16), axis=1, select_last_index=1),
        case(data=run([[7, 2**32 - 1, 2**31]], np.uint32), axis=1),
        case(data=run([[7, -(2**15), 2**15 - 1]], np.int16), axis=1),
    ],
)
def arg_extremum(
    g: Builder,
    data: Value,
    /,
    axis: int,
    keepdims: int,
    select_last_index: int = 0,
    *,
    op: str,
    out: list[TensorType],
) -> Value:
    """The first of equals is TFLite's own; the last is the first of the reversed."""
    axis = counted(axis, data.rank)
    kept = _comparable(g, data)
    x = g.REVERSE_V2(kept, axes=(axis,)) if select_last_index else kept
    place = _first(g, x, axis, "ARG_MAX" if op == "ArgMax" else "ARG_MIN")
    if select_last_index:
        place = g.SUB(data.shape[axis] - 1, place)
    return g.reshape(place, out[0].dims)


def _comparable(g: Builder, x: Value) -> Value:
    """Whole numbers that ARG_MAX lacks, as such that it or TOPK_V2 takes, in the same order."""
    if x.dtype in (np.int16, np.uint16):
        return g.cast(x, INT32)
    if x.dtype == UINT64:
        return to_int64(g, x, ordered=True)
    return g.cast(x, INT64) if x.dtype == np.uint32 else x


def _first(g: Builder, x: Value, axis: int, name: str) -> Value:
    """ARG_MAX has no int64 (kernels/arg_min_max.cc:118), but TOPK_V2 has."""
    if x.dtype != INT64:
        return g.emit(name, [x], {"axis": axis, "output_type": "INT64"})
    last = g.transpose(x, [k for k in range(x.rank) if k != axis] + [axis])
    _, place = g.TOPK_V2(last if name == "ARG_MAX" else g.SUB(-1, last), k=1)
    return g.cast(g.reshape(place, place.shape[:-1]), INT64)
