"""How near a model that rounds is to the float model, by onnxruntime: outputs, nodes, channels, branches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from straightway.errors import Bug
from straightway.flow.calibration import Sample
from straightway.flow.tally import Tally, relative
from straightway.flow.tolerance import compare
from straightway.ir import Graph, Value
from straightway.quant.assignment import Assignment
from straightway.quant.branch import branches, channel_axis
from straightway.quant.rounded_model import Model
from straightway.run import ort
from straightway.run.process import Child


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value: its name, the node that makes it, signal to error in dB, the greatest error.

    All that was rounded before it counts, and its own rounding. `saturated` is the share of its
    elements that its scale cuts off, None where it is not stored in integers; `low` and `high` are what
    the scale holds. `channel` is its least accurate channel, `channels_db` the signal to error of each.
    `before` and `after` count its elements in bins of equal width from `bins_low` to `bins_high`, as floats and
    rounded. `share` is that of its node in the end error, None where that was not measured.
    """

    name: str
    node: str
    op: str
    sqnr_db: float
    max_error: float
    saturated: float | None = None
    low: float | None = None
    high: float | None = None
    channel: int | None = None
    channels_db: tuple[float, ...] = ()
    bins_low: float = 0.0
    bins_high: float = 0.0
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    share: float | None = None
    is_float: bool = True

    @property
    def channel_db(self) -> float | None:
        """Signal to error of the least accurate channel."""
        return None if self.channel is None else self.channels_db[self.channel]


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchRow:
    """Nodes in a row, from a fork or join to the next: what goes in, what comes out, their share."""

    first: str
    last: str
    values: tuple[str, ...]
    from_db: float | None
    to_db: float
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Rows of the outputs, then of the values inside, in order; branches; on how many samples.

    `inputs` has the share of each input's rounding. `shares_note` says how the shares were measured.
    """

    outputs: tuple[Row, ...]
    inside: tuple[Row, ...] = field(default=())
    branches: tuple[BranchRow, ...] = ()
    samples: int = 0
    inputs: Mapping[str, float] = field(default_factory=dict)
    shares_note: str = ""

    @property
    def loss(self) -> float:
        """The greatest error of an output of floats over the output, each its root mean square."""
        return max((relative(row.sqnr_db) for row in self.outputs if row.is_float), default=0.0)

    def worst(self, count: int) -> list[Row]:
        """The least accurate values, all errors before them carried on."""
        return sorted(self.inside, key=lambda row: row.sqnr_db)[:count]

    def causes(self, count: int) -> list[Row]:
        """The nodes that cause most of the end error, the first the most; none where not measured."""
        known = [row for row in self.inside if row.share]
        return sorted(known, key=lambda row: -(row.share or 0.0))[:count]


def accuracy(
    child: Child,
    paths: tuple[Path, Path, Path],
    samples: Sequence[Sample],
    models: tuple[Model, Model],
    given: Assignment,
) -> Accuracy:
    """Compare the rounded model with the float one; and that one with the user's, which it must equal."""
    original, plain_path, rounded_path = paths
    plain, made = models
    _check_same(child, original, plain_path, samples[0])
    inputs = {v.name for v in plain.graph.inputs}
    shared: dict[str, Value] = {
        plain.names[v]: v
        for v in plain.names
        if v in made.names and v.dtype.kind == "f" and v.producer and plain.names[v] not in inputs
    }
    after = read_as(made.graph)
    other = {name: after[made.names[value]] for name, value in shared.items()}
    outputs = list(plain.graph.output_names)
    axes = _output_axes(plain)
    tallies = {name: Tally(axis=axes.get(name)) for name in outputs}
    tallies |= {
        name: Tally(axis=channel_axis(value), scheme=given.schemes.get(value))
        for name, value in shared.items()
    }
    for sample in samples:
        want = child.call(
            ort.run(plain_path, sample.inputs, optimise=False, extra_outputs=list(shared))
        )
        got = child.call(
            ort.run(
                rounded_path,
                sample.inputs,
                optimise=False,
                extra_outputs=list(dict.fromkeys(other.values())),
            )
        )
        for name, tally in tallies.items():
            tally.add(want[name], got[other.get(name, name)])
    rows = {value: _row(name, value, tallies[name]) for name, value in shared.items()}
    return Accuracy(
        outputs=tuple(
            replace(_row(name, None, tallies[name]), is_float=want[name].dtype.kind == "f")
            for name in outputs
        ),
        inside=tuple(rows.values()),
        branches=tuple(_branches(rows)),
        samples=len(samples),
    )


def _output_axes(plain: Model) -> dict[str, int | None]:
    """The dimension of each output that counts channels."""
    values = {name: value for value, name in plain.names.items()}
    made = zip(plain.graph.output_names, plain.graph.outputs, strict=True)
    sources = {name: value.producer for name, value in made}
    return {
        name: channel_axis(values[node.operands()[0].name])
        for name, node in sources.items()
        if node is not None and node.operands()[0].name in values
    }


def read_as(graph: Graph) -> dict[str, str]:
    """Under which name each value of a rounded graph is read: its own, or that of what it rounds to."""
    found = {value.name: value.name for value in graph.values()}
    for node in reversed(list(graph.nodes)):
        if node.op.name == "DequantizeLinear":
            quantize = node.operands()[0].producer
            if quantize is not None:
                found[quantize.operands()[0].name] = found[node.output.name]
    return found


def _row(name: str, value: Value | None, tally: Tally) -> Row:
    node = None if value is None else value.producer
    channels = tally.channels_db
    scheme = tally.scheme
    ends = None
    if scheme is not None:
        ends = [(end - scheme.zero_point) * scheme.scale for end in scheme.limits]
    return Row(
        name=name,
        node=node.name if node is not None else "",
        op=node.op.name if node is not None else "",
        sqnr_db=tally.sqnr_db,
        max_error=tally.worst,
        saturated=tally.saturated,
        low=None if ends is None else ends[0],
        high=None if ends is None else ends[1],
        channel=int(np.argmin(channels)) if channels else None,
        channels_db=channels,
        bins_low=tally.ends[0],
        bins_high=tally.ends[1],
        before=tuple(int(n) for n in tally.before),
        after=tuple(int(n) for n in tally.after),
    )


def _branches(rows: Mapping[Value, Row]) -> list[BranchRow]:
    """The branches of the graph that hold compared values."""
    found = []
    for members in branches(list(rows)):
        first, last = rows[members[0]], rows[members[-1]]
        producer = members[0].producer
        before = [] if producer is None else [rows[v] for v in producer.operands() if v in rows]
        found.append(
            BranchRow(
                first=first.node,
                last=last.node,
                values=tuple(rows[value].name for value in members),
                from_db=min((row.sqnr_db for row in before), default=None),
                to_db=last.sqnr_db,
            )
        )
    return found


def with_shares(near: Accuracy, shares: Mapping[str, float], note: str) -> Accuracy:
    """Give each node's share to the row of its last value, and to its branch."""
    last = {row.node: row for row in near.inside}
    inside = tuple(
        replace(row, share=shares.get(row.node, 0.0) if last[row.node] is row else 0.0)
        for row in near.inside
    )
    held = {row.name: row.share or 0.0 for row in inside}
    branches_ = tuple(
        replace(one, share=sum(held[name] for name in one.values)) for one in near.branches
    )
    nodes = set(last)
    inputs = {name: share for name, share in shares.items() if name not in nodes}
    return replace(near, inside=inside, branches=branches_, inputs=inputs, shares_note=note)


def _check_same(child: Child, original: Path, plain: Path, sample: Sample) -> None:
    """The float model that is rounded computes what the user's does."""
    inputs: Mapping[str, np.ndarray] = sample.inputs
    want = child.call(ort.run(original, inputs, optimise=False))
    other = child.call(ort.run(original, inputs))
    got = child.call(ort.run(plain, inputs, optimise=False))
    for name in want:
        check = compare(name, want[name], got[name], other[name])
        if not check.equal:
            raise Bug(f"{original}: its respelling computes another '{name}': {check.reason}")
