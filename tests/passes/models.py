"""Small models in ONNX's text form, and the check that all pass tests share."""

import numpy as np
import onnx
import onnx.parser
from evaluate_graph import evaluate, ingest_model, run
from onnx import helper, numpy_helper

from straightway.ir import Graph
from straightway.ir.verify import verify
from straightway.passes.pipeline import prepare

IR_VERSION = 10


def model(text, opset=17, **constants):
    """Make a model of "(float[1,4] x) => (y) { y = Relu(x) }" and arrays by name."""
    graph = onnx.parser.parse_graph("g " + text)
    graph.initializer.extend(
        numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def graph_of(text, opset=17, **constants) -> Graph:
    """Ingest such a model."""
    return ingest_model(model(text, opset, **constants))


def feeds_of(graph, seed=0):
    """Random operands for the inputs of a graph."""
    random = np.random.default_rng(seed)
    return [_random(value, random) for value in graph.inputs]


def _random(value, random):
    if value.dtype.kind == "f":
        return (2 * random.standard_normal(value.shape)).astype(value.dtype)
    if value.dtype.kind == "b":
        return random.integers(0, 2, value.shape).astype(np.bool_)
    return random.integers(0, 4, value.shape).astype(value.dtype)


def check(text, opset=17, steps=(prepare,), feeds=None, tolerance=1e-5, **constants):
    """Run steps on a model; outputs must stay the same, names and types included.

    So must every value inside that still has a name of the model. Returns the graph after the steps.
    """
    proto = model(text, opset, **constants)
    graph = ingest_model(proto)
    feeds = feeds_of(graph) if feeds is None else feeds
    expected = run(proto, feeds)
    outputs = [value.name for value in graph.outputs]
    for step in steps:
        step(graph)
        verify(graph)
    assert [value.name for value in graph.outputs] == outputs
    assert_same(evaluate(graph, feeds), expected, tolerance)
    check_interior(proto, graph, feeds, tolerance)
    return graph


def check_interior(proto, graph, feeds, tolerance):
    """A name of the model means what it meant there."""
    outer = {name for node in proto.graph.node for name in node.output if name}
    made = [v for node in graph.nodes for v in node.outputs if v.name in outer]
    more = onnx.ModelProto()
    more.CopyFrom(proto)
    more.graph.output.extend(helper.make_empty_tensor_value_info(v.name) for v in made)
    expected = run(more, feeds)[len(graph.outputs) :]
    assert_same(evaluate(graph, feeds, made)[len(graph.outputs) :], expected, tolerance)


def assert_same(found, expected, tolerance=1e-5):
    """Equal types, shapes and NaNs; floats as near as the tolerance times the largest."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        if one.dtype.kind in "fV":
            one, other = one.astype(np.float64), other.astype(np.float64)  # noqa: PLW2901 - widened
            largest = np.max(np.abs(other), initial=0, where=np.isfinite(other))
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * max(largest, 1))
        else:
            np.testing.assert_array_equal(one, other)


def names(graph):
    """The operators of a graph, in order."""
    return [node.op.name for node in graph.nodes]


def only(graph, name):
    """The only node of this operator."""
    (node,) = [node for node in graph.nodes if node.op.name == name]
    return node
