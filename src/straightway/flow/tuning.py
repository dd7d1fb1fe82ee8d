"""Which ranges and weights a model is rounded by: several are tried on samples that none was made from."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from straightway.flow import files
from straightway.flow.calibration import Sample, Samples
from straightway.flow.tally import decibels
from straightway.flow.translate import LoweredTwice
from straightway.ir import Graph, Node, Value
from straightway.onnx_io.write import to_bytes
from straightway.quant import equalize, rounded_model, rows
from straightway.quant.edges import is_op
from straightway.quant.needed import RENAMES
from straightway.quant.ranges import PERCENTILE
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
FIRST_SAMPLES, EQUALIZED_SAMPLES = 16, 8
# rows come from more samples the smaller the operands are together, and not from every so-manieth
LEAST_SAMPLES, MOST_SAMPLES = 80, 640
MOST_BYTES, GROUP_BYTES = 2**31, 2**28
HELD_EVERY, LEAST_HELD, MOST_HELD = 4, 4, 64
# what all trials of one sample may hold together: a large model is tried on fewer
HELD_BYTES = 2**29
# what is tried; weights are fitted for those that are not farther than this from the best
METHODS: Mapping[str, Sequence[float]] = {
    "mse": (PERCENTILE,),
    "percentile": (PERCENTILE, 99.9),
    "minmax": (PERCENTILE,),
}
NEAR_DB = 3.0
QUICK = {"percentile": (PERCENTILE,), "minmax": (PERCENTILE,)}
# one of so many samples may be a stray one
STRAY = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How to round: the method of the ranges, and whether weights are fitted to what was observed."""

    method: str
    fit: bool
    percentile: float = PERCENTILE

    def __str__(self) -> str:
        share = f" {self.percentile:g}" if self.method == "percentile" else ""
        return f"{self.method}{share}{', weights fitted' if self.fit else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A rounded model, and under which name it computes each value."""

    data: bytes
    names: Mapping[Value, str]


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
            if number % HELD_EVERY == HELD_EVERY - 1 and len(held) < self.held:
                held.append(sample)
            else:
                watch.add(sample.inputs)
        found = {weighing[number][0]: array for number, array in watch.result().items()}
        return found, held if len(held) >= LEAST_HELD else []

    @property
    def held(self) -> int:
        """So many samples are held out."""
        size = sum(value.known_type.size_bytes for value in self.plain.names)
        return int(np.clip(HELD_BYTES // max(size, 1), MOST_HELD // 4, MOST_HELD))

    @property
    def scores(self) -> list[Value]:
        """What a Softmax at the end is taken of: of many outputs it leaves nothing to compare."""
        graph = self.lowered.lowered.graph
        made = [node for node in graph.nodes if is_op(node, "SOFTMAX")]
        ends = [node.operands()[0] for node in made if _is_end(graph, node.output)]
        return [value for value in ends if value in self.plain.names]

    def outputs(
        self, model: Path, names: Mapping[Value, str], samples: Sequence[Sample]
    ) -> list[list[np.ndarray]]:
        """What a model gives for each sample: its outputs of floats, and what Softmaxes take."""
        inside = [names[value] for value in self.scores if value in names]
        found = []
        for sample in samples:
            call = ort.run(model, sample.inputs, optimise=False, extra_outputs=inside)
            arrays = self.child.call(call)
            found.append([array for array in arrays.values() if array.dtype.kind == "f"])
        return found

    def sqnr_db(
        self, want: Sequence[Sequence[np.ndarray]], made: Made, samples: Sequence[Sample]
    ) -> float:
        """Signal to error over all samples but for the worst, the mean over what is compared."""
        with files.scratch("trial.onnx", made.data) as path:
            got = self.outputs(path, made.names, samples)
        kinds = zip(zip(*want, strict=True), zip(*got, strict=True), strict=True)
        found = [_decibels(exact, rounded) for exact, rounded in kinds]
        return float(np.mean(found)) if found else 0.0


def _decibels(want: Sequence[np.ndarray], got: Sequence[np.ndarray]) -> float:
    """Signal to error without the samples of the greatest error: a stray one must not decide alone."""
    pairs = zip(want, got, strict=True)
    errors = [float(((a.astype(np.float64) - b) ** 2).sum()) for a, b in pairs]
    kept = np.argsort(np.nan_to_num(errors, nan=np.inf))[: len(errors) - len(errors) // STRAY]
    signal = sum(float((want[k].astype(np.float64) ** 2).sum()) for k in kept)
    return decibels(signal, sum(errors[k] for k in kept))


def _is_end(graph: Graph, value: Value) -> bool:
    """Whether a value is an output, if perhaps in another shape."""
    if graph.is_output(value):
        return True
    users = value.users()
    return len(users) == 1 and is_op(users[0], *RENAMES) and _is_end(graph, users[0].output)


def _operand(node: Node) -> Value | None:
    """What the weights of an op that can be fitted are multiplied with."""
    row = ROWS.get(node.op.name)
    is_one = row is not None and row.quant == "weights" and rows.is_known(node)
    return node.inputs[0] if is_one else None


def best(
    trial: Trial,
    samples: Sequence[Sample],
    asked: Recipe,
    made: Callable[[Recipe], Made],
    auto: Mapping[str, Sequence[float]] = METHODS,
) -> tuple[Recipe, list[Remark]]:
    """Try recipes, keep the one by which the outputs are nearest to the float model's.

    Weights are fitted for those near the best only. `auto`: what is tried where no method is asked for.
    """
    methods = auto if asked.method == AUTO else {asked.method: (asked.percentile,)}
    tried = [
        Recipe(method=method, fit=False, percentile=share)
        for method, shares in methods.items()
        for share in shares
    ]
    want = trial.outputs(trial.path, trial.plain.names, samples)
    scores = {recipe: trial.sqnr_db(want, made(recipe), samples) for recipe in tried}
    if asked.fit:
        least = max(scores.values()) - NEAR_DB
        for recipe in [one for one in tried if scores[one] >= least]:
            again = replace(recipe, fit=True)
            scores[again] = trial.sqnr_db(want, made(again), samples)
    chosen = max(scores, key=lambda recipe: scores[recipe])
    others = ", ".join(f"{one} {score:.1f} dB" for one, score in scores.items() if one != chosen)
    where = plural(len(samples), "sample")
    text = f"ranges by {chosen}: {scores[chosen]:.1f} dB on {where}; {others}"
    numbers = {"sqnr_db": scores[chosen], "gain_db": scores[chosen] - min(scores.values())}
    return chosen, [Remark(kind="measured", step=STEP, text=text, numbers=numbers)]


def equalized(
    lowered: LoweredTwice,
    samples: Samples,
    child: Child,
    score_db: Callable[[Sequence[Sample]], float] | None,
) -> list[Remark]:
    """Bring channels to like ranges, by the first samples; with a score only where that raises it."""
    graph = lowered.lowered.graph
    found = equalize.chains(graph)
    first = list(itertools.islice(samples, FIRST_SAMPLES)) if found else []
    if not first:
        return []
    peaks = _peaks(lowered, [chain.value for chain in found], first, child)
    if score_db is None:
        return equalize.run(graph, found, peaks)
    tried = first[:EQUALIZED_SAMPLES]
    before, saved = score_db(tried), equalize.parameters(found)
    remarks = equalize.run(graph, found, peaks)
    after = score_db(tried) if remarks else before
    gains = f"({after:.1f} dB instead of {before:.1f} on {plural(len(tried), 'sample')})"
    if after > before:
        return [replace(one, text=f"{one.text} {gains}") for one in remarks]
    equalize.restore(saved)
    text = f"channels of unlike ranges stay so: equalized, they are not nearer {gains}"
    return [Remark(kind="measured", step=STEP, text=text)] if remarks else []


def _peaks(
    lowered: LoweredTwice, values: Sequence[Value], samples: Sequence[Sample], child: Child
) -> dict[Value, np.ndarray]:
    """The greatest magnitude of each channel."""
    plain = rounded_model.floats_of(lowered.source, lowered.lowered)
    names = {value: plain.names[value] for value in values if value in plain.names}
    wanted = list(names.values())
    peaks: dict[Value, np.ndarray] = {}
    with files.scratch("float.onnx", to_bytes(plain.graph, OPSET, {})) as path:
        for sample in samples:
            arrays = child.call(ort.run(path, sample.inputs, outputs=wanted, extra_outputs=wanted))
            for value, name in names.items():
                others = tuple(k for k in range(value.rank) if k != 1)
                most = np.abs(arrays[name]).max(others)
                peaks[value] = np.maximum(peaks.get(value, 0.0), most)
    return peaks
