"""Reductions of constants. Half types are accumulated in float32, and then rounded."""

from collections.abc import Callable, Sequence

import numpy as np

from straightway.passes.arguments import integers
from straightway.passes.evaluator import Call, Result, Table, UnfoldableError

TABLE = Table()
Numbers = np.ndarray | Sequence[int]
Axes = tuple[int, ...] | None
Function = Callable[[np.ndarray, Axes], np.ndarray]


def _sum(x: np.ndarray, axes: Axes) -> Result:
    return np.asarray(np.sum(x, axes, x.dtype, keepdims=True))


def _mean(x: np.ndarray, axes: Axes) -> np.ndarray:
    whole = x.dtype.kind in "iu"
    sums = np.asarray(np.sum(x, axes, np.int64 if whole else x.dtype, keepdims=True))
    count = x.size // max(sums.size, 1)
    if whole:
        # towards zero; the least number has no magnitude
        floor, rest = np.divmod(sums, count)
        return np.asarray(floor + ((sums < 0) & (rest != 0)))
    return np.asarray(np.divide(sums, np.asarray(count, x.dtype)))


def _real(function: Function) -> Function:
    """Whole numbers have roots and logarithms that engines round each in its own way."""

    def compute(x: np.ndarray, axes: Axes) -> np.ndarray:
        if x.dtype.kind in "iu":
            raise UnfoldableError("its result is no whole number")
        return function(x, axes)

    return compute


def _log_sum_exp(x: np.ndarray, axes: Axes) -> Result:
    top = np.max(x, axes, keepdims=True)
    top = np.where(np.isfinite(top), top, np.zeros((), x.dtype))
    return np.asarray(np.log(_sum(np.exp(x - top), axes)) + top)


# Each keeps the reduced dimensions with size 1.
REDUCTIONS: dict[str, Function] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceMax": lambda x, axes: np.asarray(np.max(x, axes, keepdims=True)),
    "ReduceMin": lambda x, axes: np.asarray(np.min(x, axes, keepdims=True)),
    "ReduceProd": lambda x, axes: np.asarray(np.prod(x, axes, x.dtype, keepdims=True)),
    "ReduceL1": lambda x, axes: _sum(np.abs(x), axes),
    "ReduceL2": _real(lambda x, axes: np.sqrt(_sum(x * x, axes))),
    "ReduceSumSquare": lambda x, axes: _sum(x * x, axes),
    "ReduceLogSum": _real(lambda x, axes: np.log(_sum(x, axes))),
    "ReduceLogSumExp": _real(_log_sum_exp),
}


def _reduction(
    function: Function,
) -> Callable[..., np.ndarray]:
    def reduce(
        x: np.ndarray,
        /,
        *,
        axes: Numbers | None = None,
        keepdims: int,
        noop_with_empty_axes: int = 0,
    ) -> Result:
        along = integers(axes)
        if not along and noop_with_empty_axes:
            along = ()
        elif not along:
            along = tuple(range(x.ndim))
        result = function(_widened(x), along).astype(x.dtype)
        return result if keepdims else np.squeeze(result, along)

    return reduce


def _widened(x: np.ndarray) -> Result:
    """Half types as float32; others as they are."""
    half = x.dtype.itemsize == 2 and x.dtype.kind in "fV"
    return x.astype(np.float32) if half else x


for _name, _function in REDUCTIONS.items():
    TABLE.enter(_name, _reduction(_function))


def _flattened(x: np.ndarray, axis: int, version: int) -> tuple[np.ndarray, int]:
    """Before opset 13 everything from `axis` on is normalised together."""
    if not -x.ndim <= axis < x.ndim:
        raise UnfoldableError(f"axis {axis} is none of {x.ndim} dimensions")
    if version >= 13:
        return x, axis
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(*x.shape[:axis], -1), -1


@TABLE.evaluates("Softmax")
def softmax(x: np.ndarray, /, *, axis: int, call: Call) -> Result:
    """e^x by its sum."""
    flat, along = _flattened(_widened(x), axis, call.version)
    powers = np.exp(flat - np.max(flat, along, keepdims=True))
    return (powers / np.sum(powers, along, keepdims=True)).reshape(x.shape).astype(x.dtype)


@TABLE.evaluates("LogSoftmax")
def log_softmax(x: np.ndarray, /, *, axis: int, call: Call) -> Result:
    """Give x - log(sum(e^x))."""
    flat, along = _flattened(_widened(x), axis, call.version)
    # less the maximum first: the logarithm alone would lose digits beside large numbers
    less = flat - np.max(flat, along, keepdims=True)
    sums = np.log(np.sum(np.exp(less), along, keepdims=True))
    return (less - sums).reshape(x.shape).astype(x.dtype)


@TABLE.evaluates("Size")
def size(x: np.ndarray, /) -> Result:
    """Number of elements."""
    return np.array(x.size, np.int64)


@TABLE.evaluates("Shape")
def shape(x: np.ndarray, /, *, start: int = 0, end: int | None = None) -> Result:
    """The dimensions from start to end."""
    return np.array(x.shape, np.int64)[slice(start, end)]


@TABLE.evaluates("TopK", since=10)
def top_k(
    x: np.ndarray, k: np.ndarray, /, *, axis: int, largest: int = 1, sorted_: int = 1
) -> list[np.ndarray]:
    """The k greatest or least with their indices; of equals, the first first."""
    if not sorted_ or x.dtype.kind == "u":
        raise UnfoldableError("the order is free")
    order = np.argsort(-x if largest else x, axis, kind="stable")
    best = np.take(order, range(int(k.reshape(-1)[0])), axis)
    return [np.take_along_axis(x, best, axis), best.astype(np.int64)]
