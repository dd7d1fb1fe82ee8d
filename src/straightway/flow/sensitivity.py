"""How much of the end error each rounding causes: measured by switching it on alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from straightway.flow.calibration import Sample
from straightway.flow.inputs import Arrays
from straightway.ir import Node, Value
from straightway.quant.assignment import Assignment
from straightway.quant.placement import Errors, macs
from straightway.quant.sensitivity import SWITCHES, Rounding, is_on, is_silent
from straightway.run import ort
from straightway.run.process import Child

Advance = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What each rounding does to the outputs when only it is there.

    `alone` has a row for each of `roundings` and a column for each output of floats: the error's
    energy over the signal's. `together` is that of all roundings at once.
    """

    roundings: tuple[Rounding, ...]
    outputs: tuple[str, ...]
    alone: np.ndarray
    together: np.ndarray
    samples: int

    def errors(self) -> np.ndarray:
        """One number for each rounding: its error's energy over the output's, the mean of the outputs."""
        return np.asarray(self.alone.mean(axis=1)) if self.outputs else np.zeros(len(self.alone))

    def shares(self, assignment: Assignment) -> dict[str, float]:
        """The share of each node in the sum of all errors that are left: its constants and results.

        What rounds an input is counted to the name of the input.
        """
        on = [is_on(rounding, assignment) for rounding in self.roundings]
        errors = np.where(on, self.errors(), 0.0) if on else np.zeros(0)
        total = float(errors.sum())
        found: dict[str, float] = {}
        for rounding, error in zip(self.roundings, errors, strict=True):
            name = owner(rounding)
            found[name] = found.get(name, 0.0) + (float(error) / total if total else 0.0)
        return found

    def weighed(self, nodes: Iterable[Node], factor: float) -> Errors:
        """The errors as bytes, so that a cut can hold them against conversions."""
        values: dict[Value, int] = {}
        by_name: dict[str, float] = {}
        for rounding, error in zip(self.roundings, self.errors(), strict=True):
            if rounding.value is not None:
                values[rounding.value] = round(factor * float(error))
            else:
                by_name[rounding.node] = by_name.get(rounding.node, 0.0) + float(error)
        constants = {
            n: round(factor * by_name[n.name]) for n in nodes if n.name in by_name and macs(n)
        }
        return Errors(
            values={value: lost for value, lost in values.items() if lost},
            nodes={node: lost for node, lost in constants.items() if lost},
        )


def owner(rounding: Rounding) -> str:
    """The node that a rounding is counted to: that which makes the value or has the constants."""
    if rounding.value is None:
        return rounding.node
    producer = rounding.value.producer
    return rounding.value.name if producer is None else producer.name


@dataclass(slots=True, kw_only=True)
class Switchboard:
    """Runs a switched model on samples with any set of roundings.

    `plain` has each sample's outputs with all roundings off.
    """

    child: Child
    path: Path
    samples: Sequence[Sample]
    count: int
    plain: list[Arrays] = field(default_factory=list)

    def outputs(self) -> tuple[str, ...]:
        """The outputs of floats."""
        return tuple(name for name, array in self._plain()[0].items() if array.dtype.kind == "f")

    def error(self, on: np.ndarray) -> np.ndarray:
        """For each output the energy of what these roundings change, over its own."""
        names = self.outputs()
        changed, signal = np.zeros(len(names)), np.zeros(len(names))
        for sample, want in zip(self.samples, self._plain(), strict=True):
            got = self._run(sample, on)
            for k, name in enumerate(names):
                a, b = (np.asarray(v[name], np.float64) for v in (want, got))
                both = np.isfinite(a) & np.isfinite(b)
                changed[k] += float(((a - b)[both] ** 2).sum())
                signal[k] += float((a[both] ** 2).sum())
        return np.divide(changed, signal, out=np.where(changed > 0, 1.0, 0.0), where=signal > 0)

    def _plain(self) -> list[Arrays]:
        if not self.plain:
            off = np.zeros(self.count, np.bool_)
            self.plain = [self._run(sample, off) for sample in self.samples]
        return self.plain

    def _run(self, sample: Sample, on: np.ndarray) -> Arrays:
        return self.child.call(ort.run(self.path, {**sample.inputs, SWITCHES: on}))


def measure(
    board: Switchboard, roundings: Sequence[Rounding], assignment: Assignment, advance: Advance
) -> Sensitivity:
    """Switch every rounding on alone, then all together."""
    names = board.outputs()
    alone = np.zeros((len(roundings), len(names)))
    for place, rounding in enumerate(roundings):
        if not is_silent(rounding, assignment):
            on = np.zeros(len(roundings), np.bool_)
            on[place] = True
            alone[place] = board.error(on)
        advance(place + 1, len(roundings))
    return Sensitivity(
        roundings=tuple(roundings),
        outputs=names,
        alone=alone,
        together=board.error(np.ones(len(roundings), np.bool_)),
        samples=len(board.samples),
    )
