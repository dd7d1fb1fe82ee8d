"""Medians and spreads of timing samples: robust, because a busy machine only ever adds time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How two measurements taken in turns compare: the median of the ratios of neighbours.

    `low` and `high` bound it with a confidence of 95 %, by resampling the pairs.
    """

    median: float
    low: float
    high: float
    pairs: int

    @property
    def is_clear(self) -> bool:
        """Whether there is a difference at all: the interval does not hold 1."""
        return self.low > 1 or self.high < 1

    @property
    def is_faster(self) -> bool:
        """Whether the first is faster beyond noise."""
        return self.high < 1

    def __str__(self) -> str:
        text = f"{self.median:.3f}× ({self.low:.3f} to {self.high:.3f})"
        return text if self.is_clear else f"{text}: no difference beyond noise"


RESAMPLES = 2000
_CONFIDENCE = 0.95


def paired_ratio(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Compare samples taken in turns, pair by pair; below 1 the first is faster.

    A bootstrap of the median (Efron 1979) with a fixed seed. Raises ValueError without pairs.
    """
    ratios = [a / b for a, b in zip(first, second, strict=True) if b > 0]
    return _bootstrapped(median(ratios), len(ratios), lambda pick: median(pick(ratios)))


def ratio_of_medians(first: Sequence[float], second: Sequence[float]) -> Ratio:
    """Compare samples of two runs that were not taken in turns: each is resampled on its own.

    What changed on the machine between the two runs is not in the interval. Raises ValueError where
    one has no samples, or the second's median is not above 0.
    """
    below = median(second)
    if below <= 0:
        raise ValueError(f"a ratio needs a second time above 0; got {below}")
    return _bootstrapped(
        median(first) / below,
        min(len(first), len(second)),
        lambda pick: median(pick(first)) / max(median(pick(second)), 1e-9),
    )


def _bootstrapped(
    found: float, pairs: int, again: "Callable[[Callable[[Sequence[float]], list[float]]], float]"
) -> Ratio:
    generator = Random(0)  # noqa: S311 - resampling, no secret

    def pick(samples: Sequence[float]) -> list[float]:
        return generator.choices(samples, k=len(samples))

    estimates = [again(pick) for _ in range(RESAMPLES)]
    tail = (1 - _CONFIDENCE) / 2
    return Ratio(
        median=found, low=quantile(estimates, tail), high=quantile(estimates, 1 - tail), pairs=pairs
    )
