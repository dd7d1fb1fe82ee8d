"""What depends on the elements themselves: rows that are kept, places that are not zero, running products.

How many there are is found out when the model runs: by WHERE, RANGE and FILL, whose results TFLite
sizes then. What follows them here holds at every size; the shapes that are written down are the
model's own.
"""

import math

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.choice import by_axis
from straightway.lower.declare import case, lower, need, run
from straightway.lower.index import replace_rows
from straightway.lower.integers import INT32, nonzero, widened
from straightway.lower.selection import join, part

KEPT = run([True, False, True, True], bool)


def sized(value: Value, *shape: int) -> Value:
    """A result whose size TFLite finds out, with the shape that the model gives it."""
    value.type = TensorType(dtype=value.dtype, shape=shape)
    return value


def positions(g: Builder, condition: Value, count: int) -> Value:
    """Where a condition of one dimension holds, int64; the model says how often.

    WHERE gives rows of one number; their sums are a vector at every size.
    """
    return sized(g.SUM(sized(g.WHERE(condition), count, 1), axes=(1,), keep_dims=False), count)


@lower(
    "Compress",
    samples=[
        case(input=(4, 3), condition=KEPT, axis=0),
        case(input=(2, 3, 4), condition=KEPT, axis=-1),
        case(input=(2, 3), condition=run([False, True, True], bool)),
        case(input=(2, 3), condition=run([False, True, True, False, True], bool), axis=1),
        case(input=run(np.arange(4), np.int64), condition=run([False, True], bool), axis=0),
    ],
)
def compress(
    g: Builder, x: Value, condition: Value, /, *, axis: int | None = None, out: list[TensorType]
) -> Value:
    """The places at which the condition holds are gathered."""
    if condition.rank != 1:
        raise InvalidModel(f"the condition has one dimension; got {condition.type}")
    data = g.reshape(x, (math.prod(x.shape),)) if axis is None else x
    place = 0 if axis is None else counted(axis, x.rank)
    size = data.shape[place]
    if g.open_dims and condition.const is None:  # which of the two is longer depends on the size
        ends = {"begin": (0,), "end": (size,), "strides": (1,), "end_mask": (0,)}
        condition = g.STRIDED_SLICE(condition, **ends)
    elif condition.shape[0] > size:  # what is behind the end chooses nothing
        condition = part(g, condition, 0, 0, size)
    kept = positions(g, condition, out[0].dims[place])
    return g.GATHER(data, kept, axis=place)


@lower(
    "NonZero",
    samples=[
        case(x=run([[1.0, 0.0, -2.0], [0.0, 0.0, 3.0]])),
        case(x=run([[True, False], [True, True]], bool)),
        case(x=run([3, 0, -1], np.int64)),
        case(x=run([[3, 0, 255]], np.uint8)),
        case(x=run([[0, 2**63, 1]], np.uint64)),
    ],
)
def non_zero(g: Builder, x: Value, /, *, out: list[TensorType]) -> Value:
    """WHERE has a row for each place, NonZero a column."""
    data = g.reshape(x, (1,)) if x.rank == 0 else x
    condition = data if data.dtype == np.bool_ else nonzero(g, data)
    return g.transpose(sized(g.WHERE(condition), *out[0].dims[::-1]), (1, 0))


@lower(
    "CumProd",
    samples=[
        case(x=(2, 5, 3), axis=np.array(1), opset=26),
        case(x=(2, 5), axis=np.array(-1), exclusive=1, opset=26),
        case(x=(7, 2), axis=run(0, np.int64), reverse=1, opset=26),
        case(x=(2, 5, 3), axis=run([-1], np.int32), opset=26),
        case(x=run([[1, -2, 3, 4]], np.int32), axis=np.array(1), reverse=1, exclusive=1, opset=26),
    ],
)
def cumulative_product(g: Builder, x: Value, axis: Value, /, exclusive: int, reverse: int) -> Value:
    """Products with the tensor shifted by one, two, four … places: as many as the size has bits."""
    flags = {"exclusive": bool(exclusive), "reverse": bool(reverse)}
    return by_axis(g, axis, x.rank, lambda k: widened(g, lambda a: cumulated(g, a, k, **flags), x))


def cumulated(
    g: Builder, x: Value, axis: int, *, exclusive: bool = False, reverse: bool = False
) -> Value:
    """Multiply all elements up to each, along an axis."""
    size = x.shape[axis]
    x = _shifted(g, x, axis, 1, reverse=reverse) if exclusive else x
    step = 1
    while step < size:
        x = g.MUL(x, _shifted(g, x, axis, step, reverse=reverse))
        step *= 2
    return x


def _shifted(g: Builder, x: Value, axis: int, step: int, *, reverse: bool) -> Value:
    """Move everything along an axis; ones come in."""
    size = x.shape[axis]
    ones = g.const(np.ones([step if k == axis else d for k, d in enumerate(x.shape)], x.dtype))
    kept = part(g, x, axis, step if reverse else 0, size - step)
    return join(g, [kept, ones] if reverse else [ones, kept], axis)


@lower(
    "EyeLike",
    samples=[
        case(input=(3, 4)),
        case(input=(4, 3), k=-1, dtype=6),
        case(input=run(np.zeros((3, 3)), np.int64), k=1),
    ],
)
def eye_like(
    g: Builder, x: object, /, *, k: int = 0, dtype: int | None = None, out: list[TensorType]
) -> Value:
    """A constant."""
    if g.open_dims:
        g.need_fixed_size("where a diagonal lies")
    rows, columns = out[0].dims
    return g.const(np.eye(rows, columns, k), out[0].dtype)


LENGTHS = run([1, 4, 3], np.int64)


@lower(
    "ReverseSequence",
    samples=[
        case(input=(4, 3, 2), sequence_lens=LENGTHS),
        case(input=(3, 4, 2), sequence_lens=LENGTHS, batch_axis=0, time_axis=1),
        case(input=run(np.arange(12).reshape(4, 3), np.int8), sequence_lens=LENGTHS),
        case(input=run(np.arange(12).reshape(4, 3) > 5, bool), sequence_lens=LENGTHS),
        case(input=run(np.arange(12).reshape(4, 3), np.uint64), sequence_lens=LENGTHS),
    ],
)
def reverse_sequence(
    g: Builder, x: Value, lengths: Value, /, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
    """One op."""
    time, batch = counted(time_axis, x.rank), counted(batch_axis, x.rank)
    found: Value = g.REVERSE_SEQUENCE(x, lengths, sequence_axis=time, batch_axis=batch)
    return found


@lower(
    "TensorScatter",
    needs=[
        need(
            lambda mode: mode in ("linear", "circular"),
            "mode must be linear or circular; got {mode}",
            kernel="onnx/docs/Operators.md#TensorScatter",
        )
    ],
    samples=[
        case(
            past_cache=(2, 3, 5, 4),
            update=(2, 3, 2, 4),
            write_indices=run([1, 3], np.int64),
            opset=24,
        ),
        case(
            past_cache=(2, 5, 4),
            update=(2, 3, 4),
            write_indices=run([1, 4], np.int64),
            mode="circular",
            opset=24,
        ),
        case(past_cache=(2, 3, 4), update=(2, 3, 1), axis=2, opset=24),
    ],
    refuses=[case(past_cache=(2, 5, 4), update=(2, 3, 4), mode="square", opset=24)],
)
def tensor_scatter(
    g: Builder,
    past: Value,
    update: Value,
    starts: Value | None = None,
    /,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Value:
    """Rows are replaced, from a place on that each example has."""
    axis = counted(axis, past.rank)
    rest = [
        (a, b) for k, (a, b) in enumerate(zip(past.shape, update.shape, strict=True)) if k != axis
    ]
    if any(a != b for a, b in rest) or update.shape[axis] > past.shape[axis]:
        raise InvalidModel(f"{update.type} does not fit into a cache {past.type} along axis {axis}")
    order = [0, axis, *(k for k in range(1, past.rank) if k != axis)]
    table, new = (g.transpose(x, order) for x in (past, update))
    batch, size, count = table.shape[0], table.shape[1], new.shape[1]
    places = g.const(np.tile(np.arange(count, dtype=np.int32), (batch, 1)))
    if starts is not None:
        places = g.ADD(g.reshape(g.cast(starts, INT32), (batch, 1)), places)
    if mode == "circular":
        places = g.FLOOR_MOD(places, size)
    base = g.const(np.arange(batch, dtype=np.int32).reshape(-1, 1) * size)
    flat = g.reshape(g.ADD(places, base), (batch * count,))
    rows = g.reshape(table, (batch * size, *table.shape[2:]))
    found = replace_rows(g, rows, flat, g.reshape(new, (batch * count, *new.shape[2:])))
    return g.transpose(g.reshape(found, table.shape), np.argsort(order).tolist())


LARGEST_DETERMINANT = 3


@lower(
    "Det",
    needs=[
        need(
            lambda x: x.shape[-1] <= LARGEST_DETERMINANT,
            "a matrix must have at most three rows; got {x.type}",
            possible=True,
        )
    ],
    samples=[case(x=(2, 3, 3)), case(x=(5, 2, 2)), case(x=(1, 1)), case(x=(3, 3))],
    refuses=[case(x=(2, 4, 4))],
)
def determinant(g: Builder, x: Value, /, *, out: list[TensorType]) -> Value:
    """Rows times the determinants of what is left without them."""
    count = x.shape[-1]
    flat = g.reshape(x, (math.prod(x.shape[:-2]), count, count))
    entries = [
        [part(g, part(g, flat, 1, row, 1), 2, column, 1) for column in range(count)]
        for row in range(count)
    ]
    return g.reshape(_minor(g, entries, tuple(range(count))), out[0].dims)


def _minor(g: Builder, entries: list[list[Value]], columns: tuple[int, ...]) -> Value:
    """The determinant of the last rows at some columns, by its first row."""
    row = len(entries) - len(columns)
    if len(columns) == 1:
        return entries[row][columns[0]]
    first, *others = (
        g.MUL(entries[row][column], _minor(g, entries, (*columns[:k], *columns[k + 1 :])))
        for k, column in enumerate(columns)
    )
    for k, term in enumerate(others):
        first = g.ADD(first, term) if k % 2 else g.SUB(first, term)
    return first
