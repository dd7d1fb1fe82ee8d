"""One model through every converter: files checked, counted, and timed in turns."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from straightway.tflite.read import read as read_tflite

import arrangement
import rival as rivals
from corpus import Entry
from costs import Cost, cost
from losses import explain
from results import OURS, OURS_LAST, REFERENCE, RIVAL, Command, Conversion, File, Model, Races
from straightway.errors import StraightwayError
from straightway.flow.inputs import Arrays, make_inputs
from straightway.flow.translate import read
from straightway.flow.verify import Reference, reference
from straightway.ingest.onnx import ShapeRequest
from straightway.run import litert
from straightway.run.process import Child
from straightway.run.race import Entrant, race
from straightway.trace.statistics import median

SEEDS = (0, 1, 2)
COMMAND_RUNS = 3
RACES = 5
FEWEST_ROUNDS, MOST_ROUNDS = 7, 100
BUDGET_NS = 1_500_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where files go, who is compared, and who is told what happens."""

    folder: Path
    rival: rivals.Rival | None
    step: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model, its seeded inputs, and what onnxruntime gives for each."""

    entry: Entry
    path: Path
    inputs: tuple[Arrays, ...]
    expected: tuple[Reference, ...]


def measure(entry: Entry, path: Path, setting: Setting) -> Model:
    """Take one model all the way."""
    source = read(path, ShapeRequest(dims={}, shapes=entry.shapes))
    inputs = tuple(make_inputs(source, seed) for seed in SEEDS)
    setting.step("onnxruntime")
    with Child(engines=["onnxruntime", "litert"]) as child:
        expected = tuple(reference(child, path, arrays) for arrays in inputs)
        subject = Subject(entry=entry, path=path, inputs=inputs, expected=expected)
        commands, files, paths = convert_all(subject, setting, child)
    setting.step("race")
    times = race_all(subject, paths)
    files = [replace(file, races_ns=times.get(file.label, ())) for file in files]
    model = Model(
        name=entry.name,
        size_bytes=path.stat().st_size,
        files=tuple(files),
        reference_ns=times[REFERENCE],
        commands=commands,
        conversion=own_conversion(subject, setting),
    )
    setting.step("explaining")
    return replace(model, losses=explain(model, path, paths, inputs[0]))


Made = tuple[dict[str, Command], list[File], dict[str, Path]]


def convert_all(subject: Subject, setting: Setting, child: Child) -> Made:
    """Convert by each command line; check each file. The paths are of files that run."""
    commands: dict[str, Command] = {}
    files: list[File] = []
    paths: dict[str, Path] = {}

    def take(label: str, path: Path, spent: Sequence[Cost]) -> None:
        commands[label] = summary(spent)
        files.append(examine(label, path, subject, child, spent[-1]))
        if files[-1].ops:
            paths[label] = path

    setting.step("straightway convert")
    take(OURS, *own_file(subject, setting, "keep"))
    if setting.rival is not None:
        setting.step("onnx2tf")
        made = rivals.convert(
            setting.rival, subject.path, subject.entry.shapes, setting.folder / "rival"
        )
        take(RIVAL, made.path or Path("nothing"), [made.cost])
        if RIVAL in paths:
            path, spent = own_file(subject, setting, "nhwc")
            if path.exists() and arrangement.rearranged_alike(
                path, paths[RIVAL], subject.inputs[0]
            ):
                take(OURS_LAST, path, spent)
    return commands, files, paths


def own_file(subject: Subject, setting: Setting, io: str) -> tuple[Path, list[Cost]]:
    """Convert by our command line, several times."""
    target = setting.folder / f"{subject.entry.name}.{io}.tflite"
    target.unlink(missing_ok=True)
    command: list[str | Path] = [Path(sys.executable).with_name("straightway"), "convert"]
    command += [subject.path, "-o", target, "--io", io]
    for name, dims in subject.entry.shapes.items():
        command += ["--shape", f"{name}={','.join(map(str, dims))}"]
    return target, [cost(command) for _ in range(COMMAND_RUNS)]


def own_conversion(subject: Subject, setting: Setting) -> Conversion | None:
    """Our conversion alone, in a process with imports loaded; None where it fails."""
    setting.step("conversion alone")
    script = Path(__file__).with_name("conversion.py")
    target = setting.folder / "conversion.tflite"
    shapes = json.dumps(dict(subject.entry.shapes))
    runs = [
        cost([sys.executable, script, subject.path, shapes, target]) for _ in range(COMMAND_RUNS)
    ]
    if any(run.returncode for run in runs):
        return None
    found = [json.loads(run.tail.splitlines()[-1]) for run in runs]
    if any("error" in one for one in found):
        return None
    return Conversion(
        wall_s=median([one["wall_s"] for one in found]),
        cpu_s=median([one["cpu_s"] for one in found]),
        weights_bytes=found[0]["weights_bytes"],
        peak_bytes=max(one["peak_bytes"] for one in found),
        verifying_peak_bytes=max(one["verifying_peak_bytes"] for one in found),
        layout=found[0]["layout"],
    )


def summary(spent: Sequence[Cost]) -> Command:
    """Medians of the times, the greatest peak."""
    return Command(
        wall_s=median([one.wall_s for one in spent]),
        cpu_s=median([one.cpu_s for one in spent]),
        peak_bytes=max(one.peak_bytes for one in spent),
    )


def examine(label: str, path: Path, subject: Subject, child: Child, spent: Cost) -> File:
    """Run a file on every seed, compare, and count its ops."""
    if not path.exists():
        return File(label=label, note=f"exit code {spent.returncode}: {spent.tail[-300:]}")
    try:
        description = read_tflite(path)
        wrong = []
        for arrays, expected in zip(subject.inputs, subject.expected, strict=True):
            ran = child.call(litert.run(path, arrangement.stored(description, arrays)))
            checks = arrangement.checks(expected, ran.names, ran.outputs)
            wrong += [f"{check.name} {check.reason}" for check in checks if not check.equal]
    except (StraightwayError, arrangement.Unlike) as error:
        return File(label=label, note=str(error).partition("\n")[0])
    kinds = Counter(op.kind for op in ran.ops)
    return File(
        label=label,
        equal=not wrong,
        note="; ".join(wrong[:3]),
        size_bytes=path.stat().st_size,
        ops=len(ran.ops),
        transposes=kinds["TRANSPOSE"],
        reshapes=kinds["RESHAPE"],
        partitions=len(ran.placement.partitions),
        outside=dict(Counter(ran.ops[index].kind for index in ran.placement.outside)),
    )


def race_all(subject: Subject, paths: Mapping[str, Path]) -> dict[str, Races]:
    """Race all files and onnxruntime, several times, each in a process and an order of its own."""
    arrays = subject.inputs[0]
    entrants = {
        label: Entrant(
            engine="litert", path=path, inputs=arrangement.stored(read_tflite(path), arrays)
        )
        for label, path in paths.items()
    }
    entrants[REFERENCE] = Entrant(engine="onnxruntime", path=subject.path, inputs=arrays)
    labels = list(entrants)
    times: dict[str, list[tuple[int, ...]]] = {label: [] for label in labels}
    for turn in range(RACES):
        order = labels[turn % len(labels) :] + labels[: turn % len(labels)]
        with Child(engines=["onnxruntime", "litert"]) as child:
            samples = race_once(child, [entrants[label] for label in order])
        for label, found in zip(order, samples, strict=True):
            times[label].append(found)
    return {label: tuple(found) for label, found in times.items()}


def race_once(child: Child, entrants: Sequence[Entrant]) -> tuple[tuple[int, ...], ...]:
    """As many rounds as the budget has time for."""
    first = child.call(race(entrants, rounds=3))
    round_ns = 2 * sum(min(samples) for samples in first)
    rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, BUDGET_NS // round_ns))
    return child.call(race(entrants, rounds=rounds))
