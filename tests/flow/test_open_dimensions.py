"""Files that keep open dimensions: equal at sizes that no sample had."""

import re
from collections import Counter

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from onnx import helper
from open_models import assert_equal_at, floats, save

import straightway
from straightway.domains.sizes import Open, are_independent, explain
from straightway.flow.convert import Request
from straightway.flow.deploy import deploy
from straightway.flow.inspect import inspect
from straightway.flow.possible import forced
from straightway.flow.samples import ladders
from straightway.flow.translate import read
from straightway.ingest.shapes import ShapeRequest, open_dims
from straightway.ir import Value, tensor_type


def image_model(path):
    """Convolution, flattening in the model's order, a product: the batch is open."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "m"], ["y"]),
    ]
    constants = {"w": floats(4, 3, 3, 3), "m": floats(4 * 5 * 6, 7)}
    return save(path, nodes, {"x": ["N", 3, 5, 6]}, ["y"], constants)


def token_model(path):
    """Attention heads: two open dimensions in one reshape, computed from the input's shape."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"]),
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Gather", ["s", "one"], ["t"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["n1"]),
        helper.make_node("Unsqueeze", ["t", "axis"], ["t1"]),
        helper.make_node("Concat", ["n1", "t1", "heads"], ["shape"], axis=0),
        helper.make_node("Reshape", ["q", "shape"], ["h"]),
        helper.make_node("Transpose", ["h"], ["p"], perm=[0, 2, 1, 3]),
        helper.make_node("Softmax", ["p"], ["y"], axis=-1),
    ]
    constants = {
        "w": floats(8, 12),
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "axis": np.array([0], np.int64),
        "heads": np.array([3, 4], np.int64),
    }
    return save(path, nodes, {"x": ["N", "T", 8]}, ["y"], constants)


def test_an_open_batch_is_shown_as_one_and_can_be_resized(tmp_path):
    path = image_model(tmp_path / "image.onnx")
    done = straightway.convert(path, tmp_path / "image.tflite")
    assert done.verification is not None
    assert done.verification.seeds == 5
    (detail,) = Interpreter(model_content=done.data).get_input_details()
    assert detail["shape"].tolist() == [1, 3, 5, 6]
    assert detail["shape_signature"].tolist() == [-1, 3, 5, 6]
    assert_equal_at(path, done.data, *({"x": floats(n, 3, 5, 6)} for n in (1, 4, 9)))


def test_two_open_dimensions_in_one_reshape(tmp_path):
    path = token_model(tmp_path / "tokens.onnx")
    done = straightway.convert(path)
    assert_equal_at(
        path, done.data, *({"x": floats(n, t, 8)} for n, t in ((1, 1), (4, 10), (2, 33)))
    )


def test_open_height_and_width(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["g"]),
        helper.make_node("Mul", ["c", "g"], ["y"]),
    ]
    path = save(
        tmp_path / "m.onnx", nodes, {"x": [1, 3, "H", "W"]}, ["y"], {"w": floats(4, 3, 3, 3)}
    )
    done = straightway.convert(path)
    assert_equal_at(path, done.data, *({"x": floats(1, 3, h, w)} for h, w in ((8, 9), (31, 50))))


def test_a_dimension_that_can_have_one_size_only_has_it(tmp_path):
    """A matrix of constants takes so many columns; no size that is tried of others is that."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", "K"]}, ["y"], {"w": floats(40, 3)})
    done = straightway.convert(path)
    assert done.sizes == {"N": 1}
    assert "K is 40: the model takes no other size" in {one.text for one in done.remarks}
    assert_equal_at(path, done.data, *({"x": floats(n, 40)} for n in (1, 7)))


def test_channels_have_the_size_that_filters_have(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["c", "v"], ["y"], strides=[2, 2]),
    ]
    constants = {"w": floats(6, 3, 3, 3), "v": floats(4, 6, 3, 3)}
    path = save(tmp_path / "m.onnx", nodes, {"x": [None, None, None, None]}, ["y"], constants)
    done = straightway.convert(path)
    assert done.sizes == {"x:0": 1, "x:2": 224, "x:3": 224}
    assert_equal_at(path, done.data, {"x": floats(2, 3, 30, 41)})


def test_only_what_must_be_fixed_is_named(tmp_path):
    """The reason is one of the model's, and not of the sizes that were tried."""
    pool = helper.make_node(
        "MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_LOWER"
    )
    path = save(tmp_path / "m.onnx", [pool], {"x": ["N", "C", "H", "W"]}, ["y"], {})
    with pytest.raises(straightway.Unsupported, match="SAME_LOWER padding depends") as found:
        straightway.convert(path)
    assert re.search(
        r"what works: --dim 'H=\d+' --dim 'W=\d+', which leaves N, C open", str(found.value)
    )


@pytest.mark.parametrize(
    "bounds", [(0, 100, 1), (-8, 2**62, 1), (2, 50, 1), (-20, -3, 3), (100, 200, 1)]
)
def test_slices_are_cut_off_where_their_axis_ends(bounds, tmp_path):
    start, end, step = bounds
    nodes = [
        helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["c"]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    constants = dict(zip("seat", ([start], [end], [1], [step]), strict=True))
    constants = {name: np.array(number, np.int64) for name, number in constants.items()}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", "T", 6]}, ["y"], constants)
    done = straightway.convert(path)
    lengths = [t for t in (7, 40, 99, 130, 250) if len(range(t)[start:end:step])]
    assert_equal_at(path, done.data, *({"x": floats(2, t, 6)} for t in lengths))


def test_large_samples_are_halved(tmp_path):
    """Blocks of two by two ask for even sizes only."""
    nodes = [helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2)]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", "C", "H", "W"]}, ["y"], {})
    done = straightway.convert(path)
    sizes = [np.prod(check.shape) for check in done.verification.outputs]
    assert max(sizes[:-1]) <= 2**20


def test_the_line_that_fixes_dimensions_works(tmp_path):
    """Whether a last window is cut off depends on the size."""
    nodes = [
        helper.make_node(
            "AveragePool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1
        )
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 3, "H", 16]}, ["y"], {})
    with pytest.raises(straightway.Unsupported, match="ceil_mode") as found:
        straightway.convert(path)
    sizes = {name: int(size) for name, size in re.findall(r"--dim '(.)=(\d+)'", str(found.value))}
    assert "H" in sizes
    assert straightway.convert(path, dims=sizes).verification.equal


def test_what_no_size_lets_convert_is_refused_by_its_node(tmp_path):
    nodes = [helper.make_node("Unheard", ["x"], ["y"], name="the node", domain="com.acme")]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 3]}, ["y"], {})
    with pytest.raises(straightway.Unsupported, match="the node") as found:
        straightway.convert(path)
    assert "--dim" not in str(found.value)


def test_no_size_is_told_where_none_makes_a_valid_model(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 4]}, ["y"], {"w": floats(5, 2)})
    with pytest.raises(straightway.Unsupported, match="no size that was tried") as found:
        straightway.convert(path)
    assert "Incompatible dimensions" in str(found.value)
    assert "--dim" not in str(found.value)


def test_sizes_that_are_given_are_fixed_and_the_others_stay_open(tmp_path):
    done = straightway.convert(token_model(tmp_path / "tokens.onnx"), dims={"T": 6})
    (detail,) = Interpreter(model_content=done.data).get_input_details()
    assert detail["shape_signature"].tolist() == [-1, 6, 8]
    assert list(done.sizes) == ["N"]


def test_inputs_of_the_user_are_compared_at_their_own_size(tmp_path):
    np.savez(tmp_path / "x.npz", x=floats(3, 9, 8))
    path = token_model(tmp_path / "tokens.onnx")
    done = straightway.convert(path, inputs=tmp_path / "x.npz")
    assert done.sizes == {"N": 3, "T": 9}
    assert done.arrays["x"].shape == (3, 9, 8)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        ({"x": floats(3, 9, 7)}, r"'x' is float32\[3, 9, 7\]"),
        ({"x": floats(3, 9, 8).astype(np.float64)}, "'x' is float64"),
        ({"z": floats(3)}, r"lacks 'x'"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path, array, words):
    np.savez(tmp_path / "x.npz", **array)
    with pytest.raises(straightway.InvalidRequest, match=words):
        straightway.convert(token_model(tmp_path / "t.onnx"), inputs=tmp_path / "x.npz")


def test_one_symbol_has_one_size(tmp_path):
    nodes = [helper.make_node("Add", ["x", "z"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 2], "z": ["N", 2]}, ["y"], {})
    np.savez(tmp_path / "x.npz", x=floats(1, 2), z=floats(4, 2))
    with pytest.raises(straightway.InvalidRequest, match="'N' is one size"):
        straightway.convert(path, inputs=tmp_path / "x.npz")


def test_a_deployment_says_at_which_size_it_was_measured(tmp_path):
    path = image_model(tmp_path / "image.onnx")
    done = deploy(path, tmp_path / "out")
    assert done.view.latency is not None
    assert any("measured at N=1" in note for note in done.view.latency.notes)


def test_inspect_keeps_dimensions_open(tmp_path):
    path = token_model(tmp_path / "tokens.onnx")
    found = inspect(path, Request())
    assert not found.refusals
    assert "RESHAPE" in {op for fate in found.fates for op in fate.becomes}


@pytest.mark.parametrize(
    ("window", "shape"),
    [
        ((4, 2, 1, 0), ["N", 3, "H", "W"]),
        ((2, 2, 0, 0), ["N", 3, "H", "W"]),
        ((3, 2, 1, 1), ["N", 3, 5, 6]),
        ((5, 2, 2, 0), ["N", 3, "H", 6]),
        ((3, 3, 0, 2), ["N", 3, "H", "W"]),
        ((2, 3, 0, 0), ["N", 3, 5, "W"]),
        ((4, 2, 1, 0), ["N", 3, 6]),
        ((4, 2, 1, 0), [1, 3, "W"]),
    ],
)
def test_transposed_convolutions_hold_at_any_size_on_the_delegate(tmp_path, window, shape):
    """The window is kernel, stride, padding and output padding."""
    kernel, stride, pad, more = window
    rank = len(shape) - 2
    nodes = [
        helper.make_node(
            "ConvTranspose",
            ["x", "w", "b"],
            ["y"],
            strides=[stride] * rank,
            pads=[pad] * (2 * rank),
            output_padding=[more] * rank,
        )
    ]
    constants = {"w": floats(3, 4, *[kernel] * rank), "b": floats(4)}
    path = save(tmp_path / "m.onnx", nodes, {"x": shape}, ["y"], constants)
    done = straightway.convert(path)
    assert not done.verification.ran.placement.outside
    for sizes in ({"N": 1, "H": 2, "W": 3}, {"N": 3, "H": 9, "W": 4}):
        feed = {"x": floats(*(sizes.get(size, size) for size in shape))}
        assert_equal_at(path, done.data, feed)


@pytest.mark.parametrize(
    "node",
    [
        helper.make_node("MaxPool", ["x"], ["c"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        helper.make_node(
            "MaxPool", ["x"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
        ),
        helper.make_node("AveragePool", ["x"], ["c"], kernel_shape=[3, 3], auto_pad="SAME_UPPER"),
        helper.make_node(
            "AveragePool", ["x"], ["c"], kernel_shape=[2, 2], pads=[1] * 4, count_include_pad=1
        ),
        helper.make_node(
            "AveragePool", ["x"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
        ),
        helper.make_node("AveragePool", ["x"], ["c"], kernel_shape=[2, 3], pads=[1, 0, 0, 2]),
        helper.make_node("Conv", ["x", "w"], ["c"], auto_pad="SAME_LOWER"),
        helper.make_node("Conv", ["x", "w"], ["c"], auto_pad="SAME_UPPER", strides=[2, 3]),
    ],
)
def test_windows_hold_at_any_size(tmp_path, node):
    path = save(
        tmp_path / "m.onnx",
        [node, helper.make_node("Neg", ["c"], ["y"])],
        {"x": ["N", 3, "H", "W"]},
        ["y"],
        {"w": floats(4, 3, 2, 3)} if "w" in node.input else {},
    )
    done = straightway.convert(path)
    sizes = ((1, 6, 7), (2, 7, 6), (3, 8, 13), (1, 5, 5), (2, 9, 10))
    assert_equal_at(path, done.data, *({"x": floats(n, 3, h, w)} for n, h, w in sizes))


@pytest.mark.parametrize(
    ("pad", "stride", "dilation"), [(1, 1, 1), (0, 2, 1), (1, 2, 1), (1, 3, 2), (2, 1, 2)]
)
def test_volumes_hold_at_any_size(tmp_path, pad, stride, dilation):
    node = helper.make_node(
        "Conv",
        ["x", "w"],
        ["y"],
        pads=[pad, 0, pad, pad, 1, pad],
        strides=[stride] * 3,
        dilations=[dilation, 1, 1],
    )
    constants = {"w": floats(4, 2, 3, 2, 3)}
    path = save(tmp_path / "m.onnx", [node], {"x": ["N", 2, "D", "H", "W"]}, ["y"], constants)
    done = straightway.convert(path)
    sizes = ((1, 6, 7, 5), (2, 7, 6, 8), (3, 8, 13, 6), (1, 5, 5, 5), (2, 9, 10, 7))
    assert_equal_at(path, done.data, *({"x": floats(n, 2, d, h, w)} for n, d, h, w in sizes))


def test_strides_beyond_the_kernel_hold_at_fixed_sizes_only(tmp_path):
    """onnxruntime crops there, by what the size leaves over."""
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[1, 1], strides=[1, 3], auto_pad="SAME_UPPER"
    )
    path = save(tmp_path / "m.onnx", [node], {"x": [1, 3, 7, "W"]}, ["y"], {})
    with pytest.raises(straightway.Unsupported, match="depends on the sizes"):
        straightway.convert(path)
    assert straightway.convert(path, dims={"W": 13}).verification.equal


def kinds(done):
    return Counter(node.op.name for node in done.translation.written.operators)


def test_an_open_batch_costs_nothing(tmp_path):
    """The same ops, all on the delegate: what is padded by TFLite stays so, cuts are taken too."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[2, 2], pads=[0, 0, 1, 1]),
        helper.make_node("Slice", ["c", "starts", "ends", "axes"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "m"], ["y"]),
    ]
    constants = {
        "w": floats(4, 3, 3, 3),
        "m": floats(3, 7),
        "starts": np.array([1, 1]),
        "ends": np.array([4, 3]),
        "axes": np.array([1, 2]),
    }
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 8, 12]}, ["y"], constants)
    opened, fixed = straightway.convert(path), straightway.convert(path, dims={"N": 1})
    assert not opened.verification.ran.placement.outside
    found, wanted = kinds(opened), kinds(fixed)
    assert found.pop("STRIDED_SLICE") == wanted.pop("SLICE")
    assert found == wanted
    assert_equal_at(path, opened.data, *({"x": floats(n, 3, 8, 12)} for n in (1, 5)))


def test_a_slice_ends_where_less_is_left(tmp_path):
    constants = {"starts": np.array([0, 1]), "ends": np.array([2, 100])}
    nodes = [helper.make_node("Slice", ["x", "starts", "ends"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 5, 6]}, ["y"], constants)
    done = straightway.convert(path)
    assert not done.verification.ran.placement.outside
    assert_equal_at(path, done.data, *({"x": floats(n, 5, 6)} for n in (1, 2, 3, 9)))


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_sample_sizes_do_not_follow_from_each_other(count):
    """Of any two symbols one may change alone, so no size may look like a function of another."""
    symbols = {f"s{k}": [("x", k)] for k in range(count)}
    for samples in ladders(symbols):
        rows = [tuple(sample[symbol] for sample in samples[:3]) for symbol in symbols]
        assert are_independent(rows)
        assert len(samples) == 4
        assert min(min(sample.values()) for sample in samples) > 1


def test_sizes_are_explained_by_three_samples():
    value = Value("x", tensor_type(np.float32, (2, 7)))
    rows, columns = (
        Open(value=value, dim=k, sizes=s) for k, s in enumerate([(2, 3, 5), (7, 11, 13)])
    )
    opens = [rows, columns]
    assert explain((4, 4, 4), opens).at({}) == 4
    assert explain((9, 13, 15), opens).at({columns: 100}) == 102
    assert explain((8, 12, 20), opens).at({rows: 10}) == 40
    assert explain((14, 33, 65), opens).at({rows: 3, columns: 4}) == 12
    assert explain((10, 15, 19), opens).at({rows: 3, columns: 4}) == 8
    assert explain((4, 9, 25), opens) is None


def test_sizes_that_change_together_are_not_taken_for_the_only_ones(tmp_path):
    """Rows of three inputs at different places are one size, which no name says; the columns are 5."""
    nodes = [
        helper.make_node("MatMul", ["b", "w"], ["bw"]),
        helper.make_node("MatMul", ["a", "bw"], ["abw"]),
        helper.make_node("MatMul", ["c", "bw"], ["cbw"]),
        helper.make_node("Add", ["abw", "cbw"], ["y"]),
    ]
    inputs = {"a": [4, None], "b": [None, None], "c": [1, 4, None]}
    path = save(tmp_path / "m.onnx", nodes, inputs, ["y"], {"w": floats(5, 3)})
    declared = read(path, ShapeRequest(keep_open=True))
    assert forced(declared, open_dims(declared)) == {"b:1": 5}


def test_a_slice_backwards_is_cut_off_where_it_says(tmp_path):
    """The last 99 elements, of more than that."""
    nodes = [helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])]
    constants = {
        "s": np.array([-1]),
        "e": np.array([-100]),
        "a": np.array([1]),
        "t": np.array([-1]),
    }
    path = save(tmp_path / "m.onnx", nodes, {"x": [2, "T"]}, ["y"], constants)
    done = straightway.convert(path)
    assert_equal_at(path, done.data, *({"x": floats(2, n)} for n in (7, 99, 130, 300)))
