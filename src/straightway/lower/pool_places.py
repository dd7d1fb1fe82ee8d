"""Where the greatest elements of windows stand, which TFLite's pools do not say."""

import math
from itertools import product

import numpy as np

from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.integers import INT64
from straightway.lower.selection import every
from straightway.lower.window import Span, Spans, is_open


def greatest_places(g: Builder, x: Value, spans: Spans, *, by_column: bool) -> Value:
    """The first place of each window's greatest in the whole tensor: taps are compared one by one.

    X: [N, C, spatial…], floats. `by_column`: the last spatial dimension counts the most.
    """
    if is_open(g):
        g.need_fixed_size("where the greatest elements stand")
    sizes, dims = x.shape[2:], range(len(spans))
    pairs = [(s.before, max(s.lacking, 0)) for s in spans]
    x = g.pad(x, [(0, 0), (0, 0), *pairs], -math.inf)
    order = dims[::-1] if by_column else dims
    strides = {d: math.prod(sizes[other] for other in order[k + 1 :]) for k, d in enumerate(order)}
    best, places = x, x
    for number, taps in enumerate(product(*(range(s.kernel) for s in spans))):
        seen = x
        for d, tap in enumerate(taps):
            seen = every(g, seen, d + 2, spans[d].places(tap))
        here = g.const(sum(_along(spans, d, tap) * strides[d] for d, tap in enumerate(taps)), INT64)
        if not number:
            best, places = seen, here
            continue
        more = g.GREATER(seen, best)
        best, places = g.MAXIMUM(seen, best), g.SELECT_V2(more, here, places)
    first = np.arange(math.prod(x.shape[:2])) * math.prod(sizes)
    return g.ADD(places, g.const(first.reshape(*x.shape[:2], *[1] * len(sizes)), INT64))


def _along(spans: Spans, d: int, tap: int) -> np.ndarray:
    """Where one tap of every window stands along a dimension, beside the others."""
    span: Span = spans[d]
    found = np.array(span.places(tap)) - span.before
    return found.reshape(-1, *[1] * (len(spans) - 1 - d))
