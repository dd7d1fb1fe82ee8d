"""Runs samples, and compares what comes out with the references."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from single_runs import Job, Outcome, run_all

import straightway.tflite.write
from row_samples.quantized import LIMITS, real_inputs, to_real
from row_samples.sample import Sample, Written, channels_last, write_down

TOLERANCES = {"float16": 5e-3, "bfloat16": 3e-2}
# ops that find out the sizes of their results when they run
OPEN_SIZES = ("WHERE", "RANGE", "FILL")
# rounding twice, and once more in a kernel that looks functions up in tables
QUANTA = {"int8": 1.51, "uint8": 1.51, "int16": 64.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A sample, its written node, and what the runtime made of it."""

    sample: Sample
    written: Written
    outcome: Outcome

    @property
    def is_right(self) -> bool:
        """Whether it ran and every result has the type, shape and values that it must have."""
        return not self.outcome.error and not self.difference()

    def difference(self) -> str:
        """Say what is wrong with the results, or ""."""
        wanted = expected(self.sample)
        outputs = self.outcome.outputs
        if len(wanted) != len(outputs):
            return f"{len(outputs)} results"
        for k, (y, r) in enumerate(zip(outputs, wanted, strict=True)):
            if y.dtype != self.written.dtypes[k]:
                return f"type {y.dtype}, not {self.written.dtypes[k]}"
            is_open = self.sample.op in OPEN_SIZES
            if y.shape != r.shape or (not is_open and y.shape != self.written.shapes[k]):
                return f"shape {y.shape}, not {r.shape}"
            if not self.close(k, y, r):
                return f"{y.ravel()[:5]}, not {r.ravel()[:5]}"
        return ""

    def close(self, index: int, y: np.ndarray, r: np.ndarray) -> bool:
        """Compare one result: floats by tolerance, quantized ones by quanta, others exactly."""
        quant = self.sample.quants.get(f"y{index}")
        if quant is not None and r.dtype.kind == "f":
            low, high = LIMITS[y.dtype.name]
            least, most = ((v - quant.zero_point) * quant.scale for v in (low, high))
            off = np.abs(to_real(y, quant) - np.clip(r, least, most)) / quant.scale
            return bool((off <= QUANTA[y.dtype.name]).all())
        if y.dtype.kind in "iub":
            return bool(np.array_equal(y, r))
        kind = complex if y.dtype.kind == "c" else float
        tolerance = TOLERANCES.get(self.sample.dtype.name, self.sample.rtol)
        return bool(np.allclose(y.astype(kind), r.astype(kind), rtol=tolerance, atol=tolerance))


def expected(sample: Sample) -> list[np.ndarray]:
    """Results of the reference, computed in float64 or int64, in stored order."""
    if sample.quants:
        arrays = real_inputs(sample) if sample.swept else sample.inputs
    else:
        arrays = [promoted(a) for a in sample.inputs]
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # whole numbers may lie outside of a domain
        found: Any = sample.reference(*arrays)
    results = [np.asarray(r) for r in (found if isinstance(found, (list, tuple)) else [found])]
    return [channels_last(r) for r in results] if sample.row.layout == "window" else results


def promoted(array: np.ndarray | None) -> np.ndarray | None:
    """The same numbers in the widest type of their kind."""
    if array is None or array.dtype.kind in "bc":
        return array
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


def measure(
    samples: Sequence[Sample], *, delegate: bool = False, micro: bool = False
) -> list[Measured]:
    """Run samples, with or without XNNPACK, or by TensorFlow Lite Micro."""
    written = [write_down(sample) for sample in samples]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(straightway.tflite.write.ELEMENT_TYPES, "complex64", "COMPLEX64")
        jobs = [
            Job(data=flatbuffer(s, w), feeds=w.feeds, delegate=delegate, micro=micro)
            for s, w in zip(samples, written, strict=True)
        ]
    outcomes = run_all(jobs)
    return [
        Measured(sample=s, written=w, outcome=o)
        for s, w, o in zip(samples, written, outcomes, strict=True)
    ]


def flatbuffer(sample: Sample, written: Written) -> bytes:
    """The file, with the states of recurrent ops marked as variable."""
    data = bytes(straightway.tflite.write.write(written.graph).data)
    if not sample.row.state:
        return data
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    (graph,) = model.subgraphs
    for position in sample.row.state:
        graph.tensors[graph.operators[0].inputs[position]].isVariable = True
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
