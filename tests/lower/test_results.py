"""Results whose types no shape function tells: the declaration does, by lowering its node."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from straightway.ingest.onnx import ingest_proto
from straightway.lower import preparation
from straightway.lower.lowering import lower_graph
from straightway.lower.results import result_types

MICROSOFT = "com.microsoft"
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]


def ingested(nodes, element=TensorProto.FLOAT, shape=(2, 3, 8)):
    weights = np.ones((8, 6), helper.tensor_dtype_to_np_dtype(element))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", element, shape)],
        [helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    return ingest_proto(helper.make_model(graph, opset_imports=OPSETS, ir_version=9))


def fused(**attrs):
    return [
        helper.make_node("FusedMatMul", ["x", "w"], ["a"], domain=MICROSOFT, **attrs),
        helper.make_node("QuickGelu", ["a"], ["b"], domain=MICROSOFT),
        helper.make_node("Shape", ["b"], ["s"]),
        helper.make_node("Reshape", ["b", "s"], ["y"]),
    ]


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_types_are_known_where_the_file_has_none(element):
    graph = ingested(fused(alpha=0.5), element)
    preparation.before(graph)
    assert graph.outputs[0].shape == (2, 3, 6)
    assert graph.outputs[0].dtype == helper.tensor_dtype_to_np_dtype(element)
    assert not lower_graph(graph).refusals


def test_what_is_refused_keeps_its_reason():
    gemm = helper.make_node("FusedGemm", ["x", "w"], ["a"], domain=MICROSOFT, activation="Selu")
    graph = ingested([gemm, helper.make_node("Relu", ["a"], ["y"])], shape=(2, 8))
    preparation.before(graph)
    (remark,) = lower_graph(graph).refusals
    assert "activation must be one of" in remark.text


def test_nothing_is_said_of_what_is_not_lowered_or_open():
    graph = ingested([helper.make_node("Inverse", ["x"], ["y"], domain=MICROSOFT)])
    assert result_types(graph.first) == [None]
    graph = ingest_open()
    assert result_types(graph.first) == [None]


def ingest_open():
    from straightway.ingest.shapes import ShapeRequest

    graph = helper.make_graph(
        [helper.make_node("QuickGelu", ["x"], ["y"], domain=MICROSOFT)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 3))],
        [helper.make_empty_tensor_value_info("y")],
    )
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=9)
    return ingest_proto(model, ShapeRequest(keep_open=True))


@pytest.mark.parametrize("opset", [18, 20, 21])
def test_a_deprecated_operator_that_onnx_defines_still_converts(opset):
    scale = np.ones(2 if opset < 21 else 4, np.float32)
    graph = helper.make_graph(
        [helper.make_node("GroupNormalization", ["x", "s", "s"], ["y"], num_groups=2)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 5))],
        [helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(scale, "s")],
    )
    made = ingest_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))
    preparation.before(made)
    assert made.outputs[0].shape == (1, 4, 5)
    assert not lower_graph(made).refusals
