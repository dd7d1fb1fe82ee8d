"""Types and sizes that only a declared result tells."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

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


@pytest.mark.parametrize(
    ("policy", "sizes"), [("not_larger", [3, 9]), ("not_smaller", [2, 2]), ("not_larger", [4, 2])]
)
def test_one_factor_for_several_axes_comes_at_run_time(policy, sizes, tmp_path):
    attrs = {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "mode": "linear"}
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **attrs)
    path = save(tmp_path / "m.onnx", [node], [X, ("s", TensorProto.INT64, [2])], [1, 2, 3, 2])
    x = np.random.default_rng(0).random((1, 2, 6, 4), np.float32)
    np.savez(tmp_path / "i.npz", x=x, s=np.array(sizes))
    assert straightway.convert(path).verification.equal
    assert straightway.convert(path, inputs=tmp_path / "i.npz").verification.equal


def test_a_region_of_channels_at_run_time_must_be_known_to_be_all(tmp_path):
    """ONNX Runtime and the reference make different things of others."""
    attrs = {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "linear"}
    given = [("r", TensorProto.FLOAT, [2]), ("q", TensorProto.FLOAT, [2])]
    ends = {"zero": np.zeros(2, np.float32), "one": np.ones(2, np.float32)}
    constants = [
        numpy_helper.from_array(array, name)
        for name, array in {**ends, "s": np.array([1, 2, 3, 5])}.items()
    ]
    join = helper.make_node("Concat", ["zero", "r", "one", "q"], ["roi"], axis=0)
    node = helper.make_node("Resize", ["x", "roi", "", "s"], ["y"], **attrs)
    path = save(tmp_path / "m.onnx", [join, node], [X, *given], [1, 2, 3, 5], constants)
    assert straightway.convert(path).verification.equal
    path = save(
        tmp_path / "m.onnx", [node], [X, ("roi", TensorProto.FLOAT, [8])], [1, 2, 3, 5], constants
    )
    with pytest.raises(Unsupported, match="axes whose size changes"):
        straightway.convert(path)


@pytest.mark.parametrize("window", [False, True])
@pytest.mark.parametrize(("frames", "told"), [(15, True), (3, False)])
def test_frames_are_told_where_one_step_gives_so_many(frames, window, told, tmp_path):
    """Three frames are those of several steps."""
    names = ["x", "step", "w"] if window else ["x", "step", "", "length"]
    node = helper.make_node("STFT", names, ["y"])
    inputs = [("x", TensorProto.FLOAT, [2, 128, 1]), ("step", TensorProto.INT64, [])]
    behind = ("w", TensorProto.FLOAT, [16]) if window else ("length", TensorProto.INT64, [])
    path = save(tmp_path / "m.onnx", [node], [*inputs, behind], [2, frames, 9, 2])
    if told:
        assert straightway.convert(path).verification.equal
        return
    with pytest.raises(Unsupported, match="'frame_step' must be a constant"):
        straightway.convert(path)


def test_what_is_added_to_one_element_has_as_many_as_the_sum(tmp_path):
    ends = [("s", TensorProto.INT64, [1]), ("e", TensorProto.INT64, [1])]
    nodes = [
        helper.make_node("Slice", ["t", "s", "e"], ["part"]),
        helper.make_node("Add", ["x", "part"], ["sum"]),
        helper.make_node("Identity", ["sum"], ["y"]),
    ]
    x = ("x", TensorProto.FLOAT, [1])
    table = numpy_helper.from_array(np.arange(5, dtype=np.float32), "t")
    path = save(tmp_path / "m.onnx", nodes, [x, *ends], [3], [table])
    np.savez(tmp_path / "i.npz", x=np.ones(1, np.float32), s=np.array([1]), e=np.array([4]))
    assert straightway.convert(path, inputs=tmp_path / "i.npz").verification.equal


@pytest.mark.parametrize("block", [[1, 5], [5, 1]])
def test_blocks_of_several_shapes_are_chosen_among(block, tmp_path):
    node = helper.make_node("Col2Im", ["x", "image", "block"], ["y"])
    inputs = [("x", TensorProto.FLOAT, [2, 10, 5]), ("block", TensorProto.INT64, [2])]
    image = numpy_helper.from_array(np.array([5, 5]), "image")
    path = save(tmp_path / "m.onnx", [node], inputs, [2, 2, 5, 5], [image])
    x = np.random.default_rng(0).random((2, 10, 5), np.float32)
    np.savez(tmp_path / "i.npz", x=x, block=np.array(block))
    assert straightway.convert(path, inputs=tmp_path / "i.npz").verification.equal
    assert straightway.convert(path).verification.equal


@pytest.mark.parametrize(
    ("columns", "image", "told"), [((1, 3, 5), [1, 7], True), ((1, 2, 15), [9, 9], False)]
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
        with pytest.raises(Unsupported, match="block_shape at run time"):
            straightway.convert(path, verify=False)
        return
    straightway.convert(path, verify=False)
