"""Which ranges and weights a model is rounded by: several are tried on samples that none was made from."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from straightway.flow import files
from straightway.flow.calibration import Sample, Samples
from straightway.flow.tally import Tally
from straightway.flow.translate import LoweredTwice
from straightway.ir import Node, Value
from straightway.onnx_io.write import to_bytes
from straightway.quant import equalize, rounded_model, rows
from straightway.quant.rounded_model import Model
from straightway.quant.spelling import OPSET
from straightway.remark import Remark
from straightway.report.quantity import plural
from straightway.run import ort
from straightway.run.process import Child
from straightway.run.rows import RowDrawer
from straightway.tflite.rows import ROWS

STEP = "flow.tuning"
AUTO = "auto"
# so many samples equalize channels
FIRST_SAMPLES = 16
# rows come from more samples the smaller the operands are together, and not from every so-manieth
LEAST_SAMPLES, MOST_SAMPLES = 80, 640
MOST_BYTES, GROUP_BYTES = 2**31, 2**28
HELD_EVERY, LEAST_HELD, MOST_HELD = 5, 4, 16
METHODS = ("mse", "percentile", "minmax")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to round: the method of the ranges, and whether weights are fitted to what was observed."""

    method: str
    fit: bool

    def __str__(self) -> str:
        return self.method if self.fit else f"{self.method} with weights rounded to nearest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A model in floats, at `path`, whose rows and outputs are asked for."""

    child: Child
    path: Path
    lowered: LoweredTwice
    plain: Model

    def rows(self, samples: Samples) -> tuple[dict[Node, np.ndarray], list[Sample]]:
        """Rows of the operands that weights are multiplied with, and samples that gave none."""
        names, hidden = self.plain.names, self.lowered.hidden
        weighing: list[tuple[Node, str]] = []
        for node in self.lowered.lowered.graph.nodes:
            x = _operand(node)
            if x is not None and x in names and x.name not in hidden:
                weighing.append((node, names[x]))
        size = sum(node.operands()[0].known_type.size_bytes for node, _ in weighing)
        most = int(np.clip(MOST_BYTES // max(size, 1), LEAST_SAMPLES, MOST_SAMPLES))
        count = min(samples.count or most, most)
        at_once = max(len(weighing) * GROUP_BYTES // max(size, GROUP_BYTES), 1)
        specs = rows.specs(weighing, max(count - count // HELD_EVERY, 1))
        watch = RowDrawer(self.child, self.path, specs, at_once)
        held: list[Sample] = []
        for number, sample in enumerate(itertools.islice(samples, most)):
            if number % HELD_EVERY == HELD_EVERY - 1 and len(held) < MOST_HELD:
                held.append(sample)
            else:
                watch.add(sample.inputs)
        found = {weighing[number][0]: array for number, array in watch.result().items()}
        return found, held if len(held) >= LEAST_HELD else []

    def outputs(self, model: Path, samples: Sequence[Sample]) -> list[dict[str, np.ndarray]]:
        """What a model gives for each sample."""
        calls = (ort.run(model, sample.inputs, optimise=False) for sample in samples)
        return [self.child.call(call) for call in calls]

    def sqnr_db(
        self, want: Sequence[Mapping[str, np.ndarray]], data: bytes, samples: Sequence[Sample]
    ) -> float:
        """Signal to error over all samples, the mean over the outputs."""
        tallies: dict[str, Tally] = {}
        with files.scratch("trial.onnx", data) as path:
            for exact, rounded in zip(want, self.outputs(path, samples), strict=True):
                for name, array in exact.items():
                    if array.dtype.kind == "f":
                        tallies.setdefault(name, Tally()).add(array, rounded[name])
        found = [tally.sqnr_db for tally in tallies.values()]
        return float(np.mean(found)) if found else 0.0


def _operand(node: Node) -> Value | None:
    """What the weights of an op that can be fitted are multiplied with."""
    row = ROWS.get(node.op.name)
    is_one = row is not None and row.quant == "weights" and rows.is_known(node)
    return node.inputs[0] if is_one else None


def best(
    trial: Trial, samples: Sequence[Sample], asked: Recipe, made: Callable[[Recipe], bytes]
) -> tuple[Recipe, list[Remark]]:
    """Try recipes, keep the one by which the outputs are nearest to the float model's."""
    methods = METHODS if asked.method == AUTO else (asked.method,)
    tried = [Recipe(method=method, fit=asked.fit) for method in methods]
    want = trial.outputs(trial.path, samples)
    scores = {recipe: trial.sqnr_db(want, made(recipe), samples) for recipe in tried}
    if asked.fit:
        nearest = Recipe(method=max(scores, key=lambda r: scores[r]).method, fit=False)
        scores[nearest] = trial.sqnr_db(want, made(nearest), samples)
    chosen = max(scores, key=lambda recipe: scores[recipe])
    others = ", ".join(f"{one} {score:.1f} dB" for one, score in scores.items() if one != chosen)
    where = plural(len(samples), "sample")
    text = f"ranges by {chosen}: {scores[chosen]:.1f} dB on {where}; {others}"
    numbers = {"sqnr_db": scores[chosen], "gain_db": scores[chosen] - min(scores.values())}
    return chosen, [Remark(kind="measured", step=STEP, text=text, numbers=numbers)]


def equalized(lowered: LoweredTwice, samples: Samples, child: Child) -> list[Remark]:
    """Bring channels to like ranges, by the first samples."""
    graph = lowered.lowered.graph
    found = equalize.chains(graph)
    if not found:
        return []
    plain = rounded_model.floats_of(lowered.source, lowered.lowered)
    names = {chain.value: plain.names[chain.value] for chain in found if chain.value in plain.names}
    peaks: dict[Value, np.ndarray] = {}
    with files.scratch("float.onnx", to_bytes(plain.graph, OPSET, {})) as path:
        for sample in itertools.islice(samples, FIRST_SAMPLES):
            call = ort.run(
                path,
                sample.inputs,
                outputs=list(names.values()),
                extra_outputs=list(names.values()),
            )
            arrays = child.call(call)
            for value, name in names.items():
                others = tuple(k for k in range(value.rank) if k != 1)
                most = np.abs(arrays[name]).max(others)
                peaks[value] = np.maximum(peaks.get(value, 0.0), most)
    return equalize.run(graph, found, peaks)
