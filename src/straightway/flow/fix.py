"""`fix`: rewrites of a PyTorch model, each held to what it promised, kept where it helps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from straightway.errors import Mismatch
from straightway.executorch.capture import capture
from straightway.executorch.exported import Exported, Recipe, lowered_again, reference_of
from straightway.executorch.model import Model, load
from straightway.executorch.precision import before_export
from straightway.executorch.rewrites.catalogue import REWRITES, named
from straightway.executorch.rewrites.scene import Change, Rewrite, changes_of
from straightway.executorch.tensors import array_of
from straightway.flow import files
from straightway.flow.export import (
    Numbers,
    calibration_of,
    compared,
    located,
    tensors_of,
    wanted,
)
from straightway.flow.export_request import ExportRequest, check
from straightway.flow.program import TraceRequest, map_path, settings_of, trace
from straightway.flow.turns import in_turns
from straightway.run.process import Child
from straightway.run.race import Entrant
from straightway.trace.join import by_category
from straightway.trace.schema import Trace
from straightway.trace.statistics import Ratio
from straightway.trace.taxonomy import UNACCOUNTED

TRACED_RUNS = 12
# Of a program and itself.
SAME = Ratio(median=1.0, low=1.0, high=1.0, pairs=0)
_OVERHEAD = ("data movement", "type conversion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """One rewrite: where it applies, what it promised and what it brought.

    `promise_ns` is what the default program spends at these places outside of the delegate or on
    moving and converting data: the most that can be saved. `result` is the time with all rewrites
    over the time with all but this one, in turns.
    """

    rewrite: Rewrite
    changes: tuple[Change, ...]
    promise_ns: float
    result: Ratio | None
    kept: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What `fix` did: the program before and after, their traces, and how they compare."""

    model: str
    path: Path
    before: Exported
    after: Exported
    applied: tuple[Applied, ...]
    ratio: Ratio
    before_trace: Trace
    after_trace: Trace
    numbers: Numbers


def fix(
    model: str | Model,
    output: str | Path,
    request: ExportRequest | None = None,
    *,
    rules: Sequence[str] = (),
) -> Fix:
    """Lower a model as it is and with rewrites, measure in turns, keep those that help.

    All that apply are tried together, since some help only beside others; then each is left out
    once, and stays out where the program is no slower without it. Raises Mismatch where the result
    computes other numbers, and what `export` raises.
    """
    asked, path = request or ExportRequest(), Path(output)
    check(asked, path)
    chosen = wanted(named(rules) if rules else REWRITES, asked)
    given = load(model) if isinstance(model, str) else model
    with Child(measure=True) as child:
        done = _fixed(_Bench(given, asked, child), given, path, chosen)
    if not done.numbers.equal:
        raise Mismatch(f"{given.name}: the rewritten program computes other numbers than the model")
    files.write(path, done.after.lowered.data)
    files.write(map_path(path), done.after.lowered.map.to_json().encode())
    return done


def _fixed(bench: "_Bench", given: Model, path: Path, chosen: Sequence[Rewrite]) -> Fix:
    """All of it but the files."""
    before = bench.lowered(())
    tried = bench.applicable(chosen)
    traced = bench.trace(before)
    applied = []
    for rewrite in tried:
        found = bench.judge(rewrite, tried)
        applied.append(replace(found, promise_ns=promise_ns(traced, found.changes)))
    kept = [one.rewrite for one in applied if one.kept]
    after = bench.lowered(kept)
    ratio = bench.race(after, before)
    if ratio.low > 1:  # together they hurt: nothing is better than something slow
        after, ratio = before, SAME
        applied = [replace(one, kept=False) for one in applied]
    return Fix(
        model=given.name,
        path=path,
        before=before,
        after=after,
        applied=tuple(applied),
        ratio=ratio,
        before_trace=traced,
        after_trace=traced if after is before else bench.trace(after),
        numbers=bench.compared(after),
    )


class _Bench:
    """Lowers one model by several recipes, each once, and races them, each pair once, in one process."""

    def __init__(self, model: Model, asked: ExportRequest, child: Child) -> None:
        self._asked, self._child = asked, child
        self._raced: dict[tuple[int, int], Ratio] = {}
        samples = calibration_of(model, asked)
        self._samples = list(tensors_of(samples)) if samples is not None else []
        self._model = before_export(model, asked.precision)
        self._captured = capture(self._model)
        self._reference = reference_of(model, self._captured, asked.precision)
        self._made: dict[tuple[str, ...], Exported] = {}

    def lowered(self, rewrites: Sequence[Rewrite]) -> Exported:
        """The program with these rewrites."""
        key = tuple(one.name for one in rewrites)
        if key not in self._made:
            self._asked.step(f"lowering with {', '.join(key) or 'no rewrite'}")
            recipe = Recipe(
                precision=self._asked.precision,
                rewrites=tuple(rewrites),
                without=self._asked.without,
                samples=self._samples,
            )
            self._made[key] = lowered_again(self._model, self._captured, recipe, self._reference)
        return self._made[key]

    def applicable(self, rewrites: Sequence[Rewrite]) -> list[Rewrite]:
        """Those that change anything, each after those before it."""
        names = {change.rewrite for change in changes_of(self._captured, rewrites)}
        return [one for one in rewrites if one.name in names]

    def judge(self, rewrite: Rewrite, tried: Sequence[Rewrite]) -> Applied:
        """All rewrites against all but this one."""
        whole = self.lowered(tried)
        changes = tuple(one for one in whole.changes if one.rewrite == rewrite.name)
        if len(tried) == 1:
            result = self.race(whole, self.lowered(()))
        else:
            result = self.race(whole, self.lowered([one for one in tried if one is not rewrite]))
        return Applied(
            rewrite=rewrite, changes=changes, promise_ns=0.0, result=result, kept=result.is_faster
        )

    def race(self, first: Exported, second: Exported) -> Ratio:
        """The first's time over the second's, measured in turns."""
        if first is second:
            return SAME
        pair = (id(first), id(second))
        if pair not in self._raced:
            self._raced[pair] = self._race(first, second)
        return self._raced[pair]

    def _race(self, first: Exported, second: Exported) -> Ratio:
        self._asked.step("measuring in turns")
        with (
            files.scratch("first.pte", first.lowered.data) as one,
            files.scratch("second.pte", second.lowered.data) as other,
        ):
            entrants = self._entrant(one, first), self._entrant(other, second)
            return in_turns(*entrants, child=self._child)

    def _entrant(self, path: Path, exported: Exported) -> Entrant:
        settings = settings_of(exported.lowered.map)
        arrays = {str(k): array_of(one) for k, one in enumerate(self._model.inputs)}
        return Entrant(
            engine="executorch",
            path=path,
            inputs=arrays,
            options={"channels_last": list(settings.channels_last)},
        )

    def trace(self, exported: Exported) -> Trace:
        """Operator by operator."""
        self._asked.step("tracing")
        with files.scratch("program.pte", exported.lowered.data) as path:
            files.write(map_path(path), exported.lowered.map.to_json().encode())
            return trace(path, TraceRequest(runs=TRACED_RUNS), self._child)

    def compared(self, exported: Exported) -> Numbers:
        """How near the program is to the model."""
        with located(exported):
            return compared(self._child, exported, self._asked.precision)


def promise_ns(trace_before: Trace, changes: Sequence[Change]) -> float:
    """What the default program spends at the changed places on anything but computing inside."""
    places = {(one.source.file, one.source.line, one.source.module) for one in changes}
    total_ns = 0.0
    for event in trace_before.events:
        if event.op_index is None or event.place == UNACCOUNTED:
            continue
        op = trace_before.ops[event.op_index]
        here = (op.file, op.line, op.module) in places
        if here and (event.place != "xnnpack" or event.category in _OVERHEAD):
            total_ns += event.median_ns
    return total_ns


def transpose_ns(found: Trace) -> float:
    """What a trace spends on transposes."""
    return sum(e.median_ns for e in found.events if e.name.startswith("Transpose"))


def moved_share(found: Trace) -> float:
    """Which share of a trace is spent on moving data."""
    moved_ns = by_category(found).get("data movement", 0.0)
    return moved_ns / found.median_ns if found.median_ns else 0.0
