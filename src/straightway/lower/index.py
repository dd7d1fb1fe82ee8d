"""Ops that address elements by indices."""

import math
from collections.abc import Sequence

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.declare import Const, case, lower, need, run
from straightway.lower.integers import (
    INT64,
    UINT64,
    converted,
    is_integer,
    non_negative,
    to_int64,
    to_uint64,
    unsigned,
    wrapped,
)
from straightway.lower.selection import part, take
from straightway.lower.tables import MOST_MASKED, refuse_large_table

DISTINCT = run([[2, -2, 0], [-3, 1, -1]], np.int64)
AT_RUN_TIME = run([[2, -1, 0], [-3, 1, 1]], np.int64)
WITHIN = need(
    lambda data, indices, axis: inside(indices, data.shape[counted(axis, data.rank)]),
    "indices must lie in [-size, size) of axis {axis}; got {indices.const}",
    kernel="kernels/gather.cc:164",
)


def ints(*numbers: int) -> np.ndarray:
    """Make a constant operand of a sample."""
    return np.array(numbers, np.int64)


def inside(indices: Value, size: int) -> bool:
    """Whether constant indices address an axis of this size; what comes at run time may."""
    found = indices.const
    return found is None or bool(np.all((found >= -size) & (found < size)))


@lower(
    "Gather",
    needs=[WITHIN],
    samples=[
        case(data=(4, 3, 5), indices=np.array(-1, np.int64), axis=1),
        case(data=(4, 3, 5), indices=ints(1, 2), axis=0),
        case(data=(4, 7, 5), indices=ints(6, 0, -3, 2), axis=1),
        case(data=(4, 12, 5), indices=ints(0, 4, 2, 11, 7, 9, 1), axis=1),
        case(data=(4, 7, 5), indices=ints(6, 4, 2, 0), axis=1),
        case(data=(4, 7, 5), indices=np.array([[4, 0], [-3, 2], [1, 1]]), axis=-1),
        case(data=(4, 3, 5), indices=AT_RUN_TIME, axis=1),
        case(data=(4, 3, 5), indices=run(-2, np.int32), axis=2),
        case(data=np.arange(12.0, dtype=np.float32).reshape(3, 4), indices=AT_RUN_TIME),
        case(data=np.arange(12.0, dtype=np.float32).reshape(3, 4), indices=run([2], np.int64)),
        case(data=np.arange(12.0, dtype=np.float32), indices=run(-2, np.int64)),
        case(data=run(np.arange(12).reshape(3, 4), np.int64), indices=ints(2, 0)),
        case(data=run(np.arange(12).reshape(3, 4) > 5, bool), indices=AT_RUN_TIME),
    ],
    refuses=[case(data=(4, 3, 5), indices=ints(1, 3), axis=1)],
)
def gather(g: Builder, data: Value, indices: Value, /, axis: int) -> Value:
    """Constant indices are slices where that delegates; negative ones count from the end."""
    axis = counted(axis, data.rank)
    places = non_negative(g, indices, data.shape[axis])
    if places.const is None or data.const is not None:
        return g.GATHER(data, places, axis=axis)
    flat = [int(place) for place in places.const.reshape(-1)]
    shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
    return g.reshape(take(g, data, flat, axis), shape)


@lower(
    "GatherElements",
    needs=[WITHIN],
    samples=[
        case(data=(2, 3, 4), indices=np.array([[[0, 1, -1, 2]], [[2, 1, 0, 0]]]), axis=1),
        case(data=(2, 3), indices=AT_RUN_TIME, axis=1),
        case(data=(3, 4), indices=AT_RUN_TIME, axis=0),
        case(data=run([[5, 6, 7]], np.int64), indices=run([[1, -1]], np.int32), axis=1),
    ],
    refuses=[case(data=(2, 3), indices=np.array([[3]]), axis=1)],
)
def gather_elements(g: Builder, data: Value, indices: Value, /, axis: int) -> Value:
    """A gather from the tensor laid out flat."""
    flat = g.reshape(data, (math.prod(data.shape),))
    return g.GATHER(flat, flat_places(g, indices, data.shape, counted(axis, data.rank)), axis=0)


def flat_places(g: Builder, indices: Value, shape: tuple[int, ...], axis: int) -> Value:
    """Where elements stand in a flat tensor, if `indices` says where they stand along `axis`."""
    if indices.rank != len(shape):
        raise InvalidModel(f"indices have as many dimensions as {list(shape)}; got {indices.type}")
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    places = non_negative(g, indices, shape[axis])
    others = [k for k in range(len(shape)) if k != axis]
    if places.const is None and (g.open_dims or g.open_results):
        found = g.MUL(places, strides[axis])
        for k in others:
            numbers = np.arange(indices.shape[k]).reshape([-1, *[1] * (len(shape) - 1 - k)])
            # numbers and their distance apart, of which each may depend on an open size
            found = g.ADD(found, g.MUL(g.const(numbers, indices.dtype), strides[k]))
        return found
    grid = np.indices(indices.shape, indices.dtype)
    base = np.asarray(sum(grid[k] * strides[k] for k in others), indices.dtype)
    base = base + np.zeros(indices.shape, indices.dtype)
    if places.const is not None:
        return g.const(places.const * strides[axis] + base)
    return g.ADD(g.MUL(places, strides[axis]), g.const(base))


def _points_inside(data: Value, indices: Value, batch_dims: int) -> bool:
    if not indices.rank:
        raise InvalidModel(f"places have a dimension at least; got {indices.type}")
    if indices.const is None:
        return True
    sizes = np.array(data.shape[batch_dims : batch_dims + indices.shape[-1]])
    return bool(np.all((indices.const >= -sizes) & (indices.const < sizes)))


@lower(
    "GatherND",
    needs=[
        need(
            _points_inside,
            "indices must lie in [-size, size) of each axis; got {indices.const}",
            kernel="kernels/gather_nd.cc:144",
        )
    ],
    samples=[
        case(data=(2, 3, 4), indices=np.array([[0, -1], [1, 2]])),
        case(data=(2, 3, 4), indices=run([[[0, -1, 3]], [[1, 2, -4]]], np.int64)),
        case(data=(2, 3, 4, 5), indices=run([[[0, -1]], [[1, 3]]], np.int64), batch_dims=1),
        case(data=run(np.arange(6).reshape(2, 3), np.int64), indices=np.array([[1], [0]])),
    ],
    refuses=[case(data=(2, 3, 4), indices=np.array([[0, 3]]))],
)
def gather_nd(g: Builder, data: Value, indices: Value, /, batch_dims: int = 0) -> Value:
    """Points become rows of the tensor laid out as a list of rows."""
    if data.shape[:batch_dims] != indices.shape[:batch_dims]:
        raise InvalidModel(
            f"the first {batch_dims} dimensions of both are the same; got {data.type}, {indices.type}"
        )
    depth = indices.shape[-1]
    inner = data.shape[batch_dims + depth :]
    rows = g.reshape(data, (math.prod(data.shape[: batch_dims + depth]), *inner))
    return g.GATHER(rows, row_places(g, indices, data.shape, batch_dims), axis=0)


def row_places(g: Builder, indices: Value, shape: tuple[int, ...], batch_dims: int) -> Value:
    """Number the rows that points address; the first `batch_dims` of both go together."""
    depth = indices.shape[-1]
    sizes = np.array(shape[batch_dims : batch_dims + depth], indices.dtype)
    strides = np.array([math.prod(sizes[k + 1 :]) for k in range(depth)], indices.dtype)
    outer = shape[:batch_dims]
    batch = np.arange(math.prod(outer), dtype=indices.dtype) * math.prod(sizes)
    base = batch.reshape((*outer, *[1] * (indices.rank - 1 - batch_dims)))
    if indices.const is not None:
        return g.const((indices.const % sizes * strides).sum(-1, dtype=indices.dtype) + base)
    places = g.MUL(wrapped(g, indices, sizes), g.const(strides))
    number = g.SUM(places, axes=(places.rank - 1,), keep_dims=False)
    return g.ADD(number, g.const(base)) if batch_dims else number


COMBINED = {"mul": "MUL", "max": "MAXIMUM", "min": "MINIMUM"}
SEGMENTS = {"mul": "PROD", "max": "MAX", "min": "MIN"}


@lower(
    "ScatterND",
    needs=[
        need(
            lambda data, indices: _points_inside(data, indices, 0),
            "indices must lie in [-size, size) of each axis; got {indices.const}",
            kernel="kernels/scatter_nd.cc:178",
        ),
    ],
    samples=[
        case(data=(4, 3, 5), indices=np.array([[1], [-1]]), updates=(2, 3, 5)),
        case(data=(4, 3), indices=np.array([[[1, 2]], [[0, -3]]]), updates=(2, 1)),
        case(data=(4, 3, 5), indices=run([[1], [-1]], np.int64), updates=(2, 3, 5)),
        case(
            data=run(np.arange(6), np.int64),
            indices=run([[1], [-1]], np.int64),
            updates=run([7, 8], np.int64),
        ),
        case(data=(2, 3), indices=run([[1], [1], [0], [1]], np.int64), updates=(4, 3)),
        case(data=(4, 3), indices=np.array([[1], [1]]), updates=(2, 3), reduction="add"),
        case(data=(4, 3), indices=run([[1]], np.int64), updates=(1, 3), reduction="add"),
        case(data=(4, 3), indices=np.array([[1], [-1]]), updates=(2, 3), reduction="mul"),
        case(data=(4, 3), indices=np.array([[1], [-1]]), updates=(2, 3), reduction="max"),
        case(data=(4, 3), indices=np.array([[1], [1]]), updates=(2, 3), reduction="mul"),
        case(data=(4, 3), indices=run([[1], [1]], np.int64), updates=(2, 3), reduction="max"),
        case(data=(4, 3), indices=run([[3], [1]], np.int64), updates=(2, 3), reduction="min"),
    ],
    refuses=[
        case(data=(4, 3), indices=np.array([[4]]), updates=(1, 3)),
    ],
)
def scatter_nd(
    g: Builder, data: Value, indices: Value, updates: Value, /, reduction: str = "none"
) -> Value:
    """Rows are replaced, or combined with what was there."""
    depth = indices.shape[-1]
    inner = data.shape[depth:]
    check_updates(updates, (*indices.shape[:-1], *inner))
    rows = g.reshape(data, (math.prod(data.shape[:depth]), *inner))
    places = row_places(g, indices, data.shape, 0)
    count = math.prod(places.shape)
    new = g.reshape(updates, (count, *inner))
    points = indices.const
    may_repeat = points is not None and any(
        repeats(g, points[..., dim], dim) for dim in range(depth)
    )
    found = scatter_rows(
        g, rows, g.reshape(places, (count,)), new, reduction, may_repeat=may_repeat
    )
    return g.reshape(found, data.shape)


def check_updates(updates: Value, shape: Sequence[int]) -> None:
    """Raise InvalidModel where there is not one update for each index."""
    if updates.shape != tuple(shape):
        raise InvalidModel(f"updates of shape {list(shape)} are scattered; got {updates.type}")


for onnx_name, opset in {"Scatter": 10, "ScatterElements": 18}.items():

    @lower(
        onnx_name,
        needs=[
            need(
                lambda data, indices, axis: inside(indices, data.shape[counted(axis, data.rank)]),
                "indices must lie in [-size, size) of axis {axis}; got {indices.const}",
                kernel="kernels/scatter_nd.cc:178",
            ),
        ],
        samples=[
            case(data=(3, 4), indices=np.array([[0, 2, -1, 1]]), updates=(1, 4), opset=opset),
            case(data=(2, 3), indices=DISTINCT, updates=(2, 3), axis=1, opset=opset),
            case(
                data=(1, 3),
                indices=run(np.zeros((2, 3)), np.int64),
                updates=(2, 3),
                opset=opset,
            ),
        ],
        refuses=[
            case(data=(2, 3), indices=np.array([[3]]), updates=(1, 1), axis=1, opset=opset),
        ],
    )
    def scatter_elements(
        g: Builder,
        data: Value,
        indices: Value,
        updates: Value,
        /,
        *,
        axis: int = 0,
        reduction: str = "none",
    ) -> Value:
        """Elements of the flat tensor are replaced, or combined with what was there."""
        check_updates(updates, indices.shape)
        count = math.prod(indices.shape)
        along = counted(axis, data.rank)
        flat = g.reshape(data, (math.prod(data.shape),))
        places = g.reshape(flat_places(g, indices, data.shape, along), (count,))
        may_repeat = indices.const is not None and repeats(g, indices.const, along)
        new = g.reshape(updates, (count,))
        found = scatter_rows(g, flat, places, new, reduction, may_repeat=may_repeat)
        return g.reshape(found, data.shape)


def repeats(g: Builder, places: np.ndarray, dim: int) -> bool:
    """Whether places along an open dimension count from both ends: at some size these are the same."""
    return dim in g.open_dims and bool((places < 0).any() and (places >= 0).any())


def scatter_rows(
    g: Builder, rows: Value, places: Value, new: Value, reduction: str, *, may_repeat: bool
) -> Value:
    """Put `new[k]` at row `places[k]`, or combine it with what is there."""
    if may_repeat and reduction == "none":
        raise NotYet(
            "places counted from both ends are the same at some size, and no one defines which number stays",
            remedy="--dim or --shape fixes the sizes",
        )
    if reduction == "none":
        return replace_rows(g, rows, places, new)
    if reduction == "add":
        points = g.reshape(g.cast(places, np.int32), (*places.shape, 1))
        return g.ADD(rows, g.SCATTER_ND(points, new, shape=rows.shape))
    found = places.const
    if found is None or may_repeat or len(np.unique(found)) < len(found):
        return combined(g, rows, places, new, f"UNSORTED_SEGMENT_{SEGMENTS[reduction]}")
    old = take(g, rows, [int(place) for place in found], 0)
    return replace_rows(g, rows, places, g.emit(COMBINED[reduction], [old, new], {}))


def combined(g: Builder, rows: Value, places: Value, new: Value, name: str) -> Value:
    """Combine every row with all that come to its place, itself among them.

    The greatest of minus infinity alone is the least finite number (kernels/unsorted_segment.cc:135).
    """
    own = g.const(np.arange(rows.shape[0], dtype=np.int32))
    every = g.CONCATENATION(own, g.cast(places, np.int32), axis=0)
    return g.emit(name, [g.CONCATENATION(rows, new, axis=0), every], {"count": rows.shape[0]})


def replace_rows(g: Builder, rows: Value, places: Value, new: Value) -> Value:
    """Put `new[k]` where row `places[k]` was: all rows are joined, and picked.

    Where places repeat, which ONNX leaves undefined, the last stays, as with onnxruntime. At run time that is
    the greatest number among those that come to a place, the row's own before them.
    """
    every = g.CONCATENATION(rows, new, axis=0)
    count = rows.shape[0]
    if places.const is not None:
        chosen = np.arange(count)
        chosen[places.const] = count + np.arange(len(places.const))
        return take(g, every, [int(k) for k in chosen], 0)
    numbers = g.const(np.arange(every.shape[0], dtype=np.int32))
    owners = g.CONCATENATION(
        g.const(np.arange(count, dtype=np.int32)), g.cast(places, np.int32), axis=0
    )
    return g.GATHER(every, g.UNSORTED_SEGMENT_MAX(numbers, owners, count=count), axis=0)


@lower(
    "OneHot",
    samples=[
        case(
            indices=run([[1, -1, 9], [-5, 0, 4]], np.int64),
            depth=np.array(5, np.int64),
            values=np.array([-1, 3], np.float32),
            axis=1,
        ),
        case(
            indices=run([1, 2], np.int64),
            depth=np.array([4], np.int64),
            values=run([0, 2], np.int64),
        ),
        case(indices=run([1.0, 2.0]), depth=np.array(3.0, np.float32), values=ints(0, 1)),
        case(indices=run([1, 2**64 - 1, 9], np.uint64), depth=np.array(3), values=ints(0, 1)),
    ],
)
def one_hot(
    g: Builder,
    indices: Value,
    depth: object,
    values: Value,
    /,
    *,
    axis: int = -1,
    out: list[TensorType],
) -> Value:
    """Negative indices count from the end, once; what lies outside is off everywhere."""
    axis = counted(axis, indices.rank + 1)
    if indices.const is not None and (indices.const != np.floor(indices.const)).any():
        raise NotYet("ONNX's text and its evaluator disagree on indices that are no whole numbers")
    count = out[0].dims[axis]
    signed = is_integer(indices) and not unsigned(indices)
    places = indices if signed else converted(g, indices, INT64)
    places = places if places.dtype.itemsize >= 4 else g.cast(places, np.int32)
    if not unsigned(indices):  # what is beyond int64 comes out negative, which is off, too
        places = g.SELECT_V2(g.LESS(places, 0), g.ADD(places, count), places)
    off, on = (g.reshape(part(g, values, 0, k, 1), ()) for k in range(2))
    return g.ONE_HOT(places, on, off, axis=axis, depth=count)


@lower(
    "Trilu",
    samples=[
        case(input=(2, 4, 5)),
        case(input=(2, 4, 5), upper=0, k=np.array(-1, np.int64)),
        case(input=run(np.arange(12).reshape(3, 4), np.int64), k=np.array(1, np.int64)),
        case(input=(2, 4, 5), k=run(-1, np.int64)),
        case(input=(4, 5), k=run([2], np.int64), upper=0),
    ],
)
def triangle(g: Builder, x: Value, /, k: Value | None = None, upper: int = 1) -> Value:
    """A selection by a mask: how far each place is right of the diagonal, against `k`."""
    rows, columns = x.shape[-2:]
    shift = g.const(0, INT64) if k is None else g.reshape(g.cast(k, INT64), ())
    if {
        x.rank - 2,
        x.rank - 1,
    } & g.open_dims:  # a row and a column grow with the sizes, no table does
        g.keeps = True  # of two constants as well: a table of one size
        beside = g.const(np.arange(columns)[None], INT64)
        shift = g.ADD(g.const(np.arange(rows)[:, None], INT64), shift)
    else:
        refuse_large_table("what is beside a diagonal", rows, columns, MOST_MASKED)
        beside = g.const(np.arange(columns) - np.arange(rows)[:, None], INT64)
    mask = g.GREATER_EQUAL(beside, shift) if upper else g.LESS_EQUAL(beside, shift)
    return g.SELECT_V2(mask, x, g.const(0, x.dtype))


@lower(
    "TopK",
    samples=[
        case(x=(2, 7, 3), k=ints(4), axis=1, outputs=2),
        case(x=(2, 7), k=ints(3), largest=0, outputs=2),
        case(x=run([[5, -(2**62), 5, 7]], np.int64), k=ints(2), outputs=2),
        case(x=run([[5, -(2**63), 5, 7]], np.int64), k=ints(2), largest=0, outputs=2),
        case(x=run([[5, 2**63 + 1, 2**64 - 1, 7]], np.uint64), k=ints(2), outputs=2),
        case(x=(2, 7), k=3, outputs=2, opset=9),
    ],
)
def top_k(
    g: Builder,
    x: Value,
    /,
    *,
    k: Const | int,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
    out: list[TensorType],
) -> list[Value]:
    """The largest along the last axis; the smallest are the largest of the negated.

    A whole number is negated as -1 - x, which no number overflows.
    """
    axis = counted(axis, x.rank)
    if not 0 <= out[0].dims[axis] <= x.shape[axis]:
        raise InvalidModel(f"there are no {out[0].dims[axis]} largest of {x.shape[axis]} elements")
    perm = [a for a in range(x.rank) if a != axis] + [axis]
    back = np.argsort(perm).tolist()
    last = g.transpose(x, perm)
    last = to_int64(g, last, ordered=True) if x.dtype == UINT64 else last
    ordered = last if largest else _turned(g, last)
    values, places = g.TOPK_V2(ordered, k=out[0].dims[axis])
    values = values if largest else _turned(g, values)
    values = to_uint64(g, values, ordered=True) if x.dtype == UINT64 else values
    return [g.transpose(values, back), g.cast(g.transpose(places, back), INT64)]


def _turned(g: Builder, x: Value) -> Value:
    return g.SUB(-1, x) if is_integer(x) else g.NEG(x)
