"""Where our file is slower: both sides operator by operator, summed by category of work."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from results import OURS, REFERENCE, RIVAL, Loss, Model, Share
from straightway.flow.candidate import describe, feeds
from straightway.flow.inputs import Arrays
from straightway.run import litert, ort
from straightway.run.process import Child
from straightway.trace.join import by_category
from straightway.trace.schema import Trace

MOST = 8
RUNS = 30
# What onnxruntime's layout pass adds to the name of a result (core/optimizer/nchwc_transformer.cc).
BLOCKED_SUFFIX = "_nchwc"


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
    return litert.measure(child, path, feeds(path, describe(path), arrays), runs=RUNS)


def _loss(other: str, ours: Trace, theirs: Trace) -> Loss:
    mine, its = by_category(ours), by_category(theirs)
    shares = [
        Share(name=name, ours_ns=mine.get(name, 0.0), other_ns=its.get(name, 0.0))
        for name in dict.fromkeys((*mine, *its))
    ]
    return Loss(
        other=other, categories=_worst_first(shares), operators=_operators(ours, theirs)[:MOST]
    )


def _operators(ours: Trace, theirs: Trace) -> tuple[Share, ...]:
    """Operators of both sides, joined where they make the same value of the model."""
    mine, its = _by_result(ours), _by_result(theirs)
    return _worst_first(
        Share(name=name, ours_ns=mine.get(name, 0.0), other_ns=its.get(name, 0.0))
        for name in dict.fromkeys((*mine, *its))
    )


def _by_result(trace: Trace) -> dict[str, float]:
    """Nanoseconds by the name of the value that is made; onnxruntime's node names tell it, too."""
    results = {op.index: op.name for op in trace.ops}
    found: dict[str, float] = defaultdict(float)
    for event in trace.events:
        name = results.get(event.op_index, event.name) if event.op_index is not None else event.name
        found[name.removesuffix(BLOCKED_SUFFIX)] += event.median_ns
    return found


def _worst_first(shares: Iterable[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda share: share.other_ns - share.ours_ns))
