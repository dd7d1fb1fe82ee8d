"""Requests for the machine's peak: what a roofline compares an operator with."""

from typing import Any

from straightway.run.process import Call
from straightway.run.wire import Array
from straightway.trace.work import Peak


def measure() -> Call[Peak]:
    """Measure single-threaded peaks in the child, fresh: it takes well under a second."""
    return Call(verb="peak", subject="the machine's peak", decode=_peak)


def _peak(answer: dict[str, Any], _arrays: list[Array]) -> Peak:
    return Peak(
        gmacs=answer["gmacs"],
        bandwidths=tuple((int(size), float(rate)) for size, rate in answer["bandwidths"]),
        method=answer["method"],
    )
