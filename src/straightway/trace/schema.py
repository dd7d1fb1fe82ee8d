"""A trace: what one run of a model on one device measured, as plain and versioned data."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from straightway.errors import InvalidRequest
from straightway.trace.statistics import Spread, median
from straightway.trace.taxonomy import UNACCOUNTED, Category, category

FORMAT = "straightway-trace"
VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Shape and numpy type name of an operand; a dimension of -1 is unknown."""

    name: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One op of the model that ran: its TFLite, ONNX or ATen name, and its operands.

    `file`, `line`, `code` and `module` say where the user's model has it, where the runtime's file can
    tell.
    """

    index: int
    kind: str
    name: str = ""
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    file: str = ""
    line: int = 0
    code: str = ""
    module: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """On what, by what and how it was measured.

    `clock` is "thread CPU" or "wall", `tick_ns` its resolution, `clock_cost_ns` what one reading
    costs (already taken off each event). Without `operator_level`, `reason` says why there is only
    the time of the whole model; with it, `reason` holds the doubts of the self-check, if any.
    `sizes` are those, in the run, of dimensions that the model leaves open.
    """

    device: str
    cpu: str = ""
    runtime: str
    versions: Mapping[str, str] = field(default_factory=dict)
    clock: str
    tick_ns: float = 1.0
    clock_cost_ns: float = 0.0
    warmup: int
    runs: int
    threads: int = 1
    operator_level: bool = True
    reason: str = ""
    model: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that took time in each run.

    `name` is what the runtime calls it, `kind` and `op_index` the op it worked for ("" and None if
    unknown; an index counts within its `subgraph`), `owner` the control-flow op of the main subgraph
    in whose body it ran, `place` where it ran: "xnnpack", "builtin", "executorch",
    "onnxruntime" or "unaccounted" (the rest between the parts and the whole). `start_ns` counts
    from the start of the run. `samples_ns` holds one duration a run, in nanoseconds. `cause` says
    what forces an event that no operator of the model asked for, `forced_by` the index of the op that
    does, where it is one.
    """

    id: int
    name: str
    kind: str = ""
    op_index: int | None = None
    subgraph: int = 0
    owner: int | None = None
    partition: int | None = None
    place: str
    kernel: str = ""
    start_ns: float | None = None
    samples_ns: tuple[float, ...]
    moved_bytes: int | None = None
    macs: int | None = None
    cause: str = ""
    forced_by: int | None = None

    @property
    def median_ns(self) -> float:
        """The median duration."""
        return median(self.samples_ns)

    @property
    def spread(self) -> Spread:
        """Median, p10, p90 and minimum of the durations, in nanoseconds."""
        return Spread.of(self.samples_ns)

    @property
    def category(self) -> Category:
        """What sort of work it is: the XNNPACK operator decides, else the op."""
        if self.place == UNACCOUNTED:
            return UNACCOUNTED
        return category(self.kind, self.name if self.place == "xnnpack" else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A run, its events, the durations of the whole model, and the ops of its main subgraph."""

    run: Run
    events: tuple[Event, ...] = ()
    total_ns: tuple[float, ...]
    ops: tuple[Op, ...] = ()

    @property
    def median_ns(self) -> float:
        """The median duration of the whole model."""
        return median(self.total_ns)

    @property
    def operator_ns(self) -> float:
        """The sum of the medians of all measured events, without the unaccounted rest."""
        return sum(event.median_ns for event in self.events if event.place != UNACCOUNTED)

    @property
    def accounted(self) -> float:
        """Which share of the whole run the measured events explain; above 1 where they exceed it."""
        return self.operator_ns / self.median_ns if self.median_ns > 0 else 0.0

    def to_json(self) -> str:
        """Write it as JSON; `from_json` reads it back equal."""
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> "Trace":
        """Read what `to_json` wrote.

        Raises InvalidRequest if it is no trace, or one of another version.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidRequest(f"a trace is JSON; {error}") from error
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise InvalidRequest(f'a trace is a JSON object with "format": "{FORMAT}"')
        if data.get("version") != VERSION:
            raise InvalidRequest(
                f"this straightway reads traces of version {VERSION}; got {data.get('version')}"
            )
        try:
            return cls(
                run=Run(**data["run"]),
                events=tuple(_event(event) for event in data["events"]),
                total_ns=tuple(data["total_ns"]),
                ops=tuple(_op(op) for op in data["ops"]),
            )
        except (KeyError, TypeError) as error:
            raise InvalidRequest(f"the trace is incomplete or damaged: {error}") from error


def _event(data: Mapping[str, Any]) -> Event:
    return Event(**{**data, "samples_ns": tuple(data["samples_ns"])})


def _op(data: Mapping[str, Any]) -> Op:
    operands = {
        side: tuple(Tensor(**{**tensor, "shape": tuple(tensor["shape"])}) for tensor in data[side])
        for side in ("inputs", "outputs")
    }
    return Op(**{**data, **operands})


def unaccounted(event_id: int, total_ns: float, operator_ns: float) -> Event:
    """The row for what the parts do not explain; negative where they sum to more than the whole."""
    return Event(
        id=event_id, name=UNACCOUNTED, place=UNACCOUNTED, samples_ns=(total_ns - operator_ns,)
    )
