"""Small probabilities: onnxruntime's Sigmoid is off in the third digit, LiteRT's is not."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import straightway
from straightway.onnx_io.respell import respelled


def save(path, shift):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in "xy"]
    bias = numpy_helper.from_array(np.full(3, shift, np.float32), "b")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [bias])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def test_the_reference_is_asked_again(tmp_path):
    done = straightway.convert(save(tmp_path / "m.onnx", -11.0))
    assert done.verification is not None
    assert done.verification.equal
    assert "1 / (1 + exp(-x))" in done.verification.note
    assert done.verification.worst.relative_error < 1e-5


def test_it_is_not_asked_where_all_is_equal(tmp_path):
    done = straightway.convert(save(tmp_path / "m.onnx", 0.0))
    assert done.verification is not None
    assert not done.verification.note


def test_a_wrong_file_stays_wrong(tmp_path):
    from straightway.lower.declare import LOWERINGS

    lowering = LOWERINGS["onnx", "Sigmoid"]
    object.__setattr__(lowering, "function", lambda g, x, **_: g.LOGISTIC(g.MUL(x, 1.001)))
    with pytest.raises(straightway.Mismatch):
        straightway.convert(save(tmp_path / "m.onnx", -11.0))


@pytest.fixture(autouse=True)
def _restored():
    from straightway.lower import families
    from straightway.lower.declare import LOWERINGS

    families.load()
    lowering = LOWERINGS["onnx", "Sigmoid"]
    function = lowering.function
    yield
    object.__setattr__(lowering, "function", function)


def test_a_model_without_sigmoid_has_no_other_spelling(tmp_path):
    path = save(tmp_path / "m.onnx", 0.0)
    model = onnx.load(path)
    model.graph.node[1].op_type = "Relu"
    onnx.save(model, path)
    assert respelled(path) is None
