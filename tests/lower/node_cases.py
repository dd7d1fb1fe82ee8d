"""ONNX's own node tests, with those operands made constants that exporters write as constants."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.numpy_helper
from onnx.backend.test import loader

from straightway.lower.declare import LOWERINGS, Const, Ints, Lowering

# Weights and normalisation parameters, beside the operands that a declaration asks to be known.
WEIGHTS = {
    "Conv": {1, 2},
    "ConvTranspose": {1, 2},
    "Gemm": {1, 2},
    "PRelu": {1},
    "Clip": {1, 2},
    "BatchNormalization": {1, 2, 3, 4},
    "InstanceNormalization": {1, 2},
    "GroupNormalization": {1, 2},
    "LayerNormalization": {1, 2},
    "RMSNormalization": {1},
    "OneHot": {1},
    "Pad": {2},
}
# No tensor of these types goes into or out of LiteRT's interpreter, nor do sequences.
NO_TENSORS = ("STRING", "FLOAT8", "FLOAT4", "INT4", "INT2", "COMPLEX", "UNDEFINED")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCase:
    """A model of one node, its inputs by name and its outputs in order."""

    name: str
    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    expected: list[np.ndarray]

    @property
    def op(self) -> str:
        """The operator under test."""
        return self.model.graph.node[0].op_type


def node_cases() -> Iterator[NodeCase]:
    """All cases of declared operators that a runtime of static shapes can express."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases overflow and divide by zero on purpose
        tests = sorted(loader.load_model_tests(kind="node"), key=lambda test: test.name)
    for test in tests:
        nodes = test.model.graph.node
        lowering = LOWERINGS.get((nodes[0].domain or "onnx", nodes[0].op_type))
        if "_expanded" in test.name or len(nodes) > 1 or lowering is None:
            continue
        if expressible(test.model):
            yield frozen(test.name, test.model, test.data_sets[0], lowering)


def expressible(model: onnx.ModelProto) -> bool:
    """Whether the case is inference on tensors that LiteRT can be fed."""
    for value in (*model.graph.input, *model.graph.output):
        name = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        if any(part in name for part in NO_TENSORS):
            return False
    node = model.graph.node[0]
    training = any(a.name == "training_mode" and a.i for a in node.attribute)
    return not training and not (node.op_type == "Dropout" and len(node.input) > 2)


def frozen(
    name: str, model: onnx.ModelProto, data: tuple[list, list], lowering: Lowering
) -> NodeCase:
    """Make constants of what must be one, as long as an input is left."""
    node = model.graph.node[0]
    arrays = [_array(value) for value in data[0]]
    feeds = dict(zip([v.name for v in model.graph.input], arrays, strict=False))
    known = {n for k, n in enumerate(node.input) if n in feeds and _is_constant(lowering, k, node)}
    if len(known) < len(feeds):
        for one in known:
            model.graph.initializer.append(onnx.numpy_helper.from_array(feeds.pop(one), one))
    kept = [value for value in model.graph.input if value.name in feeds]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return NodeCase(
        name=name, model=model, feeds=feeds, expected=[_array(value) for value in data[1]]
    )


def _is_constant(lowering: Lowering, position: int, node: onnx.NodeProto) -> bool:
    schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
    names = [i.name.lower() for i in schema.inputs]
    own = [p for p in lowering.parameters if p.kind is p.POSITIONAL_ONLY]
    by_place = own[position].annotation if position < len(own) else None
    by_name = {p.name.rstrip("_"): p.annotation for p in lowering.parameters}
    named = by_name.get(names[position]) if position < len(names) else None
    return (
        by_place in (Const, Ints)
        or named in (Const, Ints)
        or position in WEIGHTS.get(node.op_type, ())
    )


def _array(value: object) -> np.ndarray:
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    return np.asarray(value)
