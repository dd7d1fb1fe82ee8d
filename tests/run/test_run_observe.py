"""Watching a model's tensors over many inputs, in the child process."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from straightway.errors import InvalidRequest
from straightway.run.observe import Observer
from straightway.run.process import Child


@pytest.fixture(scope="module")
def child():
    with Child(engines=["onnxruntime"]) as child:
        yield child


@pytest.fixture
def path(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Add", ["r", "r"], ["y"]),
        helper.make_node("Shape", ["r"], ["s"]),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy"]
    graph = helper.make_graph(nodes, "two", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("groups", [[["r", "y", "s"]], [["r"], ["y", "s"]]])
def test_values_over_all_samples(child, path, groups):
    watch = Observer(child, path, groups, outputs=["y"])
    data = [np.full((2, 3), k, np.float32) for k in (-1, 5, 2)]
    for x in data:
        watch.add({"x": x})
    found = watch.result()
    assert set(found) == {"r", "y"}
    assert (found["r"].low, found["r"].high) == (0, 5)
    assert (found["y"].low, found["y"].high, found["y"].high_sample) == (0, 10, 1)
    assert found["y"].elements == 18


def test_another_observer_begins_afresh(child, path):
    for high in (7, 3):
        watch = Observer(child, path, [["r"]])
        assert watch.result() == {}
        watch.add({"x": np.full((2, 3), high, np.float32)})
        assert watch.result()["r"].high == high


def test_wrong_inputs_are_told(child, path):
    with pytest.raises(InvalidRequest, match="onnxruntime"):
        Observer(child, path, [["r"]]).add({"x": np.zeros((5, 5), np.float32)})
