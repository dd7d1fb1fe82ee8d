"""Operators that read or write elements of constants by index."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from straightway.passes.evaluator import Result, Table, UnfoldableError

TABLE = Table()
ACCUMULATE = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@TABLE.evaluates("Gather")
def gather(x: np.ndarray, indices: np.ndarray, /, *, axis: int) -> Result:
    """Slices of one axis; negative indices count from the end."""
    return np.asarray(np.take(x, indices, axis))


def _along(indices: np.ndarray, axis: int) -> tuple[np.ndarray, ...]:
    """The places that `indices` name: their own place, but for one axis."""
    grid: tuple[np.ndarray, ...] = np.indices(indices.shape, sparse=True)
    axis = normalize_axis_index(axis, indices.ndim)
    return (*grid[:axis], indices, *grid[axis + 1 :])


@TABLE.evaluates("GatherElements")
def gather_elements(x: np.ndarray, indices: np.ndarray, /, *, axis: int) -> Result:
    """One element for each index."""
    return np.asarray(x[_along(indices, axis)])


@TABLE.evaluates("GatherND")
def gather_nd(x: np.ndarray, indices: np.ndarray, /, *, batch_dims: int = 0) -> Result:
    """Slices at index vectors, batch by batch."""
    batch: tuple[np.ndarray, ...] = np.indices(indices.shape[:batch_dims], sparse=True)
    rest = indices.ndim - 1 - batch_dims
    outer = [place.reshape(*place.shape, *(1,) * rest) for place in batch]
    return np.asarray(x[(*outer, *np.moveaxis(indices, -1, 0))])


def _write(
    x: np.ndarray, index: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str
) -> Result:
    result = x.copy()
    if reduction == "none":
        result[index] = updates
    else:
        ACCUMULATE[reduction].at(result, index, updates)
    return result


@TABLE.evaluates("ScatterElements", "Scatter")
def scatter_elements(
    x: np.ndarray,
    indices: np.ndarray,
    updates: np.ndarray,
    /,
    *,
    axis: int,
    reduction: str = "none",
) -> Result:
    """Write one element for each index."""
    return _write(x, _along(indices, axis), updates, reduction)


@TABLE.evaluates("ScatterND")
def scatter_nd(
    x: np.ndarray, indices: np.ndarray, updates: np.ndarray, /, *, reduction: str = "none"
) -> Result:
    """Write slices at index vectors."""
    return _write(x, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)


@TABLE.evaluates("Compress")
def compress(x: np.ndarray, condition: np.ndarray, /, *, axis: int | None = None) -> Result:
    """Keep the slices that the condition marks."""
    return np.compress(condition, x, axis)


@TABLE.evaluates("NonZero")
def nonzero(x: np.ndarray, /) -> Result:
    """The indices of what is not zero, one column each."""
    if x.ndim == 0:
        raise UnfoldableError("a scalar has no index")
    return np.array(np.nonzero(x), np.int64)


@TABLE.evaluates("CumSum")
def cumulative_sum(
    x: np.ndarray, axis: np.ndarray, /, *, exclusive: int = 0, reverse: int = 0
) -> Result:
    """Sums of all elements before and with each, or without it."""
    along = int(axis.reshape(-1)[0])
    ordered = np.flip(x, along) if reverse else x
    sums = np.cumsum(ordered, along, x.dtype)
    if exclusive:
        sums = np.roll(sums, 1, along)
        np.moveaxis(sums, along, 0)[:1] = 0
    return np.flip(sums, along) if reverse else sums


def _extreme(
    function: Callable[..., Any], x: np.ndarray, *, axis: int, keepdims: int, last: int
) -> Result:
    found = np.asarray(function(np.flip(x, axis) if last else x, axis), np.int64)
    found = x.shape[axis] - 1 - found if last else found
    return np.expand_dims(found, axis) if keepdims else found


@TABLE.evaluates("ArgMax")
def arg_max(x: np.ndarray, /, *, axis: int, keepdims: int, select_last_index: int = 0) -> Result:
    """The index of the greatest, the first of equals unless told."""
    return _extreme(np.argmax, x, axis=axis, keepdims=keepdims, last=select_last_index)


@TABLE.evaluates("ArgMin")
def arg_min(x: np.ndarray, /, *, axis: int, keepdims: int, select_last_index: int = 0) -> Result:
    """The index of the least, the first of equals unless told."""
    return _extreme(np.argmin, x, axis=axis, keepdims=keepdims, last=select_last_index)
