"""What the benchmark found, as plain data, and what follows from it: ratios and aims."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from straightway.trace.statistics import median

OURS = "straightway"
OURS_LAST = "straightway --io nhwc"
RIVAL = "onnx2tf"
REFERENCE = "onnxruntime"
MEGABYTE = 1_000_000
# CPU time of one file, in nanoseconds, for each race and round.
Races = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A TFLite file of one converter: its ops, whether it computes the same, CPU time a run.

    `races_ns` holds, for each race, one time a round; `outside` counts the ops that XNNPACK
    leaves out, by kind; `note` says why a file differs, does not run, or does not exist.
    """

    label: str
    equal: bool = False
    note: str = ""
    size_bytes: int = 0
    ops: int = 0
    transposes: int = 0
    reshapes: int = 0
    partitions: int = 0
    outside: Mapping[str, int] = field(default_factory=dict)
    races_ns: Races = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A converter by its command line: best wall and CPU seconds, and its peak memory."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """Our conversion with imports loaded, without verification; memory with it."""

    wall_s: float
    cpu_s: float
    weights_bytes: int
    peak_bytes: int
    verifying_peak_bytes: int
    layout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How long a category of work, or an operator, takes on both sides, in nanoseconds."""

    name: str
    ours_ns: float
    other_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Why our file is slower than `other`: by category and by operator, worst first."""

    other: str
    categories: tuple[Share, ...]
    operators: tuple[Share, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """All that was found for one model; `skipped` says why nothing was."""

    name: str
    skipped: str = ""
    size_bytes: int = 0
    files: tuple[File, ...] = ()
    reference_ns: Races = ()
    commands: Mapping[str, Command] = field(default_factory=dict)
    conversion: Conversion | None = None
    losses: tuple[Loss, ...] = ()

    def file(self, label: str) -> File | None:
        """The file of one converter."""
        return next((file for file in self.files if file.label == label), None)

    def ratio(self, label: str, to: str) -> "Ratio | None":
        """CPU time of one file by that of another, or of onnxruntime.

        None where a file was not raced, or computes other numbers.
        """
        if any((file := self.file(one)) is not None and not file.equal for one in (label, to)):
            return None
        ours, other = self._races(label), self._races(to)
        return Ratio.of(ours, other) if ours and other else None

    def median_ns(self, label: str) -> float | None:
        """The median of the races' medians; None where the file was not raced."""
        races = self._races(label)
        return median([median(race) for race in races]) if races else None

    def _races(self, label: str) -> Races:
        if label == REFERENCE:
            return self.reference_ns
        file = self.file(label)
        return file.races_ns if file is not None else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """How two times compare: the median over the races, and the range of the races.

    A race pairs the rounds and takes the median. Each race is a process of its own, so that the
    range also holds what differs from one process to the next; the range of five races holds the
    true median with a probability of 94 %.
    """

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, ours: Races, other: Races) -> "Ratio":
        """Compare two files that ran in the same races."""
        found = [
            median([a / b for a, b in zip(mine, its, strict=True)])
            for mine, its in zip(ours, other, strict=True)
        ]
        return cls(median=median(found), low=min(found), high=max(found))

    def __str__(self) -> str:
        return f"{self.median:.2f}×"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole run: the machine, the versions, the time of `import straightway`, the models."""

    created: str
    machine: str
    versions: Mapping[str, str]
    import_cpu_s: float
    rival: str
    models: tuple[Model, ...]

    @property
    def measured(self) -> tuple[Model, ...]:
        """The models that were had."""
        return tuple(model for model in self.models if not model.skipped)

    def geometric_mean(self, to: str) -> float | None:
        """Of our CPU time by another's, over all models where both are right."""
        found = [ratio.median for m in self.measured if (ratio := m.ratio(OURS, to)) is not None]
        return math.exp(sum(map(math.log, found)) / len(found)) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """What was aimed at, what was found, and where it was missed."""

    text: str
    found: str
    missed: tuple[str, ...]


def aims(report: Report) -> tuple[Aim, ...]:
    """Hold the run against every aim."""
    return (
        _aim("every file of ours is equal", report, _unequal),
        _rival_aim("CPU time at most that of onnx2tf's file, within noise", report, _slower(RIVAL)),
        _mean_aim(report),
        _rival_aim("no more TRANSPOSE than onnx2tf", report, _more_transposes),
        _aim("command at most 1.5 s of wall time below 15 MB", report, _slow_command),
        _aim("conversion at most 0.3 s of CPU time", report, _slow_conversion),
        _aim("converting in at most 150 MB + 3 × weights", report, _memory("peak_bytes", 3)),
        _aim(
            "verifying in at most 150 MB + 5 × weights", report, _memory("verifying_peak_bytes", 5)
        ),
        Aim(
            text="import straightway in at most 150 ms of CPU time",
            found=f"{report.import_cpu_s * 1e3:.0f} ms",
            missed=("import",) if report.import_cpu_s > 0.150 else (),
        ),
    )


def _aim(text: str, report: Report, why: Callable[[Model], str]) -> Aim:
    missed = [f"{model.name}: {reason}" for model in report.measured if (reason := why(model))]
    count = len(report.measured)
    return Aim(text=text, found=f"{count - len(missed)} of {count} models", missed=tuple(missed))


def _rival_aim(text: str, report: Report, why: Callable[[Model], str]) -> Aim:
    if report.rival:
        return Aim(text=text, found=f"not measured: {report.rival}", missed=())
    return _aim(text, report, why)


def _mean_aim(report: Report) -> Aim:
    mean = report.geometric_mean(REFERENCE)
    slower = _aim("", report, _slower(REFERENCE)).missed
    return Aim(
        text="geometric mean at most 0.95 × onnxruntime's CPU time",
        found="not measured" if mean is None else f"{mean:.2f}×, slower on {len(slower)} models",
        missed=slower if mean is None or mean > 0.95 else (),
    )


def _unequal(model: Model) -> str:
    file = model.file(OURS)
    return "" if file is not None and file.equal else (file.note if file else "no file")


def _slower(other: str) -> Callable[[Model], str]:
    def why(model: Model) -> str:
        ratio = model.ratio(OURS, other)
        same = model.ratio(OURS_LAST, other)
        if ratio is None or ratio.low <= 1.0 or (same is not None and same.low <= 1.0):
            return ""
        return f"{ratio} ({ratio.low:.2f} to {ratio.high:.2f})"

    return why


def _more_transposes(model: Model) -> str:
    rival, ours = model.file(RIVAL), model.file(OURS)
    if rival is None or not rival.ops or ours is None:
        return ""
    same = model.file(OURS_LAST) or ours
    if min(ours.transposes, same.transposes) <= rival.transposes:
        return ""
    return f"{ours.transposes}, with --io nhwc {same.transposes}; onnx2tf {rival.transposes}"


def _slow_command(model: Model) -> str:
    command = model.commands.get(OURS)
    if command is None or model.size_bytes >= 15 * MEGABYTE or command.wall_s <= 1.5:
        return ""
    return f"{command.wall_s:.2f} s"


def _slow_conversion(model: Model) -> str:
    found = model.conversion
    return f"{found.cpu_s:.2f} s" if found is not None and found.cpu_s > 0.3 else ""


def _memory(name: str, factor: int) -> Callable[[Model], str]:
    def why(model: Model) -> str:
        if model.conversion is None:
            return ""
        held = getattr(model.conversion, name)
        allowed = 150 * MEGABYTE + factor * model.conversion.weights_bytes
        if held <= allowed:
            return ""
        return f"{held / MEGABYTE:.0f} MB, allowed {allowed / MEGABYTE:.0f}"

    return why
