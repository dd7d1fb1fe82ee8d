"""Operators that make constants out of attributes or of a few numbers."""

import math
from typing import Any

import numpy as np

from straightway.passes.arguments import integers
from straightway.passes.evaluator import Call, Result, Table, UnfoldableError

TABLE = Table()
# Larger results are left to the run time, unless the model itself has constants as large.
MOST_RESULT_BYTES = 256 * 2**20


def refuse_large(
    shape: tuple[int, ...], itemsize_bytes: int, most_bytes: int | None = None
) -> None:
    """Raise UnfoldableError before anything of this shape is made, if it is too large."""
    limit_bytes = MOST_RESULT_BYTES if most_bytes is None else most_bytes
    size_bytes = math.prod(shape) * itemsize_bytes
    if size_bytes > limit_bytes:
        raise UnfoldableError(
            f"its result {list(shape)} would take {size_bytes:,} bytes; {limit_bytes:,} are left "
            "for constants"
        )


@TABLE.evaluates("Constant")
def constant(
    *,
    value: np.ndarray | None = None,
    value_float: float | None = None,
    value_floats: tuple[float, ...] | None = None,
    value_int: int | None = None,
    value_ints: tuple[int, ...] | None = None,
    value_string: str | None = None,
    value_strings: tuple[str, ...] | None = None,
) -> Result:
    """Whichever attribute is there; a sparse one is not evaluated."""
    choices: list[tuple[Any, Any]] = [
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
        (value_string, object),
        (value_strings, object),
    ]
    if value is not None:
        return np.asarray(value)
    for given, dtype in choices:
        if given is not None:
            return np.array(given, dtype)
    raise UnfoldableError("it has no value")


@TABLE.evaluates("ConstantOfShape")
def constant_of_shape(shape: np.ndarray, /, *, value: np.ndarray | None = None) -> Result:
    """Fill a shape with one number, 0.0 without another."""
    fill = np.zeros(1, np.float32) if value is None else np.asarray(value)
    target = integers(shape) or ()
    # one element, seen many times: exporters hide megabytes of equal weights in this operator
    return np.broadcast_to(fill.reshape(-1)[0], target)


@TABLE.evaluates("Range")
def number_range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray, /) -> Result:
    """max(ceil((limit - start) / delta), 0) numbers: start + i·delta, in the operands' type."""
    first, last, step = (v.reshape(-1)[0].item() for v in (start, limit, delta))
    if step == 0 or not all(math.isfinite(v) for v in (first, last, step)):
        raise UnfoldableError(f"a range from {first} to {last} by {step} has no length")
    exact = all(isinstance(v, int) for v in (first, last, step))
    count = -((first - last) // step) if exact else math.ceil((last - first) / step)
    count = max(count, 0)
    refuse_large((count,), start.dtype.itemsize)
    if exact:
        return (first + np.arange(count, dtype=np.int64) * step).astype(start.dtype)
    dtype = start.dtype.type
    return np.asarray(dtype(first) + np.arange(count).astype(dtype) * dtype(step), start.dtype)


@TABLE.evaluates("EyeLike", ignored=("dtype",))
def eye_like(x: np.ndarray, /, *, k: int = 0, call: Call) -> Result:
    """Ones on the k-th diagonal."""
    rows, columns = x.shape
    return np.eye(rows, columns, k, call.dtype)


@TABLE.evaluates("OneHot")
def one_hot(indices: np.ndarray, depth: np.ndarray, values: np.ndarray, /, *, axis: int) -> Result:
    """`values` holds what stands for off and on; negative indices count from the end."""
    size = int(depth.reshape(-1)[0])
    shape = (*indices.shape, size)
    refuse_large(shape, values.dtype.itemsize)
    whole = indices.astype(np.int64)
    if (whole != indices).any():
        raise UnfoldableError("its indices are no whole numbers")
    whole = np.where(whole < 0, whole + size, whole)
    on = np.expand_dims(whole, -1) == np.arange(size)
    result = np.where(on, values[1], values[0])
    return np.moveaxis(result, -1, axis)


@TABLE.evaluates("HannWindow", ignored=("output_datatype",))
def hann_window(
    size: np.ndarray,
    /,
    *,
    periodic: int = 1,
    call: Call,
) -> Result:
    """0.5 - 0.5·cos(2πn/N)."""
    return _cosines(size, (0.5, -0.5), periodic=periodic, call=call)


@TABLE.evaluates("HammingWindow", ignored=("output_datatype",))
def hamming_window(
    size: np.ndarray,
    /,
    *,
    periodic: int = 1,
    call: Call,
) -> Result:
    """25/46 - 21/46·cos(2πn/N)."""
    return _cosines(size, (25 / 46, -21 / 46), periodic=periodic, call=call)


@TABLE.evaluates("BlackmanWindow", ignored=("output_datatype",))
def blackman_window(
    size: np.ndarray,
    /,
    *,
    periodic: int = 1,
    call: Call,
) -> Result:
    """0.42 - 0.5·cos(2πn/N) + 0.08·cos(4πn/N)."""
    return _cosines(size, (0.42, -0.5, 0.08), periodic=periodic, call=call)


def _cosines(size: np.ndarray, weights: tuple[float, ...], *, periodic: int, call: Call) -> Result:
    count = int(size.reshape(-1)[0])
    refuse_large((count,), 8)
    turns = 2 * np.pi * np.arange(count) / (count if periodic else count - 1)
    result = sum(w * np.cos(k * turns) for k, w in enumerate(weights))
    return np.asarray(result).astype(call.dtype)
