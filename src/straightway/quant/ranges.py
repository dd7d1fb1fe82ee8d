"""The range that eight bits cover, from what was observed: all of it, or the part that matters.

"minmax" covers every value seen; "percentile" leaves out the outermost share of them on each side;
"mse" takes the range with the least mean squared error of rounding and clipping; "entropy" the one
whose rounded distribution tells most of the original (least Kullback-Leibler divergence, as in
"8-bit inference with TensorRT", S. Migacz, GTC 2017).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from straightway.errors import InvalidRequest
from straightway.run.observe import Observed

Range = tuple[float, float]
Floats = NDArray[np.float64]
LEVELS = 256
EVERYTHING: Range = (-math.inf, math.inf)
PERCENTILE = 99.99
# The ranges that "mse" tries: so many shares of each side, from this one up, closer where small: one
# stray value may be hundreds of times as far out as the rest.
MSE_STEPS, LEAST_SHARE = 96, 2.0**-10
ENTROPY_STEPS = 96


def range_of(
    seen: Observed,
    method: str = "minmax",
    *,
    percentile: float = PERCENTILE,
    within: Range = EVERYTHING,
) -> Range:
    """The lowest and highest value to represent, always within what was seen, always with zero.

    What lies outside `within` makes no difference to anyone, and counts as its end.

    Raises InvalidRequest for an unknown method or a percentile that is none. A tensor of which
    nothing finite was seen has the range (0, 0).
    """
    if method not in METHODS:
        raise InvalidRequest(f"methods are {', '.join(METHODS)}; got {method!r}")
    if not 50 < percentile <= 100:
        raise InvalidRequest(f"a percentile is above 50 and at most 100; got {percentile}")
    if not seen.elements:
        return 0.0, 0.0
    seen = _cut(seen, within)
    low, high = METHODS[method](seen, percentile)
    return min(max(low, seen.low), 0.0), max(min(high, seen.high), 0.0)


def _cut(seen: Observed, within: Range) -> Observed:
    """What was seen, had it been clipped."""
    low, high = max(seen.low, within[0]), min(seen.high, within[1])
    if (low, high) == (seen.low, seen.high) or low >= high:
        return seen
    histogram, middles = seen.histogram.copy(), _middles(seen)
    first, last = np.searchsorted(middles, (low, high)).clip(0, len(middles) - 1)
    below, above = histogram[:first].sum(), histogram[last + 1 :].sum()
    histogram[:first], histogram[last + 1 :] = 0, 0
    histogram[first] += below
    histogram[last] += above
    return replace(seen, low=low, high=high, histogram=histogram)


def _extremes(seen: Observed, _: float) -> Range:
    return seen.low, seen.high


def _percentile(seen: Observed, percentile: float) -> Range:
    """Leave out a share on each side, rounded up to whole elements: a stray one is always out."""
    edges, counts = seen.edges(), seen.histogram.astype(np.float64)
    out = np.ceil((1 - percentile / 100) * counts.sum() - 1e-6)
    return _passed(edges, counts, out), -_passed(-edges[::-1], counts[::-1], out)


def _passed(edges: Floats, counts: Floats, out: float) -> float:
    """Where so many elements lie below: within a bin as if they were spread evenly."""
    below = np.concatenate([[0.0], np.cumsum(counts)])
    last = min(int(np.searchsorted(below, out, "right")) - 1, len(counts) - 1)
    inside = (out - below[last]) / max(counts[last], 1.0)
    return float(edges[last] + inside * (edges[last + 1] - edges[last]))


def _middles(seen: Observed) -> Floats:
    edges = seen.edges()
    return (edges[1:] + edges[:-1]) / 2


def _least_error(seen: Observed, _: float) -> Range:
    """Try shares of both sides; the error of a range follows from running sums."""
    middles, counts = _middles(seen), seen.histogram.astype(np.float64)
    shares = np.geomspace(LEAST_SHARE, 1, MSE_STEPS)
    lows, highs = np.unique(shares * min(seen.low, 0)), np.unique(shares * max(seen.high, 0))
    below = _clipped(middles, counts, lows)
    above = _clipped(-middles[::-1], counts[::-1], -highs)
    steps = (highs[None, :] - lows[:, None]) / (LEVELS - 1)
    errors = below[:, None] + above[None, :] + steps**2 / 12 * counts.sum()
    first, second = np.unravel_index(np.argmin(errors), errors.shape)
    return float(lows[first]), float(highs[second])


def _clipped(values: Floats, counts: Floats, bounds: Floats) -> Floats:
    """For each bound the sum of squares by which values lie below it; `values` ascend."""
    ends = np.searchsorted(values, bounds)
    zeroth, first, second = (
        np.concatenate([[0.0], np.cumsum(counts * values**power)]) for power in range(3)
    )
    found: Floats = bounds**2 * zeroth[ends] - 2 * bounds * first[ends] + second[ends]
    return found


def _entropy(seen: Observed, _: float) -> Range:
    """Try windows around zero, wider and wider."""
    counts = seen.histogram.astype(np.float64)
    half = len(counts) // 2
    # zero is exact whatever the range; all the zeros of a ReLU would look like detail that is lost
    counts[half] = min(counts[half], counts[half + 1])
    reach = int(np.ceil(max(-seen.low, seen.high) / seen.span * half))
    if reach == 0:  # nothing but zeros
        return seen.low, seen.high
    widths = np.unique(np.linspace(min(LEVELS // 2, reach), reach, ENTROPY_STEPS).astype(int))
    first = half if seen.low >= 0 else 0
    last = half if seen.high <= 0 else len(counts)
    best = min(
        widths,
        key=lambda width: _divergence(counts, max(half - width, first), min(half + width, last)),
    )
    return -seen.span * best / half, seen.span * best / half


def _divergence(counts: Floats, start: int, stop: int) -> float:
    """How much is lost where all outside goes to the outermost bins and the rest has 256 levels."""
    inside = counts[start:stop].copy()
    exact = inside.copy()
    exact[0] += counts[:start].sum()
    exact[-1] += counts[stop:].sum()
    owner = np.arange(len(inside)) * LEVELS // max(len(inside), LEVELS)
    filled = inside > 0
    sums = np.bincount(owner, inside, LEVELS)
    places = np.bincount(owner, filled, LEVELS)
    rounded = np.where(filled, (sums / np.maximum(places, 1))[owner], 0.0)
    known = (exact > 0) & (rounded > 0)
    lost = exact[(exact > 0) & ~known].sum() / exact.sum()
    p, q = exact[known] / exact.sum(), rounded[known] / max(rounded.sum(), 1e-30)
    return float((p * np.log(p / q)).sum() + lost * np.log(len(counts)))


METHODS: Mapping[str, Callable[[Observed, float], Range]] = {
    "minmax": _extremes,
    "percentile": _percentile,
    "mse": _least_error,
    "entropy": _entropy,
}
