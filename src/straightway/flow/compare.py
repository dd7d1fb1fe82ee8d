"""`compare`: which of two files is nearer to the model that both stand for, output by output."""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from straightway.errors import InvalidRequest
from straightway.flow.calibration import Pictures, Sample, open_data
from straightway.flow.contender import Contender, contender
from straightway.flow.progress import Step, quiet
from straightway.flow.reopening import sized
from straightway.flow.tally import Tally
from straightway.flow.translate import read
from straightway.ingest.shapes import ShapeRequest
from straightway.ir import Graph
from straightway.passes.types import infer
from straightway.quant.branch import branches
from straightway.run import ort
from straightway.run.process import Child
from straightway.tflite.read import is_tflite
from straightway.trace.difference import Difference, difference
from straightway.trace.schema import FORMAT, Trace

Verdict = Literal["a", "b", "same", "mixed"]
SAMPLES = 16
# inner values are looked at on fewer
SAMPLES_INSIDE = 4
# so many standard errors are beyond chance: 95 in 100
CLEAR = 2.0
# differences below are none, however sure
LEAST_DB = 0.1
_HEAD_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """How to compare: the float `reference`, and on which data (as for `quantize`).

    `max_drop_db`: where an output of the second is farther from the reference than that of the first
    by more, the comparison fails.
    """

    reference: str | Path | None = None
    calibration: "str | Path | Callable[[], Iterable[object]] | None" = None
    random: int = 0
    pictures: Pictures | None = None
    samples: int = SAMPLES
    max_drop_db: float | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    step: Step = quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One value of the float model: how far both files are from it, in dB; None where one lacks it.

    `gain_db` is what the second is nearer by, the mean over samples; `error_db` that mean's standard
    error, infinite for one sample.
    """

    name: str
    node: str = ""
    op: str = ""
    a_db: float | None
    b_db: float | None
    gain_db: float = 0.0
    error_db: float = math.inf

    @property
    def nearer(self) -> Verdict:
        """Which file is nearer beyond chance."""
        clear = abs(self.gain_db) > max(CLEAR * self.error_db, LEAST_DB)
        return "same" if not clear else "b" if self.gain_db > 0 else "a"

    @property
    def differs(self) -> bool:
        """Whether the files differ beyond chance; of one sample, whose spread is not known, at all."""
        is_alone = math.isinf(self.error_db)
        return abs(self.gain_db) > LEAST_DB if is_alone else self.nearer != "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPair:
    """The last compared value of a branch of the float model, from a fork or join to the next."""

    first: str
    last: str
    nodes: int
    a_db: float | None
    b_db: float | None
    differs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both files against the float model: outputs, inner values, branches; on how many samples."""

    a: Path
    b: Path
    reference: Path
    data: str
    is_random: bool
    samples: int
    outputs: tuple[Pair, ...]
    inside: tuple[Pair, ...]
    branches: tuple[BranchPair, ...]
    max_drop_db: float | None = None

    @property
    def verdict(self) -> Verdict:
        """Which file is nearer in its outputs; "mixed" where they disagree."""
        found = {pair.nearer for pair in self.outputs} - {"same"}
        if len(found) > 1:
            return "mixed"
        return found.pop() if found else "same"

    @property
    def fails(self) -> bool:
        """Whether the second is farther than the request allows."""
        return self.max_drop_db is not None and any(
            -pair.gain_db > self.max_drop_db for pair in self.outputs
        )


def request_of(options: Mapping[str, object]) -> CompareRequest:
    """Read the options of `compare`; raises InvalidRequest for one that it does not have."""
    try:
        return CompareRequest(**options)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidRequest(f"compare: {error}") from error


def compare(a: str | Path, b: str | Path, request: CompareRequest) -> "Comparison | Difference":
    """Compare two files of one kind: quantized models, ONNX or TFLite, or two traces.

    Raises InvalidRequest, InvalidModel, Mismatch where a file is another model's, ToolFailed.
    """
    paths = Path(a), Path(b)
    kinds = [kind_of(path) for path in paths]
    if kinds == ["trace", "trace"]:
        first, second = (Trace.from_json(path.read_text(encoding="utf-8")) for path in paths)
        return difference(first, second)
    programs = [path for path in paths if path.suffix.lower() == ".pte"]
    if programs:
        raise InvalidRequest(
            f"{programs[0]}: of ExecuTorch programs compare takes traces: straightway profile "
            f"{programs[0].name} -o a.json"
        )
    if kinds != ["model", "model"]:
        odd = paths[kinds[0] == "model"]
        raise InvalidRequest(
            f"{odd}: compare takes two quantized models, .onnx or .tflite, or two traces of `profile`"
        )
    return _models(paths, request)


def kind_of(path: Path) -> str:
    """What a file is: "model", "trace" or "data"; raises InvalidRequest where there is none."""
    if not path.is_file():
        raise InvalidRequest(f"{path}: there is no such file")
    with path.open("rb") as file:
        if FORMAT.encode() in file.read(_HEAD_BYTES):
            return "trace"
    known = is_tflite(path) or path.suffix.lower() not in (".json", ".npz", ".npy", ".txt", ".html")
    return "model" if known else "data"


def _models(paths: tuple[Path, Path], request: CompareRequest) -> Comparison:
    if request.reference is None:
        raise InvalidRequest(
            "compare needs the float model of which both were made: --reference FLOAT.onnx"
        )
    if request.samples < 1:
        raise InvalidRequest(f"a comparison needs at least one sample; got {request.samples}")
    path = Path(request.reference)
    shapes = ShapeRequest(dims=request.dims, shapes=request.shapes)
    request.step("reading")
    declared = read(path, replace(shapes, keep_open=True))
    shapes = sized(
        declared, shapes, request.calibration, pictures=request.pictures, random=request.random
    )
    graph = read(path, shapes)
    _type_all(graph)
    data = open_data(request.calibration, graph, pictures=request.pictures, random=request.random)
    samples = list(itertools.islice(data, request.samples))
    if not samples:
        raise InvalidRequest(f"{data.description}: there is no sample in it")
    sides = tuple(contender(one, graph) for one in paths)
    with Child(engines=["litert", "onnxruntime"]) as child:
        ends = _Ends(child=child, path=path, sides=(sides[0], sides[1]))
        request.step("comparing outputs")
        outputs = ends.outputs(samples)
        request.step("comparing inner values")
        inside = ends.inside(graph, samples[:SAMPLES_INSIDE])
    return Comparison(
        a=paths[0],
        b=paths[1],
        reference=path,
        data=data.description,
        is_random=data.is_random,
        samples=len(samples),
        outputs=tuple(outputs),
        inside=tuple(inside),
        branches=tuple(_branches(graph, inside)),
        max_drop_db=request.max_drop_db,
    )


def _type_all(graph: Graph) -> None:
    """Type what the file says nothing of, as far as it can be told."""
    for node in graph.nodes:
        if any(value.type is None for value in node.outputs) and not node.graphs():
            for value, kind in zip(node.outputs, infer(node, graph.opsets), strict=True):
                value.type = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Runs the float model and both files."""

    child: Child
    path: Path
    sides: tuple[Contender, Contender]

    def outputs(self, samples: Sequence[Sample]) -> list[Pair]:
        """Every output, on all samples."""
        tallies: dict[str, tuple[Tally, Tally]] = {}
        for sample in samples:
            want = self.child.call(ort.run(self.path, sample.inputs))
            for place, side in enumerate(self.sides):
                got = side.outputs(self.child, sample.inputs, want)
                for name, array in want.items():
                    both = tallies.setdefault(name, (Tally(), Tally()))
                    both[place].add(array, got[name])
        return [_pair(name, *both) for name, both in tallies.items()]

    def inside(self, graph: Graph, samples: Sequence[Sample]) -> list[Pair]:
        """Every inner value that one of the files has, on some samples."""
        known = {name for side in self.sides for name in side.inner}
        nodes = {v.name: node for node in graph.nodes for v in node.outputs if v.name in known}
        if not nodes:
            return []
        tallies = {name: (Tally(), Tally()) for name in nodes}
        for sample in samples:
            call = ort.run(self.path, sample.inputs, optimise=False, extra_outputs=list(nodes))
            want = self.child.call(call)
            for place, side in enumerate(self.sides):
                got = side.inside(self.child, sample.inputs, want)
                for name, array in got.items():
                    tallies[name][place].add(want[name], array)
        pairs = (_pair(n, *tallies[n], node=v.name, op=v.op.name) for n, v in nodes.items())
        return [pair for pair in pairs if (pair.a_db, pair.b_db) != (None, None)]


def _pair(name: str, a: Tally, b: Tally, *, node: str = "", op: str = "") -> Pair:
    both = a.dbs and b.dbs
    gains = np.subtract(b.dbs, a.dbs) if both else np.zeros(0)
    error = float(gains.std(ddof=1) / np.sqrt(gains.size)) if gains.size > 1 else math.inf
    return Pair(
        name=name,
        node=node,
        op=op,
        a_db=a.sqnr_db if a.dbs else None,
        b_db=b.sqnr_db if b.dbs else None,
        gain_db=float(gains.mean()) if gains.size else 0.0,
        error_db=error,
    )


def _branches(graph: Graph, inside: Sequence[Pair]) -> list[BranchPair]:
    """The branches of the float model in which something was compared."""
    by_name = {pair.name: pair for pair in inside}
    values = [v for node in graph.nodes for v in node.outputs]
    found = []
    for members in branches(values):
        seen = [by_name[value.name] for value in members if value.name in by_name]
        ends = [value.producer.name for value in members if value.producer is not None]
        if seen and ends:
            found.append(
                BranchPair(
                    first=ends[0],
                    last=ends[-1],
                    nodes=len(members),
                    a_db=seen[-1].a_db,
                    b_db=seen[-1].b_db,
                    differs=seen[-1].differs,
                )
            )
    return found
