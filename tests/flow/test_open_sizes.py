"""Which sizes open dimensions are taken to have: told apart, tied, usual, or the user's."""

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import Builder
from onnx import helper
from open_models import assert_equal_at, floats, save

import straightway
from straightway.flow.open import Options, translate_open
from straightway.flow.samples import groupings
from straightway.flow.suggestion import candidates
from straightway.flow.translate import read
from straightway.ingest.shapes import ShapeRequest


def convolution(path, shape):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    return save(path, nodes, {"x": shape}, ["y"], {"w": floats(4, 3, 3, 3)})


def foreign(made, path):
    data = made.data.replace(b"straightway", b"another way")
    assert data != made.data
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["?", "-1", "None", None])
def test_dimensions_without_a_name_are_told_apart(name, tmp_path):
    done = straightway.convert(convolution(tmp_path / "m.onnx", ["N", 3, name, name]))
    assert done.sizes == {"N": 1, "x:2": 224, "x:3": 224}
    assert any(check.shape[2] != check.shape[3] for check in done.verification.outputs)


def test_one_without_a_name_can_be_fixed(tmp_path):
    path = convolution(tmp_path / "m.onnx", ["N", 3, None, None])
    done = straightway.convert(path, dims={"x:2": 48})
    assert done.sizes == {"N": 1, "x:3": 224}
    with pytest.raises(straightway.InvalidRequest, match=r"symbols are \['N', 'x:2', 'x:3'\]"):
        straightway.convert(path, dims={"x:1": 48})


def test_dimensions_are_tied_where_the_model_takes_no_others(tmp_path):
    nodes = [
        helper.make_node("Mul", ["x", "mask"], ["m"]),
        helper.make_node("MatMul", ["m", "w"], ["y"]),
    ]
    inputs = {"x": ["N", None, 5], "mask": [None, None, 1]}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y"], {"w": floats(5, 4)})
    declared = read(path, ShapeRequest(keep_open=True))
    assert [set(symbols) for symbols in groupings(declared)] == [
        {"N", "x:1", "mask:0", "mask:1"},
        {"N", "x:1"},
    ]
    done = straightway.convert(path)
    assert done.sizes == {"N": 1, "x:1": 128}
    texts = {remark.text for remark in done.remarks}
    assert "x:1 and mask:1 are one size: the model takes no others" in texts


def test_what_is_not_tied_stays_apart(tmp_path):
    nodes = [
        helper.make_node("GlobalAveragePool", ["x"], ["a"]),
        helper.make_node("GlobalAveragePool", ["z"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    inputs = {"x": [1, 3, None, 5], "z": [1, 3, None, 5]}
    done = straightway.convert(save(tmp_path / "m.onnx", nodes, inputs, ["y"], {}))
    assert set(done.sizes) == {"x:2", "z:2"}


def test_lines_of_text_are_wider_than_high(tmp_path):
    path = convolution(tmp_path / "m.onnx", [1, 3, "H", "W"])
    declared = read(path, ShapeRequest(keep_open=True))
    assert [shapes["x"][2:] for shapes in candidates(declared)][:3] == [
        (224, 224),
        (320, 320),
        (48, 320),
    ]


def test_a_file_of_others_is_compared_at_several_sizes(tmp_path):
    path = convolution(tmp_path / "m.onnx", ["N", 3, "H", "W"])
    other = foreign(straightway.convert(path, verify=False), tmp_path / "m.tflite")
    found = straightway.verify(path, other)
    assert found.equal
    assert "not, byte for byte" in found.note
    assert len({check.shape for check in found.outputs}) == 6
    np.savez(tmp_path / "x.npz", x=floats(3, 3, 9, 11))
    found = straightway.verify(path, other, inputs=tmp_path / "x.npz")
    assert [check.shape for check in found.outputs] == [(3, 4, 5, 6)]


def test_our_own_file_is_compared_on_the_users_arrays(tmp_path):
    path = convolution(tmp_path / "m.onnx", ["N", 3, "H", "W"])
    straightway.convert(path, tmp_path / "m.tflite", verify=False)
    np.savez(tmp_path / "x.npz", x=floats(3, 3, 9, 11))
    found = straightway.verify(path, tmp_path / "m.tflite", inputs=tmp_path / "x.npz")
    assert found.equal
    assert not found.note
    assert [check.shape for check in found.outputs] == [(3, 4, 5, 6)]


def test_a_part_that_the_file_fixes_is_not_open(tmp_path):
    path = convolution(tmp_path / "m.onnx", ["N", 3, "H", "W"])
    other = foreign(straightway.convert(path, verify=False, dims={"H": 30}), tmp_path / "m.tflite")
    shapes = {check.shape for check in straightway.verify(path, other).outputs}
    assert len(shapes) > 3
    assert {shape[2] for shape in shapes} == {15}


def test_a_file_that_only_says_that_it_is_open_is_found_out(tmp_path):
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    constants = {"shape": np.array([0, 2, 6]), "w": floats(6, 3)}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 12]}, ["y"], constants)
    made = straightway.convert(path, verify=False, dims={"N": 4})
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(bytearray(made.data)))
    graph = model.subgraphs[0]
    graph.tensors[graph.inputs[0]].shapeSignature = [-1, 12]
    builder = Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    (tmp_path / "m.tflite").write_bytes(bytes(builder.Output()))
    with pytest.raises(straightway.Mismatch, match="leaves dimensions open, but does not run at"):
        straightway.verify(path, tmp_path / "m.tflite")


def test_sigmoids_are_spelled_out_for_files_of_others_too(tmp_path):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    constants = {"b": np.full(3, -11, np.float32)}
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, 3]}, ["y"], constants)
    other = foreign(straightway.convert(path, verify=False), tmp_path / "m.tflite")
    found = straightway.verify(path, other)
    assert found.equal
    assert "not, byte for byte" in found.note
    assert "1 / (1 + exp(-x))" in found.note


@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
def test_a_profile_says_at_which_sizes(name, tmp_path):
    path = convolution(tmp_path / "m.onnx", ["N", 3, "H", "W"])
    straightway.convert(path, tmp_path / "m.tflite", verify=False)
    trace = straightway.profile(tmp_path / name, runs=1)
    assert list(trace.run.sizes.values()) == [1, 224, 224]
    asked = straightway.profile(tmp_path / name, runs=1, shapes={"x": [2, 3, 9, 11]})
    assert not asked.run.sizes
    np.savez(tmp_path / "x.npz", x=floats(3, 3, 9, 11))
    given = straightway.profile(tmp_path / name, runs=1, inputs=tmp_path / "x.npz")
    assert list(given.run.sizes.values()) == [3, 9, 11]


def test_a_profile_of_a_model_that_runs_nowhere_asks_for_sizes(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, "K"]}, ["y"], {"w": floats(4999, 3)})
    trace = straightway.profile(path, runs=1)
    assert trace.run.sizes == {"K": 4999}
    nodes = [helper.make_node("MatMul", ["r", "w"], ["y"]), helper.make_node("Relu", ["x"], ["r"])]
    path = save(tmp_path / "n.onnx", nodes[::-1], {"x": [1, "K"]}, ["y"], {"w": floats(4999, 3)})
    with pytest.raises(straightway.InvalidRequest, match="--shape or --dim fixes K"):
        straightway.profile(path, runs=1)


def test_usual_sizes_that_need_a_lot_of_memory_are_not_tried(tmp_path):
    """Each pixel meets each: 10 GB at 224 by 224."""
    nodes = [
        helper.make_node("Reshape", ["x", "column"], ["a"]),
        helper.make_node("Reshape", ["x", "row"], ["b"]),
        helper.make_node("MatMul", ["a", "b"], ["m"]),
        helper.make_node("ReduceMax", ["m"], ["y"], axes=[1, 2]),
    ]
    constants = {"column": np.array([1, -1, 1]), "row": np.array([1, 1, -1])}
    path = save(tmp_path / "m.onnx", nodes, {"x": [1, 1, "H", "W"]}, ["y"], constants)
    done = straightway.convert(path)
    assert done.sizes == {"H": 64, "W": 64}


def test_what_computes_sizes_comes_from_the_node_that_needs_them(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "two"], ["n"]),
        helper.make_node("Concat", ["n", "heads"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "two": np.array([2]), "heads": np.array([3, 4])}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", "T", 12]}, ["y"], constants)
    written = straightway.convert(path, verify=False).translation.written.operators
    assert len(written) > 1
    assert all(node.origins for node in written)


def test_sizes_at_which_a_window_does_not_fit_are_not_tried(tmp_path):
    """A batch of one is one column."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w"], ["y"], pads=[0, 1, 0, 1]),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, {"x": ["N", 3, 10, "N"]}, ["y"], {"w": floats(4, 3, 1, 3)}
    )
    done = straightway.convert(path)
    assert {check.shape[0] for check in done.verification.outputs}.isdisjoint({0, 1})


@pytest.mark.parametrize(("shape", "fixed"), [(["N", 3, 4, 1], "N"), (["N", 3, "T", 1], "N, T")])
def test_a_squeeze_without_axes_leaves_no_size_open_that_may_be_one(shape, fixed, tmp_path):
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Squeeze", ["x"], ["y"])], {"x": shape}, "y", {}
    )
    with pytest.raises(straightway.Unsupported, match=f"takes away {fixed}, too"):
        straightway.convert(path)
    assert straightway.convert(path, shapes={"x": (1, 3, 4, 1)}).verification.equal


def test_a_squeeze_that_names_its_axes_leaves_sizes_open(tmp_path):
    nodes = [helper.make_node("Squeeze", ["x", "axes"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 1]}, "y", {"axes": np.array([2])})
    assert straightway.convert(path).verification.equal


def test_no_size_is_compared_that_the_reference_refuses(tmp_path):
    nodes = [helper.make_node("TopK", ["x", "k"], ["y", "p"], axis=0)]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 3]}, "y", {"k": np.array([2])})
    done = straightway.convert(path)
    assert done.verification.equal
    assert all(check.shape == (2, 3) for check in done.verification.outputs)


def test_an_axis_that_no_size_gives_is_named(tmp_path):
    nodes = [helper.make_node("Unique", ["x"], ["y"], axis=2**63 - 1)]
    path = save(tmp_path / "m.onnx", nodes, {"x": [4, "M"]}, "y", {})
    with pytest.raises(straightway.Unsupported, match="is none of 2 dimensions"):
        straightway.convert(path)


def test_no_inputs_are_made_where_nothing_is_compared(tmp_path):
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": ["N", 3]}, "y", {}
    )
    declared = read(path, ShapeRequest(keep_open=True))
    assert not translate_open(path, declared, Options(compares=False)).sets


@pytest.mark.parametrize("reduction", ["none", "max"])
@pytest.mark.parametrize("op", ["ScatterND", "ScatterElements"])
def test_places_that_meet_at_one_size_only_are_not_left_open(op, reduction, tmp_path):
    """The first row and the last are the same row where there is but one."""
    nodes = [helper.make_node(op, ["x", "i", "u"], ["y"], reduction=reduction)]
    indices = np.array([[0], [-1]]).repeat(1 if op == "ScatterND" else 3, axis=1)
    constants = {"i": indices, "u": floats(2, 3)}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["M", 3]}, ["y"], constants)
    with pytest.raises(straightway.Unsupported, match="can't stay open"):
        straightway.convert(path)
    assert straightway.convert(path, dims={"M": 4}).verification.equal
    if reduction == "max":
        assert straightway.convert(path, dims={"M": 1}).verification.equal


def test_places_along_a_fixed_dimension_leave_the_others_open(tmp_path):
    nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["y"])]
    constants = {"i": np.array([[0, 1], [1, -1]]), "u": floats(2)}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["M", 3]}, ["y"], constants)
    assert straightway.convert(path).verification.equal


def resized(path, size=24, **attrs):
    nodes = [helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], **attrs)]
    sizes = {"sizes": np.array([1, 3, size, size])}
    return save(path, nodes, {"x": [1, 3, "H", "W"]}, ["y"], sizes)


def test_any_size_becomes_one_by_interpolation(tmp_path):
    done = straightway.convert(resized(tmp_path / "m.onnx", mode="linear"))
    assert done.sizes == {"H": 224, "W": 224}


@pytest.mark.parametrize("size", [24, 64, 224])
def test_neighbours_that_tflite_rounds_otherwise_at_some_size_are_refused(size, tmp_path):
    """Half-way between two, ONNX takes the first, TFLite the second: of 64, at 128 first."""
    with pytest.raises(straightway.Unsupported, match="can't stay open"):
        straightway.convert(resized(tmp_path / "m.onnx", size, mode="nearest"))


def test_neighbours_that_tflite_rounds_alike_at_any_size_become_one(tmp_path):
    attrs = {"nearest_mode": "round_prefer_ceil", "coordinate_transformation_mode": "align_corners"}
    path = resized(tmp_path / "m.onnx", mode="nearest", **attrs)
    done = straightway.convert(path)
    sizes = ((7, 300), (24, 25), (1, 47))
    assert_equal_at(path, done.data, *({"x": floats(1, 3, h, w)} for h, w in sizes))


def test_a_dimension_that_is_named_after_another_follows_from_it(tmp_path):
    """The mask of attention to all keys, those of earlier runs and the new one."""
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["keys"], axis=0),
        helper.make_node("Mul", ["keys", "mask"], ["y"]),
    ]
    inputs = {"past": ["past", 3], "new": [1, 3], "mask": ["past + 1", 1]}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y"], {})
    done = straightway.convert(path)
    assert done.verification.equal
    assert done.sizes["past + 1"] == done.sizes["past"] + 1
    assert straightway.convert(path, dims={"past": 6}).verification.equal


def test_a_dimension_that_must_be_a_sum_of_others_is(tmp_path):
    nodes = [
        helper.make_node("Concat", ["past", "new"], ["keys"], axis=1),
        helper.make_node("Mul", ["keys", "mask"], ["y"]),
    ]
    inputs = {"past": [1, "P", 3], "new": [1, "S", 3], "mask": [1, "T", 1]}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y"], {})
    done = straightway.convert(path)
    assert done.sizes["P + S"] == done.sizes["P"] + done.sizes["S"]
    assert "T is P + S: the model takes no other size" in [r.text for r in done.remarks]
    feeds = (
        {"past": floats(1, p, 3), "new": floats(1, s, 3), "mask": floats(1, p + s, 1)}
        for p, s in ((4, 2), (1, 9))
    )
    assert_equal_at(path, done.data, *feeds)


@pytest.mark.parametrize("at_run_time", [False, True])
def test_what_only_runs_at_a_sum_is_open_at_it(at_run_time, tmp_path):
    """The mask's element of the newest word, at the place of as many as came before."""
    count = [
        helper.make_node("Shape", ["past"], ["count"], start=1, end=2),
        helper.make_node("ArgMin", ["past"], ["place"], axis=1, keepdims=0),
        helper.make_node("Sub", ["place", "place"], ["nothing"]),
        helper.make_node("Add", ["count", "nothing"], ["n"]),
    ]
    known = [helper.make_node("Shape", ["past"], ["n"], start=1, end=2)]
    nodes = [
        *(count if at_run_time else known),
        helper.make_node("Gather", ["mask", "n"], ["m"], axis=1),
        helper.make_node("ReduceSum", ["past", "axes"], ["sum"]),
        helper.make_node("Mul", ["sum", "m"], ["y"]),
    ]
    inputs = {"past": [1, "P"], "mask": [1, "T"]}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y"], {"axes": np.array([1])})
    done = straightway.convert(path)
    said = [r.text for r in done.remarks]
    if at_run_time:
        assert "compared where T is P + 1: the model does not run at all sizes" in said
    else:
        assert "T is P + 1: the model takes no other size" in said
    assert_equal_at(
        path,
        done.data,
        *({"past": floats(1, p), "mask": floats(1, t)} for p, t in ((3, 9), (5, 6))),
    )


def test_numbers_beyond_int32_are_not_made_of_sizes(tmp_path):
    nodes = [helper.make_node("ReduceMean", ["x"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": [2, "M", 4]}, ["y"], {})
    model = onnx.load(path)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.UINT64
    onnx.save(model, path)
    with pytest.raises(straightway.Unsupported, match="beyond int32"):
        straightway.convert(path)
    assert straightway.convert(path, dims={"M": 8}).verification.equal
