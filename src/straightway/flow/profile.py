"""`profile`: a model file operator by operator, as it is."""

from pathlib import Path

import numpy as np

from straightway.errors import InvalidRequest
from straightway.flow.convert import Request, input_sets
from straightway.flow.inputs import Arrays
from straightway.flow.translate import read
from straightway.ingest.onnx import ShapeRequest
from straightway.run import litert, ort
from straightway.run.process import Child
from straightway.tflite.read import read as read_tflite
from straightway.trace.schema import Trace


def profile(model: Path, request: Request, *, runs: int = 30, threads: int = 1) -> Trace:
    """Measure a .tflite file on LiteRT, or an .onnx file on onnxruntime, on seeded inputs."""
    with Child(measure=threads == 1) as child:
        if model.suffix == ".tflite":
            arrays = tflite_inputs(model, request)
            return litert.measure(child, model, arrays, runs=runs, threads=threads)
        if model.suffix == ".onnx":
            source = read(model, ShapeRequest(dims=request.dims, shapes=request.shapes))
            arrays = input_sets(source, request)[0]
            return child.call(ort.profile(model, arrays, runs=runs, threads=threads))
    raise InvalidRequest(f"{model}: profile takes a .tflite or an .onnx file")


def tflite_inputs(model: Path, request: Request) -> Arrays:
    """Uniform floats in [0, 1), integers in [0, 100) for each input of a TFLite file."""
    rng = np.random.default_rng(request.seeds[0] if request.seeds else 0)
    description = read_tflite(model)
    found = {}
    main = description.main
    for tensor in (main.tensors[index] for index in main.inputs):
        shape = tuple(request.shapes.get(tensor.name, [abs(d) for d in tensor.shape]))
        dtype = np.dtype(tensor.dtype)
        floats = dtype.kind == "f"
        found[tensor.name] = (
            rng.random(shape).astype(dtype)
            if floats
            else rng.integers(0, 2 if dtype == np.bool_ else 100, shape).astype(dtype)
        )
    return found
