"""Child side: what values a model's tensors take over many inputs, kept as it goes, in little memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from straightway.run import onnx_engine
from straightway.run.wire import Array

# A histogram of this many bins spans -span to span; the span doubles when a value lies outside.
BINS = 4096
# Of a larger tensor every so-manieth element is counted for all, each time others, and the extremes.
# The counting's arrays stay below what malloc would ask the system for anew each time (`run.process`).
MOST_COUNTED = 2**14


@dataclass(slots=True)
class Seen:
    """Running statistics of one tensor; extremes and their samples are of finite elements only."""

    low: float = np.inf
    high: float = -np.inf
    low_sample: int = -1
    high_sample: int = -1
    elements: int = 0
    not_finite: int = 0
    not_finite_sample: int = -1
    span: float = 0.0
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def add(self, array: Array, sample: int) -> None:
        """Take one more tensor into account."""
        values = np.asarray(array).reshape(-1)
        if values.dtype != np.float64:
            values = values.astype(np.float32, copy=False)
        if not values.size:
            return
        low, high = float(values.min()), float(values.max())
        if not (np.isfinite(low) and np.isfinite(high)):
            finite = values[np.isfinite(values)]
            if not self.not_finite:
                self.not_finite_sample = sample
            self.not_finite += values.size - finite.size
            if not finite.size:
                return
            values, low, high = finite, float(finite.min()), float(finite.max())
        if low < self.low:
            self.low, self.low_sample = low, sample
        if high > self.high:
            self.high, self.high_sample = high, sample
        self.elements += values.size
        self.widen(max(-low, high))
        self.count(values, sample)

    def widen(self, reach: float) -> None:
        """Let the histogram hold values up to `reach`: pairs of bins become one."""
        if not self.span:
            self.span = 2.0 ** np.ceil(np.log2(max(reach, 1e-30)))
        while reach > self.span:
            self.span *= 2
            pairs = self.histogram.reshape(-1, 2).sum(axis=1)
            self.histogram[:] = 0
            self.histogram[BINS // 4 : BINS // 4 + BINS // 2] = pairs

    def count(self, values: Array, sample: int) -> None:
        """Put values into their bins."""
        step = -(-values.size // MOST_COUNTED)
        self.histogram += step * self.bins(values[sample % step :: step])
        if step > 1:
            self.histogram += self.bins(np.array([values.min(), values.max()]))

    def bins(self, values: Array) -> NDArray[np.int64]:
        """How many values lie in each bin."""
        places = (values * (BINS / (2 * self.span)) + BINS / 2).astype(np.int32)
        np.clip(places, 0, BINS - 1, out=places)
        return np.bincount(places, minlength=BINS)


class _Kept:
    """The model under observation: a session and the statistics of each group of tensors."""

    path: str = ""
    sessions: dict[int, Any] = {}  # noqa: RUF012 - of the one process
    seen: dict[str, Seen] = {}  # noqa: RUF012 - as above


def forget() -> None:
    """Free what is kept."""
    _Kept.path, _Kept.sessions, _Kept.seen = "", {}, {}


def add(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Run one group's session on a sample, and take its tensors into account."""
    if params["path"] != _Kept.path or params["fresh"]:
        forget()
        _Kept.path = params["path"]
    group, names = params["group"], params["names"]
    if group not in _Kept.sessions:
        _Kept.sessions[group] = onnx_engine.open_session(params["path"], params["interior"])
    feeds = dict(zip(params["inputs"], arrays, strict=True))
    for name, array in zip(
        names, onnx_engine.outputs(_Kept.sessions[group], names, feeds), strict=True
    ):
        if np.asarray(array).dtype.kind == "f":
            _Kept.seen.setdefault(name, Seen()).add(array, params["sample"])
    return {}, []


def resume(
    params: Mapping[str, Any], arrays: Sequence[Array]
) -> tuple[dict[str, Any], list[Array]]:
    """Take over what was seen before: numbers by name, and a histogram each."""
    forget()
    _Kept.path = params["path"]
    pairs = zip(params["facts"].items(), arrays, strict=True)
    _Kept.seen = {name: Seen(**one, histogram=counts.copy()) for (name, one), counts in pairs}
    return {}, []


def result(_: Mapping[str, Any], __: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """All statistics so far: numbers by name, and a histogram each."""
    facts = {
        name: {
            "low": one.low,
            "high": one.high,
            "low_sample": one.low_sample,
            "high_sample": one.high_sample,
            "elements": one.elements,
            "not_finite": one.not_finite,
            "not_finite_sample": one.not_finite_sample,
            "span": one.span,
        }
        for name, one in _Kept.seen.items()
    }
    return {"facts": facts}, [one.histogram for one in _Kept.seen.values()]
