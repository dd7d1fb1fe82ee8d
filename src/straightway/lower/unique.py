"""What is there once, by comparing everything with everything."""

import math

import numpy as np

from straightway.ir import TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import INT32, INT64, UINT64, WIDER, to_int64
from straightway.lower.sets import cumulated, positions

MOST_COMPARISONS = 2**24
VALUES = run([2.0, 1.0, 1.0, 3.0, 4.0, 3.0])
ROWS = run([[1.0, 0.0, 2.0], [1.0, 0.0, 1.0], [1.0, 0.0, 2.0], [0.0, 5.0, 1.0]])


def comparisons(x: Value, axis: int | None) -> int:
    """How many pairs of elements are compared."""
    count = x.known_type.size if axis is None else x.shape[counted(axis, x.rank)]
    return count * (count if axis is None else x.known_type.size)


@lower(
    "Unique",
    needs=[
        need(
            lambda x, axis: comparisons(x, axis) <= MOST_COMPARISONS,
            f"there must be at most {MOST_COMPARISONS:,} pairs of elements; got {{x.type}}",
            possible=True,
        )
    ],
    samples=[
        case(x=VALUES, outputs=4),
        case(x=VALUES, sorted=0, outputs=4),
        case(x=run([[3, -5, 3], [2**40, 2**40 + 1, -5]], np.int64), outputs=4),
        case(x=run([[3, -5, 3]], np.int8), outputs=2),
        case(x=ROWS, axis=0, outputs=4),
        case(x=ROWS, axis=0, sorted=0, outputs=4),
        case(x=run(ROWS.array.reshape(2, 2, 3)), axis=-1, outputs=3),
    ],
    refuses=[case(x=(5000,))],
)
def unique(
    g: Builder,
    x: Value,
    /,
    *,
    axis: int | None = None,
    sorted: int = 1,
    out: list[TensorType],
) -> list[Value]:
    """Each element's rank is the number of others that come first and are less, or stand before it.

    The first of a rank goes to its place; how many ranks there are is found out when the model runs.
    """
    place = 0 if axis is None else counted(axis, x.rank)
    data = g.reshape(x, (x.known_type.size,)) if axis is None else x
    order = [place, *(k for k in range(data.rank) if k != place)]
    rows = g.transpose(data, order)
    count = rows.shape[0]
    equal, less = _compared(g, g.reshape(rows, (count, math.prod(rows.shape[1:]))))
    first = _first(g, equal)
    ahead = less if sorted else _before(g, equal)
    rank = _counted(g, g.LOGICAL_AND(ahead, g.reshape(first, (1, count))))
    place_of_rank = g.SCATTER_ND(
        g.reshape(rank, (count, 1)),
        g.MUL(g.cast(first, INT32), g.const(np.arange(count), INT32)),
        shape=(count,),
    )
    total = g.SUM(g.cast(first, INT32), axes=(0,), keep_dims=False)
    there = g.LESS(g.const(np.arange(count), INT32), total)
    found = out[0].dims[place]
    places = g.GATHER(place_of_rank, positions(g, there, found), axis=0)
    kept = g.GATHER(rows, places, axis=0)
    counts = g.GATHER(_counted(g, equal), places, axis=0)
    results = [g.transpose(kept, np.argsort(order).tolist()), places, rank, counts]
    return [results[0], *(g.cast(r, INT64) for r in results[1:])][: len(out)]


def _compared(g: Builder, rows: Value) -> tuple[Value, Value]:
    """Where row i equals row j, and where row j is less than row i: [count, count]."""
    count, width = rows.shape
    kind = WIDER.get(rows.dtype, rows.dtype)
    kind = np.dtype(INT32) if rows.dtype == np.bool_ else kind
    wide = to_int64(g, rows, ordered=True) if rows.dtype == UINT64 else g.cast(rows, kind)
    own, others = g.reshape(wide, (count, 1, width)), g.reshape(wide, (1, count, width))
    same, less = g.EQUAL(own, others), g.LESS(others, own)
    equal = g.REDUCE_ALL(same, axes=(2,), keep_dims=False)
    if width > 1:
        # less where all columns before are the same
        before = cumulated(g, g.cast(same, INT32), 2, exclusive=True)
        less = g.LOGICAL_AND(less, g.GREATER(before, 0))
    return equal, g.REDUCE_ANY(less, axes=(2,), keep_dims=False)


def _first(g: Builder, equal: Value) -> Value:
    """Which rows have no equal one before them."""
    count = equal.shape[0]
    earlier = g.LOGICAL_AND(equal, g.const(np.tri(count, k=-1, dtype=bool)))
    return g.LOGICAL_NOT(g.REDUCE_ANY(earlier, axes=(1,), keep_dims=False))


def _before(g: Builder, equal: Value) -> Value:
    """Where row j stands before the first row that equals row i."""
    count = equal.shape[0]
    place = g.ARG_MAX(g.cast(equal, INT32), axis=1, output_type="INT32")
    return g.LESS(g.const(np.arange(count).reshape(1, -1), INT32), g.reshape(place, (count, 1)))


def _counted(g: Builder, truths: Value) -> Value:
    """How many hold in each row."""
    return g.SUM(g.cast(truths, INT32), axes=(1,), keep_dims=False)
