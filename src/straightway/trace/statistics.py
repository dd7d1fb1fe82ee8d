"""Medians and spreads of timing samples: robust, because a busy machine only ever adds time."""

from collections.abc import Sequence
from dataclasses import dataclass


def quantile(samples: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the samples lie, linear between two samples.

    Raises ValueError without samples: nothing was measured.
    """
    if not samples:
        raise ValueError("a quantile needs at least one sample; got none")
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(samples: Sequence[float]) -> float:
    """The middle sample."""
    return quantile(samples, 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What the samples of one quantity say: their middle and the range of the inner 80 %."""

    median: float
    p10: float
    p90: float
    minimum: float
    samples: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Spread":
        """Summarise at least one sample."""
        return cls(
            median=median(samples),
            p10=quantile(samples, 0.1),
            p90=quantile(samples, 0.9),
            minimum=min(samples),
            samples=len(samples),
        )
