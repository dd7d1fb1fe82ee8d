"""Where our file is slower: both sides operator by operator, summed by category of work."""

from collections.abc import Mapping
from pathlib import Path

from straightway.tflite.read import read as read_tflite

import arrangement
from results import OURS, REFERENCE, RIVAL, Loss, Model, Share
from straightway.flow.inputs import Arrays
from straightway.run import litert, ort
from straightway.run.process import Child
from straightway.trace.join import by_category
from straightway.trace.schema import Trace

SLOWEST = 6
RUNS = 30


def explain(
    model: Model, path: Path, files: Mapping[str, Path], arrays: Arrays
) -> tuple[Loss, ...]:
    """One account for each other that is faster beyond noise."""
    found = []
    for other in (REFERENCE, RIVAL):
        ratio = model.ratio(OURS, other)
        if ratio is not None and ratio.low > 1.0:
            with Child(measure=True) as child:
                ours = _profile(child, files[OURS], arrays)
                theirs = _profile(child, files.get(other, path), arrays)
            found.append(_loss(other, ours, theirs))
    return tuple(found)


def _profile(child: Child, path: Path, arrays: Arrays) -> Trace:
    if path.suffix == ".onnx":
        return child.call(ort.profile(path, arrays, runs=RUNS))
    stored = arrangement.stored(read_tflite(path), arrays)
    return litert.measure(child, path, stored, runs=RUNS)


def _loss(other: str, ours: Trace, theirs: Trace) -> Loss:
    mine, its = by_category(ours), by_category(theirs)
    shares = [
        Share(category=name, ours_ns=mine.get(name, 0.0), other_ns=its.get(name, 0.0))
        for name in dict.fromkeys((*mine, *its))
    ]
    shares.sort(key=lambda share: share.other_ns - share.ours_ns)
    return Loss(
        other=other,
        shares=tuple(shares),
        ours_slowest=_slowest(ours),
        other_slowest=_slowest(theirs),
    )


def _slowest(trace: Trace) -> tuple[tuple[str, float], ...]:
    """Kind and name of the slowest operators, with their nanoseconds."""
    events = sorted(trace.events, key=lambda event: -event.median_ns)[:SLOWEST]
    return tuple((f"{event.kind} {event.name}".strip(), event.median_ns) for event in events)
