"""`profile`: a model file operator by operator, as it is."""

from pathlib import Path

from straightway.errors import InvalidRequest
from straightway.flow import candidate
from straightway.flow.convert import Request, input_sets
from straightway.flow.inputs import Arrays
from straightway.flow.translate import read
from straightway.ingest.onnx import ShapeRequest
from straightway.run import litert, ort
from straightway.run.process import Child
from straightway.tflite.read import is_tflite
from straightway.trace.schema import Trace

# More than a device that runs such models has; LiteRT dies of some thousands.
MOST_THREADS = 256


def profile(model: Path, request: Request, *, runs: int = 30, threads: int = 1) -> Trace:
    """Measure a .tflite file on LiteRT, or an .onnx file on onnxruntime.

    On the request's inputs, else on seeded ones. Raises InvalidRequest for any other file.
    """
    if runs < 1 or not 1 <= threads <= MOST_THREADS:
        raise InvalidRequest(
            f"a profile takes one run or more, and one thread to {MOST_THREADS}; "
            f"got {runs}, {threads}"
        )
    suffix = model.suffix.lower()
    if suffix == ".tflite" or is_tflite(model):
        arrays = tflite_inputs(model, request)
        with Child(measure=threads == 1) as child:
            return litert.measure(child, model, arrays, runs=runs, threads=threads)
    if suffix == ".onnx":
        source = read(model, ShapeRequest(dims=request.dims, shapes=request.shapes))
        arrays = input_sets(source, request)[0]
        with Child(measure=threads == 1) as child:
            return child.call(ort.profile(model, arrays, runs=runs, threads=threads))
    raise InvalidRequest(f"{model}: profile takes a .tflite or an .onnx file")


def tflite_inputs(model: Path, request: Request) -> Arrays:
    """The user's arrays, or seeded ones."""
    if request.dims:
        raise InvalidRequest(
            f"--dim {next(iter(request.dims))}: a .tflite file names no dimensions"
        )
    if request.inputs is not None:
        return candidate.given(model, Path(request.inputs))
    return candidate.seeded(model, request.shapes, request.seeds[0])
