"""Inputs that say axes, sizes or places are such that the model takes them."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import straightway
from straightway.flow.accepted import accepted, suggestions, takes
from straightway.flow.inputs import make_inputs
from straightway.flow.reference import Oracle
from straightway.flow.translate import read
from straightway.run.process import Child

INT, FLOAT = TensorProto.INT64, TensorProto.FLOAT


@pytest.fixture(scope="module")
def child():
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


def one_node(path, op, inputs, outputs, opset=18, **attributes):
    """A model of one node; `inputs` and `outputs` are (element type, shape)."""
    ins = [helper.make_tensor_value_info(f"x{k}", *i) for k, i in enumerate(inputs)]
    outs = [helper.make_tensor_value_info(f"y{k}", *o) for k, o in enumerate(outputs)]
    node = helper.make_node(op, [v.name for v in ins], [v.name for v in outs], **attributes)
    graph = helper.make_graph([node], "g", ins, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, path)
    return path


CASES = {
    "Reshape": ([(FLOAT, [2, 3, 4]), (INT, [2])], [(FLOAT, [6, 4])]),
    "Expand": ([(FLOAT, [3, 1]), (INT, [3])], [(FLOAT, [2, 3, 5])]),
    "Tile": ([(FLOAT, [3, 2]), (INT, [2])], [(FLOAT, [6, 10])]),
    "Split": ([(FLOAT, [3, 7]), (INT, [2])], [(FLOAT, [3, 5]), (FLOAT, [3, 2])]),
    "Unsqueeze": ([(FLOAT, [3, 7]), (INT, [2])], [(FLOAT, [1, 3, 7, 1])]),
    "ReduceSum": ([(FLOAT, [3, 7, 5]), (INT, [1])], [(FLOAT, [3, 1, 5])]),
    "CumSum": ([(FLOAT, [3, 7]), (INT, [])], [(FLOAT, [3, 7])]),
    "OneHot": ([(INT, [3]), (FLOAT, []), (FLOAT, [2])], [(FLOAT, [3, 9])]),
    "TopK": ([(FLOAT, [3, 7]), (INT, [1])], [(FLOAT, [3, 4]), (INT, [3, 4])]),
}


@pytest.mark.parametrize("op", CASES)
def test_what_says_shapes_is_what_the_shapes_say(op, tmp_path, child):
    attributes = {"axis": 1} if op == "Split" else {}
    path = one_node(tmp_path / "m.onnx", op, *CASES[op], **attributes)
    graph = read(path)
    oracle = Oracle(child, path)
    sets = [make_inputs(graph, seed) for seed in range(3)]
    found = accepted(oracle, graph, sets)
    assert all(takes(oracle, graph, arrays) for arrays in found)
    for before, after in zip(sets, found, strict=True):
        assert [a.dtype for a in before.values()] == [a.dtype for a in after.values()]


def test_inputs_that_are_taken_stay(tmp_path, child):
    path = one_node(tmp_path / "m.onnx", "Add", [(INT, [2, 3])] * 2, [(INT, [2, 3])])
    graph = read(path)
    sets = [make_inputs(graph, 0)]
    [after] = accepted(Oracle(child, path), graph, sets)
    assert all(np.array_equal(after[name], array) for name, array in sets[0].items())


def test_a_model_that_takes_nothing_keeps_its_inputs(tmp_path, child):
    path = one_node(tmp_path / "m.onnx", "Tile", [(FLOAT, [3]), (INT, [1])], [(FLOAT, [5])])
    graph = read(path)
    sets = [make_inputs(graph, 0)]
    [after] = accepted(Oracle(child, path), graph, sets)
    assert after is sets[0]


def test_no_suggestions_for_data(tmp_path):
    path = one_node(tmp_path / "m.onnx", "Add", [(INT, [2, 3])] * 2, [(INT, [2, 3])])
    assert not any(suggestions(value) for value in read(path).inputs)


@pytest.mark.parametrize("axis", [0, 1])
def test_places_to_write_to_are_distinct_along_their_axis(axis, tmp_path):
    shape = (FLOAT, [5, 6])
    path = one_node(
        tmp_path / "m.onnx", "ScatterElements", [shape, (INT, [4, 3]), (FLOAT, [4, 3])], [shape],
        axis=axis,
    )  # fmt: skip
    for seed in range(5):
        places = np.moveaxis(make_inputs(read(path), seed)["x1"], axis, 0)
        for column in places.T:
            assert len(set(column.tolist())) == len(column)


def test_where_onnxruntime_has_no_kernel_onnx_itself_is_asked(tmp_path, child):
    path = one_node(
        tmp_path / "m.onnx", "AveragePool", [(FLOAT, [1, 2, 6, 6])], [(FLOAT, [1, 2, 3, 3])], 6,
        kernel_shape=[2, 2], strides=[2, 2],
    )  # fmt: skip
    done = straightway.convert(path, child=child)
    assert done.verification is not None
    assert done.verification.equal
    assert "ONNX's reference evaluator" in done.verification.note
    assert "AveragePool" in done.verification.note


def test_an_old_model_with_weights_is_brought_up(tmp_path, child):
    path = one_node(
        tmp_path / "m.onnx", "Gemm", [(FLOAT, [2, 3])], [(FLOAT, [2, 4])], 6, broadcast=1
    )
    proto = onnx.load(path)
    proto.graph.node[0].input.extend(["w", "b"])
    rng = np.random.default_rng(0)
    proto.graph.initializer.extend(
        numpy_helper.from_array(rng.random(shape, np.float32), name)
        for name, shape in (("w", (3, 4)), ("b", (4,)))
    )
    onnx.save(proto, path)
    done = straightway.convert(path, child=child)
    assert done.verification is not None
    assert done.verification.equal


def test_no_reference_at_all_is_a_failure_that_names_both(tmp_path, child):
    path = one_node(tmp_path / "m.onnx", "Nonsense", [(FLOAT, [2])], [(FLOAT, [2])], domain="q")
    proto = onnx.load(path)
    proto.opset_import.append(helper.make_opsetid("q", 1))
    onnx.save(proto, path)
    with pytest.raises(straightway.ToolFailed, match=r"onnxruntime can't.*ONNX's reference"):
        Oracle(child, path).run({"x0": np.zeros(2, np.float32)})


SIZED = {
    "CenterCropPad": ([(FLOAT, [3, 20, 8]), (INT, [2])], [3, 10, 9], [1, 2]),
    "Resize": ([(FLOAT, [1, 1, 2, 2]), (FLOAT, [0]), (FLOAT, [2])], [1, 1, 4, 6], [2, 3]),
    "Pad": ([(FLOAT, [2, 3, 4]), (INT, [4]), (FLOAT, []), (INT, [2])], [2, 5, 7], None),
    "Slice": ([(FLOAT, [9, 3, 8])] + 4 * [(INT, [2])], [4, 3, 5], None),
}


@pytest.mark.parametrize("op", SIZED)
def test_sizes_and_scales_are_those_of_the_declared_result(op, tmp_path, child):
    inputs, made, axes = SIZED[op]
    attributes = {} if axes is None else {"axes": axes}
    one_node(tmp_path / "m.onnx", op, inputs, [(FLOAT, made)], **attributes)
    assert straightway.convert(tmp_path / "m.onnx", child=child).verification is not None
