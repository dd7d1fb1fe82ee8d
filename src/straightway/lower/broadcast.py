"""Broadcasting: elements repeated, and how old opsets align operands."""

import math

import numpy as np

from straightway.ir import Value
from straightway.lower.builder import Builder

# more ones would make the file larger than the time they save is worth: 1 MB
MOST_ONES = 2**18
FLOAT32 = np.dtype(np.float32)


def fits(x: Value, whole: Value) -> bool:
    """Whether `x` broadcasts to the shape of another."""
    pairs = zip(x.shape[::-1], whole.shape[::-1], strict=False)
    return x.rank <= whole.rank and all(size in (1, other) for size, other in pairs)


def spread(g: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    """Repeat elements so that `x` has a shape that it broadcasts to.

    XNNPACK's delegate has no BROADCAST_TO; a product with ones gives the same float32, bit by bit.
    """
    if x.shape == shape:
        return x
    if g.keeps or x.dtype != FLOAT32 or math.prod(shape) > MOST_ONES:
        return g.BROADCAST_TO(x, shape=shape)
    old = (1,) * (len(shape) - x.rank) + x.shape
    ones = tuple(1 if a == b else b for a, b in zip(old, shape, strict=True))
    return g.MUL(x, g.const(np.ones(ones, np.float32)))


def aligned(g: Builder, a: Value, b: Value, axis: int | None, broadcast: int) -> Value:
    """Give `b` the dimensions that opsets before 7 describe by `axis`: where it starts in `a`."""
    if not broadcast or axis is None:
        return b
    start = axis % a.rank
    return g.reshape(b, (*b.shape, *[1] * (a.rank - start - b.rank)))
