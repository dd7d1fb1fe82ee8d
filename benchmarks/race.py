"""One model through every converter: files checked, counted, and timed in turns."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import rival as rivals
from corpus import Entry
from costs import Cost, cost
from losses import explain
from results import OURS, OURS_LAST, REFERENCE, RIVAL, Command, Conversion, File, Model, Races
from straightway.errors import StraightwayError
from straightway.flow.candidate import describe, feeds, inputs_of
from straightway.flow.convert import Request
from straightway.flow.inputs import Arrays, make_inputs
from straightway.flow.pair import verify_pair
from straightway.flow.translate import read
from straightway.ingest.onnx import ShapeRequest
from straightway.run.process import Child
from straightway.run.race import Entrant, race
from straightway.trace.statistics import median

SEED = 0
COMMAND_RUNS = 3
RACES = 5
FEWEST_ROUNDS, MOST_ROUNDS = 7, 100
BUDGET_NS = 1_500_000_000
Shapes = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where files go, who is compared, and who is told what happens."""

    folder: Path
    rival: rivals.Rival | None
    step: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model, and seeded inputs to time it on."""

    entry: Entry
    path: Path
    inputs: Arrays

    @property
    def shapes(self) -> Shapes:
        """The shapes of the model's inputs."""
        return [array.shape for array in self.inputs.values()]


def measure(entry: Entry, path: Path, setting: Setting) -> Model:
    """Take one model all the way."""
    source = read(path, ShapeRequest(dims={}, shapes=entry.shapes))
    subject = Subject(entry=entry, path=path, inputs=make_inputs(source, SEED))
    commands, files, paths = convert_all(subject, setting)
    setting.step("race")
    times = race_all(subject, paths)
    model = Model(
        name=entry.name,
        size_bytes=path.stat().st_size,
        files=tuple(replace(file, races_ns=times.get(file.label, ())) for file in files),
        reference_ns=times[REFERENCE],
        commands=commands,
        conversion=own_conversion(subject, setting),
    )
    setting.step("explaining")
    return replace(model, losses=explain(model, path, paths, subject.inputs))


Made = tuple[dict[str, Command], list[File], dict[str, Path]]


def convert_all(subject: Subject, setting: Setting) -> Made:
    """Convert by each command line; check each file. The paths are of files that run."""
    commands: dict[str, Command] = {}
    files: list[File] = []
    paths: dict[str, Path] = {}

    def take(label: str, path: Path, spent: Sequence[Cost]) -> None:
        commands[label] = summary(spent)
        setting.step(f"checking {label}")
        files.append(examine(label, path, subject, spent[-1]))
        if files[-1].ops:
            paths[label] = path

    setting.step("straightway convert")
    take(OURS, *own_file(subject, setting, "keep"))
    if setting.rival is None:
        return commands, files, paths
    setting.step("onnx2tf")
    made = rivals.convert(
        setting.rival, subject.path, subject.entry.shapes, setting.folder / "rival"
    )
    take(RIVAL, made.path or Path("nothing"), [made.cost])
    if RIVAL in paths and shapes_of(paths[RIVAL])[0] != subject.shapes:
        path, spent = own_file(subject, setting, "nhwc")
        if path.exists() and shapes_of(path) == shapes_of(paths[RIVAL]):
            take(OURS_LAST, path, spent)
    return commands, files, paths


def shapes_of(path: Path) -> tuple[Shapes, Shapes]:
    """The shapes of a file's inputs and outputs."""
    main = describe(path).main
    return (
        [main.tensors[index].shape for index in main.inputs],
        [main.tensors[index].shape for index in main.outputs],
    )


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
    given = [subject.path, json.dumps(dict(subject.entry.shapes))]
    runs = [cost([sys.executable, script, "time", *given]) for _ in range(COMMAND_RUNS)]
    runs.append(
        cost([sys.executable, script, "memory", *given, setting.folder / "conversion.tflite"])
    )
    if any(run.returncode for run in runs):
        return None
    *times, memory = (json.loads(run.tail.splitlines()[-1]) for run in runs)
    return Conversion(
        wall_s=median([one["wall_s"] for one in times]),
        cpu_s=median([one["cpu_s"] for one in times]),
        weights_bytes=times[0]["weights_bytes"],
        peak_bytes=memory["peak_bytes"],
        verifying_peak_bytes=memory["verifying_peak_bytes"],
        layout=times[0]["layout"],
    )


def summary(spent: Sequence[Cost]) -> Command:
    """The best of the runs, since a busy machine only adds time; the greatest peak."""
    return Command(
        wall_s=min(one.wall_s for one in spent),
        cpu_s=min(one.cpu_s for one in spent),
        peak_bytes=max(one.peak_bytes for one in spent),
    )


def examine(label: str, path: Path, subject: Subject, spent: Cost) -> File:
    """Compare a file with onnxruntime on three seeds, and count its ops."""
    if not path.exists():
        return File(label=label, note=f"exit code {spent.returncode}: {spent.tail[-300:]}")
    try:
        found = verify_pair(subject.path, path, Request(shapes=subject.entry.shapes))
    except StraightwayError as error:
        return File(label=label, note=str(error).partition("\n")[0])
    kinds = Counter(op.kind for op in found.ran.ops)
    placed = found.ran.placement
    wrong = [check for check in (*found.outputs, *found.interior) if not check.equal]
    return File(
        label=label,
        equal=found.equal,
        note="; ".join(f"{check.name} {check.reason}" for check in wrong[:3]),
        size_bytes=path.stat().st_size,
        ops=len(found.ran.ops),
        transposes=kinds["TRANSPOSE"],
        reshapes=kinds["RESHAPE"],
        partitions=len(placed.partitions),
        outside=dict(Counter(found.ran.ops[index].kind for index in placed.outside)),
    )


def race_all(subject: Subject, paths: Mapping[str, Path]) -> dict[str, Races]:
    """Race all files and onnxruntime, several times, each in a process and an order of its own."""
    entrants = {
        label: Entrant(engine="litert", path=path, inputs=named_feeds(path, subject.inputs))
        for label, path in paths.items()
    }
    entrants[REFERENCE] = Entrant(engine="onnxruntime", path=subject.path, inputs=subject.inputs)
    labels = list(entrants)
    times: dict[str, list[tuple[int, ...]]] = {label: [] for label in labels}
    for turn in range(RACES):
        order = labels[turn % len(labels) :] + labels[: turn % len(labels)]
        with Child(engines=["onnxruntime", "litert"]) as child:
            samples = race_once(child, [entrants[label] for label in order])
        for label, found in zip(order, samples, strict=True):
            times[label].append(found)
    return {label: tuple(found) for label, found in times.items()}


def named_feeds(path: Path, arrays: Arrays) -> Arrays:
    """The model's inputs as a file takes them, by the file's names."""
    description = describe(path)
    names = inputs_of(path, description)
    return dict(zip(names, feeds(path, description, arrays), strict=True))


def race_once(child: Child, entrants: Sequence[Entrant]) -> tuple[tuple[int, ...], ...]:
    """As many rounds as the budget has time for."""
    first = child.call(race(entrants, rounds=3))
    round_ns = 2 * sum(min(samples) for samples in first)
    rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, BUDGET_NS // round_ns))
    return child.call(race(entrants, rounds=rounds))
