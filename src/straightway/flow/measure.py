"""Where the time goes: the written file operator by operator, and against onnxruntime."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from straightway.errors import ToolFailed
from straightway.flow.convert import Conversion, stored_inputs
from straightway.flow.progress import Step, quiet
from straightway.run import litert, peak
from straightway.run.process import Child
from straightway.run.race import Entrant, race
from straightway.trace.schema import Trace
from straightway.trace.work import Peak

RUNS = 40
WARMUP = 5
# fewer rounds for slow models: a measurement takes a few seconds at most
BUDGET_NS = 3_000_000_000
FEWEST_ROUNDS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A trace of the file, whole-model CPU times taken interleaved, and the machine's peaks.

    `ours_ns` and `reference_ns` hold one sample a round; `reference_ns` is onnxruntime's.
    """

    trace: Trace
    ours_ns: tuple[int, ...]
    reference_ns: tuple[int, ...]
    peak: Peak | None
    notes: tuple[str, ...] = ()


def measure(conversion: Conversion, file: Path, *, step: Step = quiet) -> Measurement:
    """Profile `file`, race it against onnxruntime on the model it came from, and find the peaks."""
    stored = stored_inputs(conversion.translation, conversion.arrays)
    entrants = [
        Entrant(engine="litert", path=file, inputs=stored),
        Entrant(engine="onnxruntime", path=conversion.model, inputs=conversion.arrays),
    ]
    notes: list[str] = []
    with Child() as child:
        step("racing onnxruntime")
        first = child.call(race(entrants, rounds=2))
        rounds = _rounds(sum(samples[-1] for samples in first))
        ours, reference = child.call(race(entrants, rounds=rounds))
    with Child(measure=True) as child:
        step("measuring every operator")
        trace = litert.measure(
            child, file, list(stored.values()), runs=min(RUNS, rounds), warmup=WARMUP
        )
        step("measuring the machine's peak")
        found = _peak(child, notes)
    trace = replace(trace, run=replace(trace.run, sizes=conversion.sizes))
    return Measurement(
        trace=trace, ours_ns=ours, reference_ns=reference, peak=found, notes=tuple(notes)
    )


def _rounds(once_ns: int) -> int:
    return max(FEWEST_ROUNDS, min(RUNS, BUDGET_NS // max(2 * once_ns, 1)))


def _peak(child: Child, notes: list[str]) -> Peak | None:
    try:
        return child.call(peak.measure())
    except ToolFailed as error:
        notes.append(f"the machine's peak could not be measured: {error}")
        return None


def node_names(conversion: Conversion) -> Mapping[int, tuple[str, ...]]:
    """Which of the model's nodes each written op computes, by op index."""
    return {
        index: tuple(sorted(source.node for source in node.origins))
        for node, index in conversion.translation.written.operators.items()
    }
