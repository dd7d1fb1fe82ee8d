"""`profile`: a model file operator by operator, as it is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from straightway.errors import InvalidRequest, StraightwayError
from straightway.flow import candidate
from straightway.flow.convert import Request, input_sets
from straightway.flow.inputs import Arrays
from straightway.flow.open import given, runs_on, several, sizes_in, usual
from straightway.flow.reference import Oracle
from straightway.flow.translate import read
from straightway.ingest.shapes import open_dims
from straightway.ir import Graph
from straightway.run import litert, ort
from straightway.run.process import Child
from straightway.tflite.read import is_tflite
from straightway.trace.schema import Trace

# More than a device that runs such models has; LiteRT dies of some thousands.
MOST_THREADS = 256
LONGEST_TRIAL_S = 20.0


def profile(model: Path, request: Request, *, runs: int = 30, threads: int = 1) -> Trace:
    """Measure a .tflite file on LiteRT, or an .onnx file on onnxruntime.

    On the request's inputs, else on seeded ones; dimensions that stay open have usual sizes, which the
    trace names. Raises InvalidRequest for any other file.
    """
    if runs < 1 or not 1 <= threads <= MOST_THREADS:
        raise InvalidRequest(
            f"a profile takes one run or more, and one thread to {MOST_THREADS}; "
            f"got {runs}, {threads}"
        )
    suffix = model.suffix.lower()
    if suffix == ".tflite" or is_tflite(model):
        fed = _tflite_inputs(model, request)
        with Child(measure=threads == 1) as child:
            trace = litert.measure(child, model, fed.arrays, runs=runs, threads=threads)
    elif suffix == ".onnx":
        fed = _onnx_inputs(model, request)
        with Child(measure=threads == 1) as child:
            trace = child.call(ort.profile(model, fed.arrays, runs=runs, threads=threads))
    else:
        raise InvalidRequest(f"{model}: profile takes a .tflite, an .onnx or a .pte file")
    return replace(trace, run=replace(trace.run, sizes=fed.sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fed:
    """What a model is run on, and the sizes in that of the dimensions that it leaves open."""

    arrays: Arrays
    sizes: Mapping[str, int]


def _onnx_inputs(model: Path, request: Request) -> _Fed:
    """The user's arrays, or seeded ones: of the sizes at which `convert` measures."""
    declared = read(model, request.declared)
    symbols = open_dims(declared)
    if not symbols:
        return _Fed(arrays=input_sets(declared, request)[0], sizes={})
    if request.inputs is not None:
        arrays = given(Path(request.inputs), declared)
    else:
        with Child(engines=["onnxruntime"]) as child:
            found = several(declared, request.seeds[0], runs_on(Oracle(child, model), declared))
        if not found:
            raise InvalidRequest(
                f"{model}: runs at no size that was tried; --shape or --dim fixes {', '.join(symbols)}"
            )
        arrays = found[-1]
    return _Fed(arrays=arrays, sizes=sizes_in(arrays, symbols))


def _tflite_inputs(model: Path, request: Request) -> _Fed:
    """The user's arrays, or seeded ones: of usual sizes where the file leaves them open."""
    if request.dims:
        raise InvalidRequest(
            f"--dim {next(iter(request.dims))}: a .tflite file names no dimensions"
        )
    graph = candidate.declared(model, request.shapes)
    symbols = open_dims(graph)
    if request.inputs is not None:
        arrays = candidate.given(model, Path(request.inputs))
    else:
        arrays = candidate.seeded(model, request.shapes, request.seeds[0])
        arrays = _usual(model, graph, arrays) if symbols else arrays
    return _Fed(arrays=arrays, sizes=sizes_in(arrays, symbols))


def _usual(model: Path, graph: Graph, arrays: Arrays) -> Arrays:
    """Inputs like these at the first usual sizes that the file takes; the same where it takes none."""
    with Child(engines=["litert"]) as child:

        def runs(one: Arrays) -> bool:
            try:
                child.call(litert.run(model, one), timeout_s=LONGEST_TRIAL_S)
            except StraightwayError:
                return False
            return True

        return usual(graph, arrays, runs) or arrays
