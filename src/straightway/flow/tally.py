"""Signal against error of one tensor over many samples: whole, by channel, cut off, counted in bins."""

from dataclasses import dataclass, field

import numpy as np

from straightway.quant.scheme import Scheme

# beyond, a difference is nothing but the last bits of floats
MOST_DB = 150.0
BINS = 48
# of a larger tensor every so-manieth element is counted in bins
MOST_COUNTED = 2**15


def decibels(signal: float, error: float) -> float:
    """Signal to error, within ± `MOST_DB`."""
    if error == 0:
        return MOST_DB
    if signal == 0:
        return -MOST_DB
    return min(10 * float(np.log10(signal / error)), MOST_DB)


def nearness(want: np.ndarray, got: np.ndarray) -> float:
    """Signal to error in decibels, of what is finite on both sides."""
    a, b = (np.asarray(v, np.float64) for v in (want, got))
    both = np.isfinite(a) & np.isfinite(b)
    return decibels(float((a[both] ** 2).sum()), float(((a - b)[both] ** 2).sum()))


def relative(sqnr_db: float) -> float:
    """The root mean square of the error over that of the signal, of decibels."""
    return 0.0 if sqnr_db >= MOST_DB else float(10 ** (-sqnr_db / 20))


@dataclass(slots=True, kw_only=True)
class Tally:
    """Sums of squares of a signal and of its error, for each channel along `axis` if there is one.

    `scheme` is that by which the signal is stored; `outside` counts elements that it cuts off. `before`
    and `after` count elements of the first sample in bins of equal width between `ends`.
    """

    axis: int | None = None
    scheme: Scheme | None = None
    worst: float = 0.0
    elements: int = 0
    outside: int = 0
    signals: np.ndarray = field(default_factory=lambda: np.zeros(1))
    errors: np.ndarray = field(default_factory=lambda: np.zeros(1))
    ends: tuple[float, float] = (0.0, 0.0)
    before: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    after: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    dbs: list[float] = field(default_factory=list)

    def add(self, want: np.ndarray, got: np.ndarray) -> None:
        """Compare one more array; what is not finite on either side is left out."""
        a, b = (np.asarray(v, np.float64) for v in (want, got))
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            both = np.isfinite(a) & np.isfinite(b)
            a, b = np.where(both, a, 0.0), np.where(both, b, 0.0)
        if not self.before.size and a.size:
            self.count(a, b)
        if self.scheme is not None:
            self.outside += self.cut_off(a)
        apart = np.abs(a - b)
        self.elements += a.size
        self.worst = max(self.worst, float(apart.max(initial=0.0)))
        axis = self.axis if self.axis is not None and self.axis < a.ndim else None
        others = tuple(k for k in range(a.ndim) if k != axis) if axis is not None else None
        signal, error = (np.atleast_1d((v * v).sum(axis=others)) for v in (a, apart))
        self.signals = self.signals + signal if len(self.signals) == len(signal) else signal
        self.errors = self.errors + error if len(self.errors) == len(error) else error
        self.dbs.append(decibels(float(signal.sum()), float(error.sum())))

    def cut_off(self, array: np.ndarray) -> int:
        """How many elements lie more than half a step outside of what the scheme holds."""
        if self.scheme is None:
            return 0
        low, high = ((e - self.scheme.zero_point) * self.scheme.scale for e in self.scheme.limits)
        half = self.scheme.scale / 2
        return int(((array < low - half) | (array > high + half)).sum())

    def count(self, want: np.ndarray, got: np.ndarray) -> None:
        """Count elements of both in the same bins."""
        step = -(-want.size // MOST_COUNTED)
        a, b = (v.reshape(-1)[::step] for v in (want, got))
        self.ends = (float(min(a.min(), b.min())), float(max(a.max(), b.max())))
        self.before, self.after = (np.histogram(v, BINS, self.ends)[0] for v in (a, b))

    @property
    def sqnr_db(self) -> float:
        """Signal to error, in decibels."""
        return decibels(float(self.signals.sum()), float(self.errors.sum()))

    @property
    def saturated(self) -> float | None:
        """The share of elements that the scheme cuts off; None without one."""
        return None if self.scheme is None else self.outside / max(self.elements, 1)

    @property
    def channels_db(self) -> tuple[float, ...]:
        """Signal to error of each channel that holds a signal at all, else `MOST_DB`; none without axis."""
        if self.axis is None or len(self.signals) < 2:
            return ()
        pairs = zip(self.signals, self.errors, strict=True)
        return tuple(decibels(float(s), float(e)) if s else MOST_DB for s, e in pairs)
