"""`make bench-executorch`: PyTorch programs as ExecuTorch lowers them, and as `fix` does.

    python benchmarks/fixes.py [--models a,b] [--rounds 15] [--no-page]

The case study is examples/squeeze_sam.py in three precisions, with its picture given channels last, and
with its batch norms kept out of the delegate; then small networks of common kinds (networks.py). Prints tables, writes
benchmarks/results/executorch.json and, after a run over all, docs/benchmark_executorch.md. Exit code 1
if a program with rewrites computes other numbers than its model, or is slower than without.
"""

import argparse
import datetime as dt
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import checkpoints
import networks
import squeeze_sam
from run import machine
from straightway.errors import StraightwayError
from straightway.executorch.exported import Exported, Recipe, export
from straightway.executorch.given import Precision
from straightway.executorch.model import Model, made
from straightway.executorch.rewrites.catalogue import INTERFACE, REWRITES
from straightway.executorch.rewrites.scene import Rewrite
from straightway.executorch.tensors import array_of
from straightway.flow import files
from straightway.flow.export import compared
from straightway.flow.fix import moved_share, transpose_ns
from straightway.flow.program import TraceRequest, map_path, settings_of, trace
from straightway.run.process import Child
from straightway.run.race import Entrant, race
from straightway.trace.join import joined_share
from straightway.trace.statistics import paired_ratio

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("results") / "executorch.json"
PAGE = ROOT / "docs" / "benchmark_executorch.md"
STUDY = "squeeze_sam"
NORMS = "BatchNormConfig"
SAMPLES = 2
SEED = 7
# A difference of signal to error that is none.
LEAST_DB = 0.1
TRACED_RUNS = 5
FLOATS: tuple[Precision, ...] = ("fp32",)
IMAGES: tuple[Precision, ...] = ("fp32", "int8")
TOKENS: tuple[Precision, ...] = ("fp32", "int8-dynamic", "int4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A model in one precision; `without` names partitioner configurations the default lacks.

    `channels_last`: the rewritten program has its images given so.
    """

    name: str
    factory: Callable[[], networks.Made]
    precision: Precision
    without: tuple[str, ...] = ()
    channels_last: bool = False

    @property
    def label(self) -> str:
        """As tables name it."""
        if self.channels_last:
            return f"{self.name}, given channels last"
        return f"{self.name}, batch norms outside" if self.without else self.name

    @property
    def rewrites(self) -> tuple[Rewrite, ...]:
        """What the fixed program is made with."""
        return (*REWRITES, *INTERFACE) if self.channels_last else REWRITES


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One program: what it holds, and where its traced runs go."""

    median_ms: float
    partitions: int
    transposes: int
    inserted: int
    transpose_ms: float
    moved: float
    joined: float
    model_db: float
    equal: bool

    @property
    def transpose_share(self) -> float:
        """The share of the time that transposes take."""
        return self.transpose_ms / self.median_ms if self.median_ms else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case: the default program, the rewritten one, and their times in turns."""

    name: str
    precision: str
    note: str = ""
    before: Side | None = None
    after: Side | None = None
    rewrites: tuple[str, ...] = ()
    ratio: float = 1.0
    low: float = 1.0
    high: float = 1.0

    @property
    def is_good(self) -> bool:
        """Equal to its model, and not slower than the default beyond noise."""
        return self.after is not None and self.after.equal and self.low <= 1


def cases() -> Iterator[Case]:
    """The case study, then the others."""
    study = partial(Case, name=STUDY, factory=squeeze_sam.model)
    for precision in ("fp32", "int8"):
        yield study(precision=precision)
        yield study(precision=precision, channels_last=True)
    yield study(precision="fp32", without=(NORMS,))
    yield study(precision="fp16")
    for precisions, factories in (
        (IMAGES, (networks.mobilenet, networks.resnet, networks.vit, networks.yolo_neck)),
        (FLOATS, (networks.audio, networks.lstm, networks.gru)),
        (TOKENS, (networks.prefill, networks.decode)),
    ):
        for factory in factories:
            for precision in precisions:
                yield Case(name=factory.__name__, factory=factory, precision=precision)
    for one in checkpoints.there():
        for precision in FLOATS if one.tokens else IMAGES:
            yield Case(name=one.name, factory=one.made, precision=precision)


def measured(case: Case, rounds: int) -> Row:
    """Lower it both ways, race, trace and compare; or say why not."""
    try:
        return _measured(case, rounds)
    except StraightwayError as error:
        note = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        return Row(name=case.label, precision=case.precision, note=note)


@lru_cache(maxsize=1)
def _default(
    factory: Callable[[], networks.Made], precision: Precision, without: tuple[str, ...]
) -> tuple[Exported, Side]:
    """The default program and what it takes; cases that differ in the other one alone share it."""
    model = made(factory.__name__, factory)
    recipe = Recipe(precision=precision, without=without, samples=_samples(model, precision))
    exported = export(model, recipe)
    return exported, _side(exported, precision)


def _measured(case: Case, rounds: int) -> Row:
    model = made(case.name, case.factory)
    before, before_side = _default(case.factory, case.precision, case.without)
    recipe = Recipe(
        precision=case.precision,
        rewrites=case.rewrites,
        samples=_samples(model, case.precision),
    )
    after = export(model, recipe)
    with (
        files.scratch("after.pte", after.lowered.data) as one,
        files.scratch("before.pte", before.lowered.data) as other,
        Child() as child,
    ):
        times = child.call(race([_entrant(one, after), _entrant(other, before)], rounds=rounds))
    ratio = paired_ratio(*times)
    return Row(
        name=case.label,
        precision=case.precision,
        before=before_side,
        after=_side(after, case.precision),
        rewrites=tuple(dict.fromkeys(change.rewrite for change in after.changes)),
        ratio=ratio.median,
        low=ratio.low,
        high=ratio.high,
    )


def _samples(model: Model, precision: Precision) -> list[list[Any]]:
    """Calibration inputs of the examples' mean and deviation, where the precision needs any."""
    if precision != "int8":
        return []
    generator = torch.Generator().manual_seed(SEED)
    return [
        [
            one.mean() + one.std() * torch.randn(one.shape, generator=generator)
            if one.is_floating_point()
            else one
            for one in model.inputs
        ]
        for _ in range(SAMPLES)
    ]


def _entrant(path: Path, exported: Exported) -> Entrant:
    inputs = {str(k): array_of(one) for k, one in enumerate(exported.model.inputs)}
    options = {"channels_last": list(settings_of(exported.lowered.map).channels_last)}
    return Entrant(engine="executorch", path=path, inputs=inputs, options=options)


def _side(exported: Exported, precision: Precision) -> Side:
    known = exported.lowered.map
    with files.scratch("program.pte", exported.lowered.data) as path:
        files.write(map_path(path), known.to_json().encode())
        found = trace(path, TraceRequest(runs=TRACED_RUNS))
    with Child() as child:
        numbers = compared(child, exported, precision)
    return Side(
        median_ms=found.median_ns / 1e6,
        partitions=len(known.delegates),
        transposes=known.transposes,
        inserted=known.inserted_transposes,
        transpose_ms=transpose_ns(found) / 1e6,
        moved=moved_share(found),
        joined=joined_share(found) * found.accounted,
        model_db=numbers.model_db,
        equal=numbers.equal,
    )


PROGRAMS = (
    "model", "precision", "partitions", "transposes (inserted)", "transposes ms", "moving data",
    "SQNR dB", "time, fixed / default",
)  # fmt: skip
AIMS = ("aim", "found", "")
HEAD = """\
# Benchmark: PyTorch to ExecuTorch

*Written by `make bench-executorch` on {created}; no figure here is typed by hand.*

{machine}; {versions}.

The default lowering against the one with all rewrites of `straightway fix`, for XNNPACK, one thread:
*default → fixed*. The ratio is the median over {rounds} pairs of runs in turns, of CPU time, with its
interval of 95 % by resampling; where that holds 1, there is no difference beyond noise. Times of
transposes and the share of moved data are from traces of {runs} runs. SQNR is the fixed program's
against the model in eager mode and floats. int8 is calibrated on {samples} made-up samples of weights
that nobody trained: its SQNR checks the lowering and tells nothing about a model's quality. *Given
channels last*: the fixed program's caller gives the picture so (`fix --channels-last`), the default's
does not. *Batch norms outside*: the default is lowered without {norms}, as before ExecuTorch took batch
norms that follow an activation into the delegate. A fixed fp16 program is slower here than one in fp32
where the processor has no arithmetic of half floats.
"""


def program_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line a case."""
    found = []
    for row in rows:
        a, b = row.before, row.after
        if a is None or b is None:
            found.append((row.name, row.precision, row.note, *[""] * 5))
            continue
        interval = f"{row.ratio:.2f}× ({row.low:.2f} to {row.high:.2f})"
        found.append(
            (
                row.name,
                row.precision,
                f"{a.partitions} → {b.partitions}",
                f"{a.transposes} ({a.inserted}) → {b.transposes} ({b.inserted})",
                f"{a.transpose_ms:.2f} → {b.transpose_ms:.2f}",
                f"{a.moved:.1%} → {b.moved:.1%}",
                f"{b.model_db:.1f}" if b.equal else f"{b.model_db:.1f}: not equal",
                interval if row.low > 1 or row.high < 1 else f"{interval}: no difference",
            )
        )
    return found


def aims(rows: Sequence[Row]) -> list[tuple[str, str, str]]:
    """What the case study was to reach, what it reached, and what no model may be."""
    study = {row.precision: row for row in rows if row.name == STUDY and row.before and row.after}
    found = []
    for precision, bound in (("fp32", 0.72), ("int8", 0.55)):
        if precision in study:
            row = study[precision]
            text = f"{STUDY} in {precision}: at most {bound:.2f} of the default's time"
            found.append(_aim(text, f"{row.ratio:.3f}", good=row.ratio <= bound))
    for row in rows:
        if row.name.startswith(STUDY) and row.before and row.after:
            gone = 1 - row.after.transpose_ms / row.before.transpose_ms
            shares = f"{row.before.transpose_share:.1%} → {row.after.transpose_share:.1%} of all"
            aim = f"{row.name} in {row.precision}: 90 % of the transposes' time gone"
            found.append(_aim(aim, f"{gone:.1%} ({shares})", good=gone >= 0.9))
    after = study["fp32"].after if "fp32" in study else None
    if after is not None:
        found += [
            _aim("at most 2 partitions", str(after.partitions), good=after.partitions <= 2),
            _aim("at most 5 % moves data", f"{after.moved:.1%}", good=after.moved <= 0.05),
            _aim("at least 120 dB", f"{after.model_db:.1f}", good=after.model_db >= 120),
            _aim("99 % of time joined to a line", f"{after.joined:.2%}", good=after.joined >= 0.99),
        ]
    if "int8" in study:
        before, after = study["int8"].before, study["int8"].after
        if before is not None and after is not None:
            text = f"{before.model_db:.2f} → {after.model_db:.2f}"
            good = after.model_db > before.model_db - LEAST_DB
            found.append(_aim("int8: dB to the model unchanged", text, good=good))
    bad = ", ".join(f"{row.name} {row.precision}" for row in rows if not row.is_good)
    text = "no program wrong, none slower beyond noise"
    return [*found, _aim(text, bad or f"{len(rows)} of {len(rows)}", good=not bad)]


def _aim(text: str, found: str, *, good: bool) -> tuple[str, str, str]:
    return text, found, "met" if good else "missed"


def page(rows: Sequence[Row], rounds: int) -> str:
    """The page of the documentation."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("executorch", "torch", "torchao"))
    head = HEAD.format(
        created=dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d"),
        machine=machine(),
        versions=versions,
        rounds=rounds,
        runs=TRACED_RUNS,
        samples=SAMPLES,
        norms=f"`{NORMS}`",
    )
    used = [(r.name, r.precision, ", ".join(r.rewrites) or "–") for r in rows if r.after]
    parts = [
        head,
        "## Aims\n",
        _markdown(AIMS, aims(rows)),
        "## Programs\n",
        _markdown(PROGRAMS, program_rows(rows)),
        "## Rewrites that applied\n",
        _markdown(("model", "precision", "rewrites"), used),
    ]
    return "\n".join(parts)


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + " -- |" * len(columns)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    Console(width=180).print(table)


def main() -> int:
    """Measure every case, print, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="", help="names, or name:precision, by commas")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--page", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args()
    chosen = set(options.models.split(",")) - {""}
    console = Console(stderr=True)
    if absent := checkpoints.missing():
        console.print(f"without {', '.join(absent)}: `make checkpoints` brings trained weights")
    rows, start = [], time.monotonic()
    for case in cases():
        if chosen and not chosen & {case.name, f"{case.name}:{case.precision}"}:
            continue
        minutes = (time.monotonic() - start) / 60
        console.print(f"{minutes:.1f} min: {case.label} in {case.precision}", highlight=False)
        rows.append(measured(case, options.rounds))
        show("Programs, default → fixed", PROGRAMS, program_rows(rows[-1:]))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if options.page and not chosen:
        PAGE.write_text(page(rows, options.rounds))
    show("Programs, default → fixed", PROGRAMS, program_rows(rows))
    show("Aims", AIMS, aims(rows))
    return int(not all(row.is_good for row in rows))


if __name__ == "__main__":
    sys.exit(main())
