"""Types and sizes that only a declared result tells."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import straightway
from straightway.errors import Unsupported


def save(path, nodes, inputs, shape, constants=()):
    """A model whose result is of a declared shape; inputs are (name, element type, shape)."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        list(constants),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    onnx.save(model, path)
    return path


X = ("x", TensorProto.FLOAT, [1, 2, 6, 4])


def test_types_come_from_behind(tmp_path):
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["r"], keepdims=0),
        helper.make_node("Cast", ["r"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["c"], ["y"]),
    ]
    inputs = [X, ("axes", TensorProto.INT64, [1])]
    done = straightway.convert(save(tmp_path / "m.onnx", nodes, inputs, [1, 2, 4]))
    assert done.verification.equal
    assert done.verification.ran.outputs[0].shape == (1, 2, 4)


@pytest.mark.parametrize("axes", [None, [3, 2]])
def test_sizes_are_those_of_the_result(axes, tmp_path):
    attrs = {"mode": "linear"} | ({} if axes is None else {"axes": axes})
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **attrs)
    count = 4 if axes is None else 2
    path = save(tmp_path / "m.onnx", [node], [X, ("s", TensorProto.INT64, [count])], [1, 2, 3, 9])
    sizes = np.array([1, 2, 3, 9] if axes is None else [9, 3])
    np.savez(
        tmp_path / "i.npz", x=np.random.default_rng(0).random((1, 2, 6, 4), np.float32), s=sizes
    )
    assert straightway.convert(path, inputs=tmp_path / "i.npz").verification.equal


def test_one_size_for_several_axes_is_not_told(tmp_path):
    node = helper.make_node(
        "Resize", ["x", "", "", "s"], ["y"], axes=[2, 3], keep_aspect_ratio_policy="not_larger"
    )
    path = save(tmp_path / "m.onnx", [node], [X, ("s", TensorProto.INT64, [2])], [1, 2, 3, 2])
    with pytest.raises(Unsupported, match="'sizes' must be a constant"):
        straightway.convert(path)


@pytest.mark.parametrize(
    ("columns", "image", "told"), [((1, 3, 5), [1, 7], True), ((1, 3, 15), [5, 5], False)]
)
def test_blocks_are_told_where_there_is_one(columns, image, told, tmp_path):
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"])
    inputs = [
        ("x", TensorProto.FLOAT, columns),
        ("image", TensorProto.INT64, [2]),
        ("block", TensorProto.INT64, [2]),
    ]
    path = save(tmp_path / "m.onnx", [node], inputs, [1, 1, *image])
    if not told:
        with pytest.raises(Unsupported, match="'block_shape' must be a constant"):
            straightway.convert(path, verify=False)
        return
    straightway.convert(path, verify=False)
