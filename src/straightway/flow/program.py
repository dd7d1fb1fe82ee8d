"""ExecuTorch programs: their map, their inputs, and the trace of a run here or elsewhere."""

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from straightway.errors import InvalidModel, InvalidRequest
from straightway.executorch import etdump, pte, record, runner
from straightway.executorch.foreign import named
from straightway.executorch.program import Input, ProgramMap
from straightway.executorch.runner import Settings
from straightway.executorch.tracing import Measured, trace_of
from straightway.flow.inputs import read_arrays
from straightway.run.process import Child
from straightway.run.wire import Array, dtype_named
from straightway.trace.schema import Trace

WARMUP = 2
# What a token or an index may be without leaving a table that is not known.
_SMALL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """How a program is traced. `etdump` is a trace made elsewhere, to be read instead of a run.

    `etrecord` tells the lines of a program that has no map beside it.
    """

    runs: int = 20
    threads: int = 1
    cap: tuple[str, ...] = ()
    inputs: Path | None = None
    etdump: Path | None = None
    etrecord: Path | None = None


def map_path(path: Path) -> Path:
    """Where a program's map stands: beside it."""
    return path.with_name(path.name + ".json")


def program_map(path: Path) -> ProgramMap:
    """The map that `export` wrote beside a program, or what the file itself tells.

    Raises InvalidModel where it is no program, or the map is of another one.
    """
    if not path.is_file():
        raise InvalidRequest(f"{path}: there is no such file")
    read = pte.read(path.read_bytes(), path.name)
    beside = map_path(path)
    if not beside.is_file():
        return read
    known = ProgramMap.from_json(beside.read_text(encoding="utf-8"))
    if (known.instructions, known.delegates) != (read.instructions, read.delegates):
        raise InvalidModel(f"{beside}: is the map of another program; remove it or export again")
    return known


def trace(path: Path, request: TraceRequest, child: Child | None = None) -> Trace:
    """Trace a program operator by operator, each joined to its line of the model.

    `child` is a process that measures, where there is one already.
    """
    known = program_map(path)
    if request.etrecord is not None:
        known = named(known, record.read(request.etrecord))
    if request.etdump is not None:
        if not request.etdump.is_file():
            raise InvalidRequest(f"{request.etdump}: there is no such file")
        dump = etdump.read(request.etdump.read_bytes(), request.etdump.name)
        # made elsewhere: of its clock only the unit is known
        clock: dict[str, float | str] = {"name": "wall", "tick_ns": 1.0, "cost_ns": 0.0}
        measured = Measured(clock=clock, versions={}, warmup=1, model=path.name, is_local=False)
        return trace_of(known, dump, measured)
    (found,) = _in_turns(known, path, request, {request.cap: child})
    return found


def on_and_off(path: Path, request: TraceRequest) -> tuple[Trace, Trace]:
    """Trace a program with all of the processor's features, and without those of the request's cap.

    Run by run in turns, each in a process of its own: what is hidden from XNNPACK stays hidden.
    """
    known = program_map(path)
    if request.etrecord is not None:
        known = named(known, record.read(request.etrecord))
    on, off = _in_turns(known, path, request, {(): None, request.cap: None})
    return on, off


def _in_turns(
    known: ProgramMap,
    path: Path,
    request: TraceRequest,
    caps: Mapping[tuple[str, ...], Child | None],
) -> list[Trace]:
    """The traces of one program under several caps, whose runs stand next to each other.

    Each has a process of its own; where None is given, a new one.
    """
    arrays = inputs_of(known, request.inputs)
    with ExitStack() as open_ones:
        folder = Path(open_ones.enter_context(tempfile.TemporaryDirectory(prefix="straightway-")))
        tracers = []
        for number, (cap, given) in enumerate(caps.items()):
            child = given or open_ones.enter_context(Child(measure=request.threads == 1))
            settings = settings_of(known, threads=request.threads, cap=cap)
            tracers.append(_Tracer(child, path, folder / f"{number}.etdump"))
            tracers[-1].begin(arrays, settings)
        for turn in range(WARMUP + request.runs):
            # who is first changes, too
            for tracer in reversed(tracers) if turn % 2 else tracers:
                tracer.turn()
        return [tracer.trace(known, request.threads) for tracer in tracers]


class _Tracer:
    """One program that is traced in a process of its own, run by run."""

    def __init__(self, child: Child, path: Path, dump: Path) -> None:
        self._child = child
        self._path = path
        self._dump = dump
        self._clock: Mapping[str, float | str] = {}
        self._turns: list[runner.Turn] = []

    def begin(self, arrays: Sequence[Array], settings: Settings) -> None:
        self._clock = self._child.call(runner.begin(self._path, arrays, settings))

    def turn(self) -> None:
        self._turns.append(self._child.call(runner.turn(self._path)))

    def trace(self, known: ProgramMap, threads: int) -> Trace:
        versions = self._child.call(runner.end(self._path, self._dump))
        dump = etdump.read(self._dump.read_bytes(), self._path.name)
        kept = self._turns[WARMUP:]
        measured = Measured(
            clock=self._clock,
            # ExecuTorch's tick is a nanosecond of a clock that may be enlarged (run/clock.c)
            tick_ns=float(self._clock["tick_ns"]) / 1e3,
            versions=versions,
            warmup=WARMUP,
            threads=threads,
            model=self._path.name,
            plain_ns=tuple(one.plain_ns for one in kept),
            traced_ns=tuple(one.traced_ns for one in kept),
        )
        return trace_of(known, dump, measured)


def settings_of(known: ProgramMap, *, threads: int = 1, cap: tuple[str, ...] = ()) -> Settings:
    """How the program wants to be run."""
    last = tuple(k for k, one in enumerate(known.inputs) if one.channels_last)
    kernels = sorted({one.name for one in known.instructions if one.kind == "kernel"})
    return Settings(threads=threads, cap=cap, channels_last=last, kernels=tuple(kernels))


def inputs_of(known: ProgramMap, given: Path | None = None) -> list[Array]:
    """The user's arrays in the order of the file, or seeded ones of the program's shapes."""
    if given is None:
        return [_seeded(one, seed) for seed, one in enumerate(known.inputs)]
    arrays = list(read_arrays(given).values())
    if len(arrays) != len(known.inputs):
        raise InvalidRequest(
            f"{given}: the program has {len(known.inputs)} inputs; got {len(arrays)}"
        )
    for array, one in zip(arrays, known.inputs, strict=True):
        if array.dtype.name != one.dtype:
            raise InvalidRequest(
                f"{given}: an input is {one.dtype}{list(one.sizes)}; got {array.dtype}"
            )
    return arrays


def _seeded(one: Input, seed: int) -> Array:
    dtype = dtype_named(one.dtype)
    generator = np.random.default_rng(seed)
    if dtype.kind == "f" or one.dtype == "bfloat16":
        return generator.standard_normal(one.sizes).astype(dtype)
    return generator.integers(0, _SMALL, one.sizes).astype(dtype)
