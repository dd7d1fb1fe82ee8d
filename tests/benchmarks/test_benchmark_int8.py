"""The page on int8 lists each conversion inside a file with its cause, as the plan has it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import int8
import int8_page
import straightway
from straightway.flow.candidate import describe


def products(path):
    """Seven convolutions."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(rng.normal(0, 0.2, (8, 8, 3, 3)).astype(np.float32), f"w{k}")
        for k in range(7)
    ]
    nodes = [
        helper.make_node("Conv", [f"v{k}", f"w{k}"], [f"v{k + 1}"], name=f"conv{k}")
        for k in range(7)
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("v0", (1, 8, 32, 32)), ("v7", (1, 8, 18, 18)))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_conversions_inside_are_listed_with_their_cause(tmp_path):
    path = products(tmp_path / "m.onnx")
    found = straightway.quantize(path, tmp_path / "q.onnx", random=2, keep_float=["conv3"])
    straightway.convert(tmp_path / "q.onnx", tmp_path / "q.tflite", verify=False)
    main = describe(tmp_path / "q.tflite").main
    left = int8.inside(found.borders, main)
    assert "QUANTIZE" in {one["op"] for one in left}
    assert all("computes with floats" in one["cause"] for one in left)
    page = "\n".join(int8_page.left_inside([{"name": "products", "inside": left}]))
    assert all(one["cause"] in page and one["between"] in page for one in left)
    with pytest.raises(ValueError, match="the plan"):
        int8.inside([], main)


def test_a_page_without_conversions_says_so():
    assert "None." in "\n".join(int8_page.left_inside([{"name": "m", "inside": []}]))
