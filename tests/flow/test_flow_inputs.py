"""Seeded inputs fit the model: tokens stay inside their table, masks are masks."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_io.small_models import model, node, save, tensor, tokens, weights
from straightway.errors import InvalidRequest
from straightway.flow.inputs import index_limit, load_inputs, make_inputs, pinned_inputs
from straightway.ingest.onnx import ingest

I64, I32, BOOL = TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL


def graph_of(proto, tmp_path):
    return ingest(save(proto, tmp_path / "m.onnx"))


def limit_of(tmp_path, nodes, constants, element=I64, shape=(4, 6)):
    proto = model(nodes, [tensor("ids", shape, element)], [tensor("y", None)], constants)
    return index_limit(graph_of(proto, tmp_path).inputs[0])


def test_tokens_stay_inside_their_table_and_use_it(tmp_path):
    graph = graph_of(tokens(rows=11), tmp_path)
    found = np.concatenate([make_inputs(graph, seed)["input_ids"].ravel() for seed in range(20)])
    assert set(found) == set(range(11))


def test_masks_are_mostly_ones(tmp_path):
    graph = graph_of(tokens(), tmp_path)
    found = np.concatenate([make_inputs(graph, seed)["attention_mask"] for seed in range(20)])
    assert set(found.ravel()) == {0, 1}
    assert found.mean() > 0.6
    assert found.dtype == np.int64


def test_the_same_seed_gives_the_same_arrays_and_another_others(tmp_path):
    graph = graph_of(tokens(), tmp_path)
    first, again, other = (make_inputs(graph, seed) for seed in (0, 0, 1))
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
    assert any((first[name] != other[name]).any() for name in first)


def test_floats_are_images_and_truth_values_are_both(tmp_path):
    proto = model(
        [node("Where", "c x z", "y")],
        [tensor("c", [50, 4], BOOL), tensor("x", [50, 4]), tensor("z", [50, 4], TensorProto.FLOAT)],
        [tensor("y", None)],
    )
    found = make_inputs(graph_of(proto, tmp_path), 0)
    assert set(found["c"].ravel()) == {False, True}
    assert 0 <= found["x"].min() < 0.1
    assert 0.9 < found["x"].max() < 1
    assert found["x"].dtype == np.float32


def test_the_smallest_table_counts(tmp_path):
    nodes = [node("Gather", "a ids", "p"), node("Gather", "b ids", "q"), node("Add", "p q", "y")]
    assert limit_of(tmp_path, nodes, {"a": weights(30, 3), "b": weights(20, 3)}) == 20


def test_the_axis_of_the_lookup_counts(tmp_path):
    table = {"a": weights(30, 7)}
    assert limit_of(tmp_path, [node("Gather", "a ids", "y", axis=1)], table) == 7
    assert limit_of(tmp_path, [node("Gather", "a ids", "y", axis=-2)], table) == 30
    elements = [node("GatherElements", "a ids", "y", axis=1)]
    assert limit_of(tmp_path, elements, table) == 7
    assert limit_of(tmp_path, [node("GatherND", "a ids", "y")], table, shape=(4, 2)) == 7


def test_ids_are_followed_through_what_hands_them_on(tmp_path):
    nodes = [
        node("Cast", "ids", "c", to=I64),
        node("Unsqueeze", "c axes", "u"),
        node("Slice", "u zero two one", "s"),
        node("Gather", "a s", "y"),
    ]
    constants = {
        "axes": np.array([0]),
        "zero": np.array([0]),
        "two": np.array([2]),
        "one": np.array([1]),
        "a": weights(13, 2),
    }
    assert limit_of(tmp_path, nodes, constants, I32) == 13


def test_one_hot_takes_ids_below_its_depth(tmp_path):
    constants = {"depth": np.array(9), "values": np.array([0, 1], np.float32)}
    assert limit_of(tmp_path, [node("OneHot", "ids depth values", "y")], constants) == 9


def test_integers_that_index_nothing_are_below_a_hundred(tmp_path):
    nodes = [node("Mul", "ids ids", "y")]
    assert limit_of(tmp_path, nodes, {}) == 100
    proto = model(nodes, [tensor("ids", [300], TensorProto.INT8)], [tensor("y", None)])
    found = make_inputs(graph_of(proto, tmp_path), 0)["ids"]
    assert 90 < found.max() < 100


@pytest.mark.parametrize("axis", [7, -3, "one", 1.5])
def test_an_axis_that_can_not_be_is_left_to_the_operator(axis, tmp_path):
    assert (
        limit_of(tmp_path, [node("Gather", "a ids", "y", axis=axis)], {"a": weights(5, 2)}) == 100
    )


@pytest.fixture
def ids(tmp_path):
    return graph_of(tokens(), tmp_path)


GOOD = {"input_ids": np.zeros((2, 6), np.int64), "attention_mask": np.ones((2, 6), np.int64)}


def test_arrays_are_taken_by_name_in_the_order_of_the_model(ids, tmp_path):
    np.savez(tmp_path / "a.npz", **dict(reversed(GOOD.items())), more=np.zeros(3))
    found = load_inputs(tmp_path / "a.npz", ids)
    assert list(found) == ["input_ids", "attention_mask"]
    np.testing.assert_array_equal(found["attention_mask"], GOOD["attention_mask"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_ids": None}, r"lacks 'input_ids'; it holds \['attention_mask'\]"),
        (
            {"input_ids": np.zeros((2, 5), np.int64)},
            r"int64\[2, 5\]; the model takes int64\[2, 6\]",
        ),
        ({"input_ids": np.zeros((2, 6), np.int32)}, r"int32\[2, 6\]; the model takes int64"),
        ({"input_ids": np.full((2, 6), None)}, "'input_ids' holds Python objects"),
    ],
)
def test_arrays_that_do_not_fit_are_a_wrong_request(change, message, ids, tmp_path):
    arrays = {name: a for name, a in {**GOOD, **change}.items() if a is not None}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InvalidRequest, match=message):
        load_inputs(tmp_path / "a.npz", ids)


def _damaged(path):
    np.savez_compressed(path, **GOOD)
    data = bytearray(path.read_bytes())
    data[60:80] = bytes(20)
    path.write_bytes(data)


def _one_array(path):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def test_no_file_and_a_folder_are_a_wrong_request(ids, tmp_path):
    with pytest.raises(InvalidRequest, match=r"a\.npz: there is no such file"):
        load_inputs(tmp_path / "a.npz", ids)
    with pytest.raises(InvalidRequest, match="Is a directory"):
        load_inputs(tmp_path, ids)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"arrays"),
        lambda path: path.write_bytes(b"PK\x03\x04" + bytes(50)),
        _damaged,
        _one_array,
    ],
)
def test_what_is_no_archive_of_arrays_is_a_wrong_request(make, ids, tmp_path):
    make(tmp_path / "a.npz")
    with pytest.raises(InvalidRequest, match=r"no \.npz file of arrays"):
        load_inputs(tmp_path / "a.npz", ids)


@pytest.mark.parametrize(
    ("name", "operands"), [("Div", "c ids"), ("Mod", "c ids"), ("Pow", "ids negative")]
)
def test_nothing_is_divided_by_zero(name, operands, tmp_path):
    constants = {"c": np.array(7), "negative": np.array([-(2**31), 3] * 3)}
    proto = model([node(name, operands, "y")], [tensor("ids", [40, 6], I64)], [tensor("y", None)])
    proto.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    found = make_inputs(graph_of(proto, tmp_path), 0)["ids"]
    assert found.all()
    assert found.max() > 50


def test_powers_of_the_least_number_do_not_overflow(tmp_path):
    least = numpy_helper.from_array(np.array(-(2**31), np.int32), "least")
    proto = model([node("Pow", "least x", "y")], [tensor("x", [40], I32)], [tensor("y", None, I32)])
    proto.graph.initializer.append(least)
    assert make_inputs(graph_of(proto, tmp_path), 0)["x"].max() <= 1


def test_words_segments_and_positions_have_tables_of_their_own(tmp_path):
    embed = node(
        "EmbedLayerNormalization",
        "ids kinds words rows two scale shift _ places",
        "y mask",
        domain="com.microsoft",
    )
    names = ("ids", "kinds", "places")
    proto = model(
        [embed],
        [tensor(name, (4, 6), I32) for name in names],
        [tensor("y", (4, 6, 8)), tensor("mask", (4,), I32)],
        {
            "words": weights(30, 8),
            "rows": weights(7, 8),
            "two": weights(2, 8),
            "scale": weights(8),
            "shift": weights(8),
        },
    )
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = {value.name: index_limit(value) for value in graph_of(proto, tmp_path).inputs}
    assert found == {"ids": 30, "kinds": 2, "places": 7}


@pytest.mark.parametrize(
    ("name", "operands", "number", "shape"),
    [
        ("Resize", ["x", "", "made"], np.ones(4, np.float32), (2, 2, 2, 2)),
        ("Slice", ["x", "made", "made"], np.ones(4, np.int64), (2, 2, 2, 2)),
        ("Pad", ["x", "made"], np.ones(8, np.int64), (2, 2, 2, 2)),
        ("STFT", ["x", "made", "", "made"], np.array(4), (2, 4, 3, 2)),
    ],
)
def test_numbers_of_a_constant_node_are_no_inputs(name, operands, number, shape, tmp_path):
    """Before the graph is prepared they are no constants of it yet, and have no type."""
    nodes = [
        helper.make_node("Constant", [], ["made"], value=numpy_helper.from_array(number)),
        helper.make_node(name, operands, ["y"]),
    ]
    given = tensor("x", (2, 16, 1) if name == "STFT" else shape)
    graph = graph_of(model(nodes, [given], [tensor("y", shape)], {}, opset=18), tmp_path)
    assert not pinned_inputs(graph)
