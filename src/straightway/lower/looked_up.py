"""Slices and pads whose amounts come at run time: the result's size is known, its elements are looked up."""

from collections.abc import Callable
from typing import Any

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.integers import INT32, INT64
from straightway.lower.selection import part

Axes = tuple[int, ...]
Given = Value | Axes | int | None
"""Whole numbers from an attribute or an operand, known or not."""


def known_ints(given: Given) -> Axes | None:
    """The numbers, none where none are given; None where they come at run time."""
    if isinstance(given, Value):
        return None if given.const is None else tuple(int(n) for n in given.const.reshape(-1))
    return () if given is None else tuple(int(n) for n in np.ravel(given))


def sliced_at_run_time(
    g: Builder, x: Value, given: tuple[Given, Given, Given], dims: Axes
) -> Value:
    """Look up every step-th element, as many as the result has; `given` are starts, axes and steps."""
    starts, axes, steps = given
    if 0 in dims:
        return g.const(np.zeros(dims, x.dtype))
    named = _named(axes, _count(starts), x.rank)
    first = _by_axis(g, starts, axes, x.rank, 0)
    step = _by_axis(g, steps, axes, x.rank, 1) if known_ints(steps) != () else None
    for axis in named:
        size = x.shape[axis]
        start = part(g, first, 0, axis, 1)
        start = g.SELECT_V2(g.LESS(start, 0), g.ADD(start, size), start)
        start = g.MINIMUM(g.MAXIMUM(start, 0), size - 1)
        ways: Value = g.const(np.arange(dims[axis]), INT64)
        ways = ways if step is None else g.MUL(part(g, step, 0, axis, 1), ways)
        x = g.GATHER(x, g.cast(g.ADD(start, ways), INT32), axis=axis)
    return x


def padded_at_run_time(
    g: Builder, x: Value, pads: tuple[Given, Given], dims: Axes, how: tuple[str, Any]
) -> Value:
    """Look up what lies where; `pads` are amounts and axes, `how` the mode and what fills."""
    amounts, axes = pads
    mode, fill = how
    half = _count(amounts) // 2
    before = _by_axis(g, part(g, _as_value(g, amounts), 0, 0, half), axes, x.rank, 0)
    inside = None
    for axis in _named(axes, half, x.rank):
        front = part(g, before, 0, axis, 1)
        grown = g.SUB(dims[axis] - x.shape[axis], front)  # behind
        cut = g.MAXIMUM(g.NEG(front), 0)
        size = g.SUB(g.SUB(x.shape[axis], cut), g.MAXIMUM(g.NEG(grown), 0))
        place = g.SUB(g.const(np.arange(dims[axis]), INT64), g.MAXIMUM(front, 0))
        if mode == "constant":
            shape = [1] * axis + [dims[axis]] + [1] * (x.rank - axis - 1)
            fits = g.LOGICAL_AND(g.GREATER_EQUAL(place, 0), g.LESS(place, size))
            fits = g.reshape(fits, shape)
            inside = fits if inside is None else g.LOGICAL_AND(inside, fits)
        found = g.ADD(PLACES[mode](g, place, size), cut)
        x = g.GATHER(x, g.cast(found, INT32), axis=axis)
    if inside is None:
        return x
    value = fill if isinstance(fill, Value) else g.const(fill, x.dtype)
    return g.SELECT_V2(inside, x, g.reshape(value, ()))


def _nearest(g: Builder, place: Value, size: Value) -> Value:
    return g.MINIMUM(g.MAXIMUM(place, 0), g.SUB(size, 1))


def _mirrored(g: Builder, place: Value, size: Value) -> Value:
    last = g.SUB(size, 1)
    turn = g.FLOOR_MOD(place, g.MAXIMUM(g.MUL(last, 2), 1))
    away = g.SUB(last, turn)
    return g.SUB(last, g.MAXIMUM(away, g.NEG(away)))


# where the elements beyond the ends come from
PLACES: dict[str, Callable[[Builder, Value, Value], Value]] = {
    "constant": _nearest,
    "edge": _nearest,
    "reflect": _mirrored,
    "wrap": lambda g, place, size: g.FLOOR_MOD(place, size),
}


def _as_value(g: Builder, given: Given) -> Value:
    return given if isinstance(given, Value) else g.const(known_ints(given) or (), INT64)


def _count(given: Given) -> int:
    if isinstance(given, Value):
        return int(np.prod(given.shape))
    return len(known_ints(given) or ())


def _named(axes: Given, count: int, rank: int) -> Axes:
    """The axes that are named: any, where they come at run time."""
    known = known_ints(axes)
    if known is None:
        return tuple(range(rank))
    if count > rank or (known and len(known) != count):
        raise InvalidModel(f"{count} amounts for {len(known) or rank} dimensions")
    return tuple(counted(axis, rank) for axis in known) or tuple(range(count))


def _by_axis(g: Builder, given: Given, axes: Given, rank: int, default: int) -> Value:
    """The numbers in the order of the axes, int64 [rank]; `default` where none is given."""
    count = _count(given)
    numbers = _as_value(g, given)
    numbers = g.reshape(g.cast(numbers, INT64), (count, 1))
    if known_ints(axes) is not None:
        named = np.array(_named(axes, count, rank))
        mask = (named[:, None] == np.arange(rank)).astype(np.int64)
        rest: Any = default * (1 - mask.sum(0))
        marks: Value = g.const(mask)
    else:
        places = g.FLOOR_MOD(g.reshape(g.cast(_as_value(g, axes), INT64), (count, 1)), rank)
        marks = g.cast(g.EQUAL(places, g.const(np.arange(rank), INT64)), INT64)
        rest = g.MUL(g.SUB(1, g.SUM(marks, axes=(0,), keep_dims=False)), default)
    own = g.SUM(g.MUL(numbers, marks), axes=(0,), keep_dims=False)
    return g.ADD(own, rest)
