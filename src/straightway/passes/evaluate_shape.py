"""Operators that only move elements of constants about: no number changes."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from straightway.passes.arguments import integers
from straightway.passes.evaluator import Call, Result, Table, UnfoldableError

TABLE = Table()
Numbers = np.ndarray | Sequence[int]


@TABLE.evaluates("Reshape")
def reshape(x: np.ndarray, /, *, shape: Numbers, allowzero: int = 0) -> Result:
    """0 keeps the operand's dimension, unless `allowzero`; -1 is what remains."""
    target = list(integers(shape) or ())
    if not allowzero:
        target = [x.shape[axis] if size == 0 else size for axis, size in enumerate(target)]
    return x.reshape(target)


@TABLE.evaluates("Flatten")
def flatten(x: np.ndarray, /, *, axis: int) -> Result:
    """To two dimensions."""
    axis = axis if axis == x.ndim else normalize_axis_index(axis, x.ndim)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@TABLE.evaluates("Squeeze")
def squeeze(x: np.ndarray, /, *, axes: Numbers | None = None) -> Result:
    """Drop dimensions of size 1: those named, or all."""
    return np.squeeze(x, integers(axes))


@TABLE.evaluates("Unsqueeze")
def unsqueeze(x: np.ndarray, /, *, axes: Numbers) -> Result:
    """Insert dimensions of size 1; `axes` count in the result."""
    return np.expand_dims(x, integers(axes) or ())


@TABLE.evaluates("Transpose")
def transpose(x: np.ndarray, /, *, perm: Sequence[int] | None = None) -> Result:
    """Reverse the dimensions, or as `perm` says."""
    return np.transpose(x, perm)


@TABLE.evaluates("Expand")
def expand(x: np.ndarray, shape: np.ndarray, /) -> Result:
    """Broadcast both ways."""
    target = np.broadcast_shapes(x.shape, integers(shape) or ())
    return np.ascontiguousarray(np.broadcast_to(x, target)).reshape(target)


@TABLE.evaluates("Tile", since=6)
def tile(x: np.ndarray, repeats: np.ndarray, /) -> Result:
    """Repeat along each dimension."""
    counts = integers(repeats) or ()
    return np.tile(x, counts)


@TABLE.evaluates("Concat", since=4)
def concat(*operands: np.ndarray, axis: int) -> Result:
    """Join along an axis."""
    return np.concatenate(operands, axis)


@TABLE.evaluates("Split", since=2)
def split(
    x: np.ndarray, /, *, axis: int, split: Numbers | None = None, num_outputs: int = 0, call: Call
) -> list[np.ndarray]:
    """By sizes, or into equal parts, of which the last may be smaller."""
    size, count = x.shape[axis], num_outputs or len(call.results)
    part = -(-size // count)
    sizes = integers(split) or (part,) * (count - 1) + (size - part * (count - 1),)
    ends = np.cumsum(sizes)
    if int(ends[-1]) != size or min(sizes) < 0:
        raise UnfoldableError(f"parts {list(sizes)} do not make up {size}")
    return np.split(x, ends[:-1].tolist(), axis)


@TABLE.evaluates("Slice")
def slice_(
    x: np.ndarray,
    /,
    *,
    starts: Numbers,
    ends: Numbers,
    axes: Numbers | None = None,
    steps: Numbers | None = None,
) -> Result:
    """Python's own slices: ONNX took its rules for negative and too large bounds from them.

    But it clamps a start far before the first element to that one, backwards, too.
    """
    first, last = integers(starts) or (), integers(ends) or ()
    along = integers(axes) or tuple(range(len(first)))
    by = integers(steps) or (1,) * len(first)
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(along, first, last, by, strict=True):
        # an end before the first element is Python's None, not a count from the end
        before = step < 0 and end < -x.shape[axis]
        first_place = max(start, -x.shape[axis]) if step < 0 else start
        index[axis] = slice(first_place, None if before else end, step)
    return np.ascontiguousarray(x[tuple(index)]).reshape(x[tuple(index)].shape)


@TABLE.evaluates("Pad", since=2)
def pad(
    x: np.ndarray,
    /,
    *,
    pads: Numbers,
    constant_value: np.ndarray | None = None,
    value: float = 0.0,
    axes: Numbers | None = None,
    mode: str,
) -> Result:
    """Begin and end amounts of all axes; negative ones crop."""
    amounts = integers(pads) or ()
    along = [a % x.ndim for a in integers(axes) or range(x.ndim)]
    both = np.zeros((x.ndim, 2), np.int64)
    both[along] = np.array(amounts, np.int64).reshape(2, -1).T
    if mode != "constant" and (both < 0).any():
        raise UnfoldableError(f"negative pads with mode '{mode}'")
    crop = np.maximum(-both, 0)
    index = tuple(slice(a, n - b) for n, (a, b) in zip(x.shape, crop.tolist(), strict=True))
    width = np.maximum(both, 0).tolist()
    if mode != "constant":
        return np.pad(x[index], width, mode)  # type: ignore[call-overload]
    fill = value if constant_value is None else constant_value.reshape(-1)[0]
    return np.pad(x[index], width, constant_values=np.asarray(fill, x.dtype))


@TABLE.evaluates("DepthToSpace")
def depth_to_space(x: np.ndarray, /, *, blocksize: int, mode: str = "DCR") -> Result:
    """Channels into blocks: depth last (CRD) or first (DCR) within the channels."""
    n, c, h, w = x.shape
    b = blocksize
    if mode == "DCR":
        parts = x.reshape(n, b, b, c // b**2, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // b**2, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // b**2, h * b, w * b)


@TABLE.evaluates("SpaceToDepth")
def space_to_depth(x: np.ndarray, /, *, blocksize: int) -> Result:
    """Blocks into channels."""
    n, c, h, w = x.shape
    b = blocksize
    parts = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b**2, h // b, w // b)


@TABLE.evaluates("Trilu")
def triangle(x: np.ndarray, /, *, k: np.ndarray | int = 0, upper: int) -> Result:
    """Keep the upper or the lower triangle of the last two dimensions."""
    offset = int(np.asarray(k).reshape(-1)[0])
    rows, columns = x.shape[-2:]
    keep = np.tri(rows, columns, offset - 1 if upper else offset, bool)
    return np.where(keep != bool(upper), x, np.zeros((), x.dtype))
