"""Makes ONNX models of the cases that declarations carry, and runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.parser
import onnx.reference
import onnx.shape_inference

from straightway.domains.layout import lay_out
from straightway.errors import InvalidRequest, ToolFailed
from straightway.ingest.onnx import ingest
from straightway.ir.verify import verify
from straightway.lower.declare import Case, Lowering, Runtime
from straightway.lower.lowering import Lowered, lower_graph
from straightway.quant import integer
from straightway.run import litert, ort
from straightway.run.process import Child
from straightway.tflite.write import write

Arrays = dict[str, np.ndarray]
NEWEST = 21
"""The opset of a case that names none: the newest that onnxruntime runs everywhere."""
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
        made.graph.output.extend(_info(name, array) for name, array in expected.items())
        return made


def build(lowering: Lowering, case: Case) -> CaseModel:
    """Make the model of a case by the operator's official schema.

    Operands go by their names there, or by those of the declaration. The opset of a case is that of
    the operator's domain.
    """
    op = lowering.op
    domain = "" if op.dialect == "onnx" else op.dialect
    opset = case.opset or (1 if domain else NEWEST)
    names, attributes = _schema(lowering, opset)
    given = dict(case.arguments)
    maker = _Maker(np.random.default_rng(7))
    own = [p.name for p in lowering.parameters if p.kind != p.KEYWORD_ONLY]
    inputs = []
    for name, parameter in zip_longest(names, own[: len(names)], fillvalue=""):
        keys = [key for key in given if key.lower() in (name.lower(), parameter)]
        inputs.append(maker.inputs(name, given.pop(keys[0]) if keys else None))
    flat = [one for group in inputs for one in group]
    while flat and not flat[-1]:
        flat.pop()
    unknown = set(given) - attributes if attributes is not None else set()
    if unknown:
        raise ValueError(f"{op}@{opset} has no {sorted(unknown)}: it has {names}, {attributes}")
    outputs = [f"y{k}" for k in range(case.outputs)]
    attrs = {k: _attribute(v) for k, v in given.items()}
    node = onnx.helper.make_node(op.name, flat, outputs, name="node", domain=domain, **attrs)
    graph = onnx.helper.make_graph(
        [node],
        "case",
        [_info(name, array) for name, array in maker.feeds.items()],
        [onnx.helper.make_empty_tensor_value_info(name) for name in outputs],
        [onnx.numpy_helper.from_array(a, name) for name, a in maker.constants.items()],
    )
    opsets = [onnx.helper.make_opsetid(domain, opset)]
    opsets += [onnx.helper.make_opsetid("", NEWEST)] if domain else []
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return CaseModel(model=model, feeds=maker.feeds)


class _Maker:
    """Turns the operands of a case into inputs and constants."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.feeds: Arrays = {}
        self.constants: Arrays = {}

    def inputs(self, name: str, given: Any) -> list[str]:
        """Names of the inputs that one operand becomes; "" for an absent one."""
        if isinstance(given, list):
            return [self.one(f"{name}_{k}", part) for k, part in enumerate(given)]
        return [self.one(name, given)]

    def one(self, name: str, given: Any) -> str:
        if given is None:
            return ""
        if isinstance(given, Runtime):
            self.feeds[name] = given.array
        elif isinstance(given, np.ndarray):
            self.constants[name] = given
        else:
            self.feeds[name] = self.random.standard_normal(given).astype(np.float32)
        return name


def _schema(lowering: Lowering, opset: int) -> tuple[list[str], set[str] | None]:
    if lowering.op.dialect != "onnx":
        kind = "POSITIONAL_ONLY"
        return [p.name for p in lowering.parameters if p.kind.name == kind], None
    found = onnx.defs.get_schema(lowering.op.name, opset, "")
    return [i.name for i in found.inputs], set(found.attributes)


def _attribute(value: Any) -> Any:
    if isinstance(value, str) and "=>" in value:
        return onnx.parser.parse_graph(value)
    return onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element, array.shape)


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
    outputs = [known.get(v.name, _info(v.name, first)) for v in made.model.graph.output]
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
