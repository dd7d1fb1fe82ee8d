"""What a report shows, as plain data: no renderer and no clock, only facts that were passed in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from straightway.errors import InvalidRequest
from straightway.remark import Remark
from straightway.report.accuracy import AccuracyReport
from straightway.report.codec import decode, encode

VIEW_VERSION = 3
"""Raised whenever a field is added, removed or changes its meaning."""

# The order in which categories are shown: what computes, then what only moves or converts, then
# the rest. The names are those of the taxonomy of traces.
COMPUTING = ("convolution", "matrix", "elementwise", "normalisation", "pooling")
OVERHEAD = ("data movement", "type conversion")
UNACCOUNTED = "unaccounted"
CATEGORIES = (*COMPUTING, *OVERHEAD, "other", UNACCOUNTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """The model that was given: its file and what it declares of itself."""

    name: str
    bytes: int
    opset: str = ""
    producer: str = ""
    nodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """The file that was written."""

    name: str
    bytes: int
    ops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """The highest rate, in 10⁹ bytes a second, of an operator that moves so many bytes."""

    bytes: int
    gbs: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where it was measured, by which clock, and the peaks measured there.

    `peak_gmacs` is for float32; `bandwidths` stand in ascending order of bytes, since what fits in
    a cache is moved faster.
    """

    cpu: str
    threads: int = 1
    clock: str = ""
    peak_gmacs: float | None = None
    bandwidths: tuple[Bandwidth, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCheck:
    """One value of the model (an output or an inner one) compared with the reference.

    An output stands for all sets of inputs by the one with the largest error, a different one before
    an equal one; `sets` holds them all.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    max_error: float
    bound: float
    equal: bool
    sets: "tuple[ValueCheck, ...]" = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first node whose result differs, and one element of it by both engines."""

    node: str
    op: str
    element: str
    expected: str
    got: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether the result computes the numbers of the model.

    `accuracy` says how near a model of eight bits is to the float model that it was made of.
    `worst_error` and `tolerance` are those of the value that came closest to its bound.
    """

    status: Literal["equal", "different", "refused", "unverified"]
    text: str
    accuracy: str = ""
    worst_error: float | None = None
    tolerance: float | None = None
    seeds: int = 0
    outputs: tuple[ValueCheck, ...] = ()
    interior_count: int = 0
    interior: tuple[ValueCheck, ...] = ()
    first_difference: FirstDifference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The time of one whole run of the model on one engine: median, 10th and 90th percentile."""

    engine: str
    median_ns: float
    p10_ns: float
    p90_ns: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The result's time, and that of onnxruntime on the model it came from."""

    ours: Timing
    reference: Timing | None = None
    notes: tuple[str, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Our median over the reference's: below 1 is faster. None without a reference."""
        if self.reference is None or self.reference.median_ns <= 0:
            return None
        return self.ours.median_ns / self.reference.median_ns

    @property
    def clear(self) -> bool:
        """Whether the two 10–90 % intervals are apart, so that the ratio means something."""
        ours, other = self.ours, self.reference
        return other is not None and (ours.p90_ns < other.p10_ns or other.p90_ns < ours.p10_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryTime:
    """What one category of operators costs; `share` is of the whole run (0 to 1)."""

    name: str
    time_ns: float
    share: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """How fast an operator ran, and how near to what the machine allows it (0 to 100 percent).

    `bound` is the peak that limits it; `gmacs` is None for an operator that multiplies nothing,
    `limit_gbs` the bandwidth that this machine has for as many bytes as the operator moves.
    """

    gmacs: float | None
    gbs: float | None
    limit_gbs: float | None = None
    percent_of_peak: float
    bound: Literal["compute", "memory"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRow:
    """One operator of the result in execution order: what it is, costs, and comes from.

    `time_ns` is the median (None where nothing was measured), `spread_ns` the distance of the 90th
    from the 10th percentile, `share` of the whole run (0 to 1), `place` the engine that ran it
    ("xnnpack #1", "builtin"), `partition` the index of the delegate partition or None, `origins`
    the names of the model's nodes that it computes, `source` the line of code they came from.
    """

    index: int
    kind: str
    category: str
    kernel: str = ""
    time_ns: float | None = None
    spread_ns: float | None = None
    share: float | None = None
    macs: int = 0
    moved_bytes: int = 0
    roofline: Roofline | None = None
    place: str = ""
    partition: int | None = None
    origins: tuple[str, ...] = ()
    op_types: tuple[str, ...] = ()
    source: str = ""
    output_shape: tuple[int, ...] = ()
    dtype: str = ""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A stretch of operators that one delegate runs, and what ended it ("" for the model's end)."""

    index: int
    ops: int
    place: str = ""
    cut_by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutConversion:
    """A change of the order in which a value is stored: bytes moved, and why that can't be saved.

    `operator` is the index of the operator that does it, where it is an operator of its own.
    """

    value: str
    from_order: str
    to_order: str
    bytes: int
    cause: str
    demanded_by: str
    shape: tuple[int, ...] = ()
    time_ns: float | None = None
    operator: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The layout plan: each conversion left, and whether it is proven that none can be saved.

    Where it is not, `bound_bytes` is what any plan has to move at least.
    """

    minimal: bool
    conversions: tuple[LayoutConversion, ...] = ()
    bound_bytes: int | None = None
    text: str = ""

    @property
    def total_bytes(self) -> int:
        """What all conversions move."""
        return sum(conversion.bytes for conversion in self.conversions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedNode:
    """A node that the target can't take, or that we don't lower so far."""

    name: str
    op: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One cause, all the nodes that are refused for it, and what the user can do about it."""

    cause: str
    nodes: tuple[RefusedNode, ...]
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """How long one step of the conversion took."""

    name: str
    time_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a report shows. `created` is a text that the caller chose; nothing here is timed."""

    title: str
    created: str
    model: ModelFile
    verdict: Verdict
    command: str = ""
    result: ResultFile | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    latency: Latency | None = None
    categories: tuple[CategoryTime, ...] = ()
    operators: tuple[OperatorRow, ...] = ()
    partitions: tuple[Partition, ...] = ()
    plan: Plan | None = None
    accuracy: AccuracyReport | None = None
    remarks: tuple[Remark, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    conversion_ns: float | None = None
    steps: tuple[StepTime, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`; what is no number in JSON (nan, inf) becomes a text."""
        return {"version": VIEW_VERSION, **encode(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "View":
        """Read what `to_json` gave. Raises InvalidRequest for another version or other fields."""
        version = data.get("version")
        if version != VIEW_VERSION:
            raise InvalidRequest(
                f"this straightway reads reports of version {VIEW_VERSION}; got {version!r}"
            )
        fields = {key: value for key, value in data.items() if key != "version"}
        view: View = decode(cls, fields, "view")
        return view
