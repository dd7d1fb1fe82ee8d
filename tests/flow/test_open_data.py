"""Data that depend on open sizes: positions, masks, tables cut to the length, steps of a sequence."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node
from open_models import assert_equal_at, floats, save

import straightway

CONSTANTS = {
    "zero": np.array(0, np.int64),
    "one": np.array(1, np.int64),
    "zeros": np.array([0], np.int64),
    "ones": np.array([1], np.int64),
    "twos": np.array([2], np.int64),
}


def length(of="x", axis=1, name="t"):
    """Nodes for the size of a dimension, as number `t` and as vector `t1`."""
    return [
        make_node("Shape", [of], [f"{name}_shape"]),
        make_node("Gather", [f"{name}_shape", "zero" if axis == 0 else "one"], [name], axis=0),
        make_node("Unsqueeze", [name, "zeros"], [f"{name}1"]),
    ]


def check(tmp_path, nodes, inputs, constants, *sizes, outputs=("y",)):
    path = save(tmp_path / "m.onnx", nodes, inputs, list(outputs), {**CONSTANTS, **constants})
    done = straightway.convert(path)
    assert done.verification.equal
    feeds = [
        {name: floats(*(at.get(d, d) for d in shape)) for name, shape in inputs.items()}
        for at in sizes
    ]
    assert_equal_at(path, done.data, *feeds)
    return done


SQUARES = ({"N": 1, "T": 5, "S": 5}, {"N": 2, "T": 9, "S": 4})
TWO = ({"N": 1, "T": 1}, {"N": 4, "T": 17}, {"N": 2, "T": 30})


def test_a_table_of_positions_is_cut_to_the_length(tmp_path):
    nodes = [
        *length(),
        make_node("Slice", ["table", "zeros", "t1", "zeros"], ["positions"]),
        make_node("Add", ["x", "positions"], ["y"]),
    ]
    check(tmp_path, nodes, {"x": ["N", "T", 8]}, {"table": floats(32, 8)}, *TWO)


def test_positions_are_looked_up(tmp_path):
    nodes = [
        *length(),
        make_node("Range", ["zero", "t", "one"], ["places"]),
        make_node("Gather", ["table", "places"], ["positions"]),
        make_node("Add", ["x", "positions"], ["y"]),
    ]
    check(tmp_path, nodes, {"x": ["N", "T", 8]}, {"table": floats(32, 8)}, *TWO)


def test_a_causal_mask(tmp_path):
    nodes = [
        *length(),
        make_node("Range", ["zero", "t", "one"], ["places"]),
        make_node("Unsqueeze", ["places", "ones"], ["column"]),
        make_node("LessOrEqual", ["places", "column"], ["mask"]),
        make_node("Transpose", ["x"], ["turned"], perm=[0, 2, 1]),
        make_node("MatMul", ["x", "turned"], ["scores"]),
        make_node("Where", ["mask", "scores", "least"], ["masked"]),
        make_node("Softmax", ["masked"], ["weights"], axis=-1),
        make_node("MatMul", ["weights", "x"], ["y"]),
    ]
    check(tmp_path, nodes, {"x": ["N", "T", 8]}, {"least": np.float32(-1e4)}, *TWO)


def test_a_number_made_of_the_length(tmp_path):
    nodes = [
        *length(),
        make_node("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
        make_node("Sqrt", ["f"], ["root"]),
        make_node("Div", ["x", "root"], ["y"]),
    ]
    check(tmp_path, nodes, {"x": ["N", "T", 8]}, {}, *TWO)


def test_a_state_of_zeros(tmp_path):
    nodes = [
        *length(axis=0, name="n"),
        make_node("Concat", ["n1", "ones", "eight"], ["shape"], axis=0),
        make_node(
            "ConstantOfShape",
            ["shape"],
            ["zeroes"],
            value=helper.make_tensor("v", TensorProto.FLOAT, [1], [0.5]),
        ),
        make_node("Concat", ["zeroes", "x"], ["y"], axis=1),
    ]
    check(tmp_path, nodes, {"x": ["N", "T", 8]}, {"eight": np.array([8])}, *TWO)


def test_a_learned_token_is_repeated(tmp_path):
    nodes = [
        *length(axis=0, name="n"),
        make_node("Concat", ["n1", "ones", "eight"], ["shape"], axis=0),
        make_node("Expand", ["token", "shape"], ["tokens"]),
        make_node("Concat", ["tokens", "x"], ["y"], axis=1),
    ]
    constants = {"eight": np.array([8]), "token": floats(1, 1, 8)}
    check(tmp_path, nodes, {"x": ["N", "T", 8]}, constants, *TWO)


def test_two_sizes_that_are_equal_by_chance_stay_apart(tmp_path):
    """Half the one is the other at some sizes, and then so are the ranges of them."""
    nodes = [
        *length(axis=0, name="n"),
        *length(),
        make_node("Range", ["zero", "n", "one"], ["rows"]),
        make_node("Range", ["zero", "t", "one"], ["columns"]),
        make_node("Unsqueeze", ["rows", "ones"], ["down"]),
        make_node("Add", ["down", "columns"], ["sums"]),
        make_node("Cast", ["sums"], ["grid"], to=TensorProto.FLOAT),
        make_node("Add", ["x", "grid"], ["y"]),
    ]
    check(tmp_path, nodes, {"x": ["N", "T"]}, {}, *TWO, {"N": 5, "T": 5})


def recurrent(op, gates, directions=1, **attributes):
    weights = {
        "w": floats(directions, gates * 6, 5) * 0.3,
        "r": floats(directions, gates * 6, 6) * 0.3,
        "b": floats(directions, 2 * gates * 6) * 0.3,
    }
    operands = ["x", "w", "r", "b"]
    return make_node(op, operands, ["y"], hidden_size=6, **attributes), weights


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("shape", [["T", "N", 5], ["T", 2, 5], [4, "N", 5]])
def test_sequences_of_any_length(tmp_path, op, gates, direction, shape):
    count = 2 if direction == "bidirectional" else 1
    node, weights = recurrent(op, gates, count, direction=direction)
    check(tmp_path, [node], {"x": shape}, weights, {"T": 1, "N": 1}, {"T": 40, "N": 3})


def test_cells_of_a_grid(tmp_path):
    """Anchors of a detector: rows and columns of an image that is halved."""
    nodes = [
        make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        make_node("Shape", ["c"], ["s"]),
        make_node("Gather", ["s", "two"], ["h"]),
        make_node("Gather", ["s", "three"], ["w_"]),
        make_node("Range", ["zero", "h", "one"], ["rows"]),
        make_node("Range", ["zero", "w_", "one"], ["columns"]),
        make_node("Cast", ["rows"], ["rows_f"], to=TensorProto.FLOAT),
        make_node("Cast", ["columns"], ["columns_f"], to=TensorProto.FLOAT),
        make_node("Add", ["rows_f", "half"], ["rows_c"]),
        make_node("Unsqueeze", ["rows_c", "ones"], ["down"]),
        make_node("Mul", ["down", "columns_f"], ["grid"]),
        make_node("Add", ["c", "grid"], ["y"]),
    ]
    constants = {
        "w": floats(4, 3, 3, 3),
        "two": np.array(2),
        "three": np.array(3),
        "half": np.float32(0.5),
    }
    sizes = ({"N": 1, "H": 8, "W": 9}, {"N": 2, "H": 31, "W": 16})
    check(tmp_path, nodes, {"x": ["N", 3, "H", "W"]}, constants, *sizes)


def test_what_the_run_finds_out_beside_an_open_batch(tmp_path):
    """Both the batch and how many elements are above zero are open."""
    nodes = [
        make_node("Flatten", ["x"], ["flat"], axis=0),
        make_node("Squeeze", ["flat", "zeros"], ["line"]),
        make_node("Greater", ["line", "level"], ["hits"]),
        make_node("Compress", ["line", "hits"], ["found"], axis=0),
        make_node("Mul", ["found", "found"], ["y"]),
        make_node("Relu", ["x"], ["z"]),
    ]
    constants = {"level": np.float32(0.0)}
    sizes = ({"N": 1}, {"N": 7})
    check(tmp_path, nodes, {"x": ["N", 6]}, constants, *sizes, outputs=("y", "z"))


def test_a_loop_over_the_length(tmp_path):
    """As many turns as rows: the length is the number of turns."""
    body = helper.make_graph(
        [
            make_node("Gather", ["x", "i"], ["row"], axis=0),
            make_node("Add", ["sum_in", "row"], ["sum_out"]),
            make_node("Identity", ["on"], ["on_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum_in", TensorProto.FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("on_out", TensorProto.BOOL, []),
            helper.make_tensor_value_info("sum_out", TensorProto.FLOAT, [4]),
        ],
    )
    nodes = [
        *length(axis=0, name="n"),
        make_node("Loop", ["n", "", "start"], ["y"], body=body),
    ]
    sizes = ({"T": 1}, {"T": 9})
    check(tmp_path, nodes, {"x": ["T", 4]}, {"start": floats(4)}, *sizes)


def test_rows_of_a_batch_are_counted_in_whole_numbers_of_64_bits(tmp_path):
    graph = helper.make_graph(
        [make_node("GatherND", ["x", "i"], ["y"], batch_dims=1)],
        "open",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 4, 5]),
            helper.make_tensor_value_info("i", TensorProto.INT64, ["N", 1, 2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert straightway.convert(path).verification.equal


def test_a_condition_may_be_longer_than_what_it_chooses_from(tmp_path):
    graph = helper.make_graph(
        [make_node("Compress", ["x", "c"], ["y"])],
        "open",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("c", TensorProto.BOOL, [4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    done = straightway.convert(path)
    for rows, condition in ((1, [True, False, True, True]), (3, [False, True, False, True])):
        feeds = {"x": floats(rows, 3), "c": np.array(condition)}
        assert_equal_at(path, done.data, feeds)


def test_words_have_places_at_any_length_that_the_table_has(tmp_path):
    embed = make_node("EmbedLayerNormalization", ["i", "", "w", "p", "", "g", "b"], ["y", "n"])
    embed.domain = "com.microsoft"
    constants = {"w": floats(50, 8), "p": floats(16, 8), "g": floats(8), "b": floats(8)}
    graph = helper.make_graph(
        [embed],
        "open",
        [helper.make_tensor_value_info("i", TensorProto.INT32, ["N", "S"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    done = straightway.convert(path)
    assert done.sizes == {"N": 1, "S": 16}
    words = np.arange(22, dtype=np.int32).reshape(2, 11)
    assert_equal_at(path, done.data, {"i": words}, {"i": words[:1, :3]})


@pytest.mark.parametrize("equation", ["ii->i", "ii"])
def test_a_diagonal_of_any_size_takes_steps_of_that_size(equation, tmp_path):
    nodes = [make_node("Einsum", ["x"], ["y"], equation=equation)]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", "N"]}, ["y"], {})
    done = straightway.convert(path)
    assert "N" in done.sizes
    assert_equal_at(path, done.data, {"x": floats(4, 4)}, {"x": floats(9, 9)})


def test_a_diagonal_has_no_place_in_a_matrix_of_any_size(tmp_path):
    nodes = [make_node("EyeLike", ["x"], ["y"], k=100)]
    path = save(tmp_path / "m.onnx", nodes, {"x": [3, "N"]}, ["y"], {})
    with pytest.raises(straightway.Unsupported, match="where a diagonal lies depends"):
        straightway.convert(path)


def test_copies_of_one_row_are_as_many_as_the_length(tmp_path):
    nodes = [
        *length(axis=1),
        make_node("ReduceMax", ["x"], ["most"], axes=[1], keepdims=1),
        make_node("Concat", ["ones", "t1", "ones"], ["times"], axis=0),
        make_node("Tile", ["most", "times"], ["copies"]),
        make_node("Concat", ["copies", "x"], ["y"], axis=2),
    ]
    check(tmp_path, nodes, {"x": ["N", "T", 8]}, {}, *TWO)


def test_numbers_of_rows_fit_a_table_of_any_length(tmp_path):
    """The edges of a graph: at every size compared there are other nodes, one of them perhaps."""
    nodes = [
        make_node("Gather", ["x", "edges"], ["rows"]),
        make_node("Unsqueeze", ["edges", "ones"], ["places"]),
        make_node("ScatterND", ["x", "places", "rows"], ["y"], reduction="add"),
    ]
    inputs = {"x": ["nodes", 8], "edges": ["edges"]}
    path = save(
        tmp_path / "m.onnx", nodes, inputs, ["y"], CONSTANTS, types={"edges": TensorProto.INT64}
    )
    assert straightway.convert(path).verification.equal


def test_sequences_are_not_longer_than_the_time_that_there_is(tmp_path):
    nodes = [make_node("GRU", ["x", "w", "r", "", "lengths"], ["y", "last"], hidden_size=5)]
    inputs = {"x": ["T", "N", 4], "lengths": ["N"]}
    constants = {"w": floats(1, 15, 4), "r": floats(1, 15, 5)}
    types = {"lengths": TensorProto.INT32}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y", "last"], constants, types=types)
    assert straightway.convert(path).verification.equal


def test_elements_are_gathered_from_a_table_of_open_rows(tmp_path):
    """Where an element stands in the flat tensor depends on how long its row is."""
    nodes = [
        make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64),
        make_node("Mod", ["whole", "two"], ["places"]),
        make_node("GatherElements", ["x", "places"], ["y"], axis=1),
    ]
    check(tmp_path, nodes, {"x": ["N", 3, "T"]}, {"two": np.array(2)}, *TWO)


def test_numbers_as_far_apart_as_rows_are_long(tmp_path):
    nodes = [
        *length(axis=0, name="n"),
        *length(axis=1),
        make_node("Range", ["zero", "n", "one"], ["rows"]),
        make_node("Mul", ["rows", "t"], ["apart"]),
        make_node("Cast", ["apart"], ["numbers"], to=TensorProto.FLOAT),
        make_node("Unsqueeze", ["numbers", "ones"], ["column"]),
        make_node("Add", ["x", "column"], ["y"]),
    ]
    check(tmp_path, nodes, {"x": ["N", "T"]}, {}, *TWO)


@pytest.mark.parametrize("upper", [0, 1])
def test_a_triangle_of_open_size(upper, tmp_path):
    nodes = [make_node("Trilu", ["x", "shift"], ["y"], upper=upper)]
    check(tmp_path, nodes, {"x": ["N", "T", "S"]}, {"shift": np.array(1)}, *SQUARES)
