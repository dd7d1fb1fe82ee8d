"""Arguments that come at run time, of few possible values: all results, and a choice among them."""

from collections.abc import Callable, Sequence
from functools import reduce

from straightway.errors import InvalidModel
from straightway.ir import Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder


def by_axis(g: Builder, axis: Value, rank: int, result: Callable[[int], Value]) -> Value:
    """What `result` gives for an axis: for each one, where it comes at run time."""
    number = g.reshape(axis, ())
    if number.const is not None:
        return result(counted(int(number.const), rank))
    if not rank:
        raise InvalidModel("a tensor without dimensions has no axis")
    places = list(range(rank))
    return chosen(g, g.FLOOR_MOD(number, rank), places, [result(place) for place in places])


def chosen(g: Builder, number: Value, numbers: Sequence[int], results: Sequence[Value]) -> Value:
    """The result whose number is given; the last, where no other's is."""
    pairs = list(zip(numbers, results, strict=True))

    def select(rest: Value, pair: tuple[int, Value]) -> Value:
        return g.SELECT_V2(g.EQUAL(number, pair[0]), pair[1], rest)

    return reduce(select, reversed(pairs[:-1]), pairs[-1][1])
