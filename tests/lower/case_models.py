"""Makes ONNX models of the cases that declarations carry, and runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import onnx.shape_inference

from straightway.domains.layout import lay_out
from straightway.errors import InvalidRequest, ToolFailed
from straightway.ingest.onnx import ingest
from straightway.ir.verify import verify
from straightway.lower.declare import Case, Lowering
from straightway.lower.lowering import Lowered, lower_graph
from straightway.lower.samples import single
from straightway.onnx_io.single import value_info
from straightway.quant import integer
from straightway.run import litert, ort
from straightway.run.process import Child
from straightway.tflite.write import write

Arrays = dict[str, np.ndarray]
OLDEST_RUN = 7
"""The oldest opset that onnxruntime promises to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseModel:
    """A model of one node, what it is fed, and what it should give."""

    model: onnx.ModelProto
    feeds: Arrays

    def with_outputs(self, expected: Arrays) -> onnx.ModelProto:
        """Declare the outputs by what they should be."""
        made = onnx.ModelProto()
        made.CopyFrom(self.model)
        del made.graph.output[:]
        made.graph.output.extend(value_info(name, array) for name, array in expected.items())
        return made


def build(lowering: Lowering, case: Case) -> CaseModel:
    """Make the model of a case."""
    made = single(lowering, case)
    return CaseModel(model=made.model(), feeds=dict(made.feeds))


def expected(child: Child, lowering: Lowering, case: Case, folder: Path) -> Arrays:
    """What onnxruntime gives, or ONNX's own reference where onnxruntime has no kernel."""
    made = build(lowering, modern(case))
    path = folder / "reference.onnx"
    onnx.save(made.model, path)
    try:
        return dict(child.call(ort.run(path, made.feeds, optimise=False)))
    except (ToolFailed, InvalidRequest):
        found = onnx.reference.ReferenceEvaluator(made.model).run(None, made.feeds)
        names = [output.name for output in made.model.graph.output]
        return {n: np.asarray(a) for n, a in zip(names, found, strict=True)}


def modern(case: Case) -> Case:
    """The same in an opset that onnxruntime runs, where the case's own is too old."""
    given = dict(case.arguments)
    if given.pop("broadcast", 0):
        axis, whole = given.pop("axis", None), given["a"]
        if axis is not None:
            given["b"] = given["b"].reshape(-1, *[1] * (len(whole) - axis - 1))
    elif isinstance(given.get("to"), str):
        given["to"] = getattr(onnx.TensorProto, given["to"])
    elif "inputs" in given and "axis" not in given and "equation" not in given:
        given["axis"] = 1  # of Concat before opset 4
    elif "paddings" in given:
        given["pads"] = given.pop("paddings")
    elif "tiles" in given:
        axis, times = int(given.pop("axis")), int(given.pop("tiles"))
        given["repeats"] = np.array([times if k == axis else 1 for k in range(2)])
    elif "slope" in given and case.opset is not None:
        given["slope"] = given["slope"].reshape(-1, 1, 1)
    else:
        return case
    return Case(arguments=given, opset=OLDEST_RUN, outputs=case.outputs)


def guessed(made: CaseModel) -> onnx.ModelProto:
    """The model of a case that nothing need compute: types by ONNX's shape functions, or the input's."""
    inferred = onnx.shape_inference.infer_shapes(made.model)
    known = {v.name: v for v in inferred.graph.output if _is_static(v)}
    first = next(iter(made.feeds.values()))
    outputs = [known.get(v.name, value_info(v.name, first)) for v in made.model.graph.output]
    del inferred.graph.output[:]
    inferred.graph.output.extend(outputs)
    return inferred


def _is_static(info: onnx.ValueInfoProto) -> bool:
    kind = info.type.tensor_type
    return kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)


def lowered(model: onnx.ModelProto, folder: Path) -> Lowered:
    """Lower a model as it is, without the passes that would rewrite it."""
    path = folder / "model.onnx"
    onnx.save(model, path)
    found = lower_graph(ingest(path))
    verify(found.graph, typed=True)
    return found


def computed(
    child: Child, found: Lowered, feeds: Mapping[str, np.ndarray], folder: Path
) -> Sequence[np.ndarray]:
    """Lay out, write and run a lowered graph."""
    integer.run(found.graph)
    layout = lay_out(found.graph, found.outputs)
    verify(layout.graph, typed=True)
    path = folder / "model.tflite"
    path.write_bytes(write(layout.graph).data)
    return child.call(litert.run(path, list(feeds.values()))).outputs
