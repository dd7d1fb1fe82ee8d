"""How near a model that rounds is to the float model, by onnxruntime: each output, each node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from straightway.errors import Bug
from straightway.flow.calibration import Sample
from straightway.flow.tolerance import compare
from straightway.ir import Value
from straightway.quant.rounded_model import Model
from straightway.run import ort
from straightway.run.process import Child

# beyond, a difference is nothing but the last bits of floats
MOST_DB = 150.0


@dataclass(slots=True, kw_only=True)
class Power:
    """Sums of squares of a signal and of its error, the greatest error, elements."""

    signal: float = 0.0
    error: float = 0.0
    worst: float = 0.0

    def add(self, want: np.ndarray, got: np.ndarray) -> None:
        """Compare one more array; what is not finite on either side is left out."""
        a, b = (np.asarray(v, np.float64).ravel() for v in (want, got))
        both = np.isfinite(a) & np.isfinite(b)
        apart = np.abs(a[both] - b[both])
        self.signal += float((a[both] ** 2).sum())
        self.error += float((apart**2).sum())
        self.worst = max(self.worst, float(apart.max(initial=0.0)))

    @property
    def sqnr_db(self) -> float:
        """Signal to error, in decibels."""
        if self.error == 0:
            return MOST_DB
        if self.signal == 0:
            return -MOST_DB
        return min(10 * float(np.log10(self.signal / self.error)), MOST_DB)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One value: its name, the node that makes it, signal to error in dB, the greatest error.

    `own_db`: the same where only this node's operands and result are rounded, not all before it.
    """

    name: str
    node: str
    op: str
    sqnr_db: float
    max_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Rows of the outputs, then of the values inside, in order; on how many samples."""

    outputs: tuple[Row, ...]
    inside: tuple[Row, ...] = field(default=())
    samples: int = 0

    def worst(self, count: int) -> list[Row]:
        """Nodes that lose most by themselves: the drop from the worst of what they read."""
        return sorted(self.inside, key=lambda row: row.sqnr_db)[:count]


def accuracy(
    child: Child,
    paths: tuple[Path, Path, Path],
    samples: Sequence[Sample],
    models: tuple[Model, Model],
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
    other = {name: made.names[value] for name, value in shared.items()}
    outputs = list(plain.graph.output_names)
    powers = {name: Power() for name in (*outputs, *shared)}
    for sample in samples:
        want = child.call(
            ort.run(plain_path, sample.inputs, optimise=False, extra_outputs=list(shared))
        )
        got = child.call(
            ort.run(rounded_path, sample.inputs, optimise=False, extra_outputs=list(other.values()))
        )
        for name, power in powers.items():
            power.add(want[name], got[other.get(name, name)])
    return Accuracy(
        outputs=tuple(_row(name, None, powers[name]) for name in outputs),
        inside=tuple(_row(name, value, powers[name]) for name, value in shared.items()),
        samples=len(samples),
    )


def _row(name: str, value: Value | None, power: Power) -> Row:
    node = None if value is None else value.producer
    return Row(
        name=name,
        node=node.name if node is not None else "",
        op=node.op.name if node is not None else "",
        sqnr_db=power.sqnr_db,
        max_error=power.worst,
    )


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
