"""Probabilities of classes from those of each pair, by Wu, Lin and Weng's second method.

Source: onnxruntime/core/providers/cpu/ml/ml_common.h, multiclass_probability. It stops when near enough,
so that the turns are part of the result: a WHILE, whose rows that are near enough stay as they are.
"""

from collections.abc import Sequence

import numpy as np

from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.control_graphs import INT32, repeated
from straightway.lower.selection import part

FLOAT = np.dtype(np.float32)
MOST_TURNS = 100
# how near is enough, over the number of classes
NEAR = 0.005
# no probability of a pair is nearer to 0 or 1
LEAST = 1e-7


def coupled(g: Builder, wins: Value, pairs: Sequence[tuple[int, int]], count: int) -> Value:
    """[rows, pairs], the probability that the first of each wins, to [rows, classes]."""
    wins = g.MINIMUM(g.MAXIMUM(wins, LEAST), FLOAT.type(1) - FLOAT.type(LEAST))
    form = _form(g, wins, pairs, count)
    rows = wins.shape[0]
    start = g.ADD(
        g.MUL(part(g, form, 2, 0, 1), 0.0), g.const(np.full((1, count, 1), 1 / count), FLOAT)
    )

    def more(b: Builder, now: list[Value], same: list[Value]) -> Value:
        far = _is_far(b, *_gradient(b, same[0], now[1]), NEAR / count)
        some = b.REDUCE_ANY(far, axes=(0, 1, 2), keep_dims=False)
        return b.LOGICAL_AND(some, b.LESS(now[0], MOST_TURNS))

    def turn(b: Builder, now: list[Value], same: list[Value]) -> list[Value]:
        return [b.ADD(now[0], 1), _turn(b, same[0], now[1], NEAR / count)]

    found = repeated(g, [g.const(0, INT32), start], [form], more, turn)[1]
    return g.reshape(found, (rows, count))


def _form(g: Builder, wins: Value, pairs: Sequence[tuple[int, int]], count: int) -> Value:
    """The quadratic form that the probabilities make least: [rows, classes, classes]."""
    place = {pair: k for k, pair in enumerate(pairs)}
    both = g.CONCATENATION(wins, g.SUB(1.0, wins), axis=1)  # of (i, j) and, behind them, of (j, i)
    squares = np.zeros((count, 2 * len(pairs)), FLOAT)
    ahead, behind = np.zeros((2, count * count), np.int32)
    off = np.zeros(count * count, FLOAT)
    for (i, j), k in place.items():
        squares[i, k + len(pairs)] = squares[j, k] = 1
        for a, b in ((i, j), (j, i)):
            ahead[a * count + b], behind[a * count + b] = k, k + len(pairs)
            off[a * count + b] = -1
    own = g.FULLY_CONNECTED(g.SQUARE(both), g.const(squares), None, axis=1)
    rows = wins.shape[0]
    eye = g.MUL(g.reshape(own, (rows, count, 1)), g.const(np.eye(count, dtype=FLOAT)[None]))
    products = g.MUL(
        g.GATHER(both, g.const(ahead), axis=1), g.GATHER(both, g.const(behind), axis=1)
    )
    rest = g.MUL(products, g.const(off[None]))
    return g.ADD(eye, g.reshape(rest, (rows, count, count)))


def _gradient(g: Builder, form: Value, chances: Value) -> tuple[Value, Value]:
    """The form times the probabilities, [rows, classes, 1], and the same once more, [rows, 1, 1]."""
    shape = chances.shape
    across = g.reshape(chances, (shape[0], 1, shape[1]))
    once = g.SUM(g.MUL(form, across), axes=(2,), keep_dims=True)
    return once, g.SUM(g.MUL(chances, once), axes=(1,), keep_dims=True)


def _is_far(g: Builder, once: Value, twice: Value, near: float) -> Value:
    """Which rows, [rows, 1, 1], are not near enough."""
    error = g.REDUCE_MAX(g.ABS(g.SUB(once, twice)), axes=(1,), keep_dims=True)
    return g.GREATER_EQUAL(error, near)


def _turn(g: Builder, form: Value, chances: Value, near: float) -> Value:
    """One class after the other takes what is its best beside the others."""
    once, twice = _gradient(g, form, chances)
    far = _is_far(g, once, twice, near)
    now = chances
    for i in range(chances.shape[1]):
        row = part(g, form, 2, i, 1)  # the form is symmetric
        own = part(g, row, 1, i, 1)
        here = part(g, once, 1, i, 1)
        step = g.DIV(g.SUB(twice, here), own)
        whole = g.ADD(step, 1.0)
        change = g.MUL(step, g.ADD(g.MUL(step, own), g.MUL(here, 2.0)))
        twice = g.DIV(g.DIV(g.ADD(twice, change), whole), whole)
        once = g.DIV(g.ADD(once, g.MUL(row, step)), whole)
        mark = g.const(np.eye(chances.shape[1], dtype=FLOAT)[None, :, i : i + 1])
        now = g.DIV(g.ADD(now, g.MUL(step, mark)), whole)
    return g.SELECT_V2(far, now, chances)
