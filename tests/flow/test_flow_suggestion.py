"""Sizes suggested for open dimensions: such as the model takes, whatever it asks of them."""

import shlex

import numpy as np
import pytest
from onnx import TensorProto

from onnx_io.small_models import model, node, save, tensor, weights
from straightway.errors import Unsupported
from straightway.flow import suggestion
from straightway.flow.translate import read, translate
from straightway.ingest.shapes import ShapeRequest

I64 = TensorProto.INT64


def shape_of(*sizes):
    return np.array(sizes, np.int64)


def flat(channels, height, width):
    """Images that are flattened: one size only."""
    nodes = [node("Reshape", "x s", "f"), node("MatMul", "f w", "y")]
    constants = {
        "s": shape_of(1, channels * height * width),
        "w": weights(channels * height * width, 2),
    }
    return model(nodes, [tensor("x", ["N", channels, "H", "W"])], [tensor("y", None)], constants)


def halves(times):
    """A network that halves its image, doubles it again, and adds the two."""
    nodes = [
        node("MaxPool", "x", "p", kernel_shape=[times, times], strides=[times, times]),
        node("Resize", "p _ scales", "u", mode="nearest"),
        node("Add", "x u", "y"),
    ]
    constants = {"scales": np.array([1, 1, times, times], np.float32)}
    return model(nodes, [tensor("x", [None, 3, None, None])], [tensor("y", None)], constants)


def tokens():
    """Positions are looked up in a table of 40 rows."""
    nodes = [
        node("Gather", "words ids", "e"),
        node("Slice", "places zero many one", "p"),
        node("Add", "e p", "a"),
        node("Mul", "a mask", "y"),
    ]
    constants = {
        "words": weights(50, 7), "places": weights(16, 7), "zero": shape_of(0), "many": shape_of(16),
        "one": shape_of(0),
    }  # fmt: skip
    inputs = [tensor("ids", ["batch", "seq"], I64), tensor("mask", ["batch", "seq", 1])]
    return model(nodes, inputs, [tensor("y", None)], constants)


def state():
    """A state whose batch stands second, without a name."""
    nodes = [
        node("ReduceSum", "h axes", "s", keepdims=0),
        node("MatMul", "x w", "m"),
        node("Concat", "m s", "y", axis=1),
    ]
    constants = {"axes": shape_of(0), "w": weights(512, 6)}
    inputs = [tensor("x", [None, None]), tensor("h", [2, None, 6])]
    return model(nodes, inputs, [tensor("y", None)], constants)


def rows():
    """The first dimension is a length: three windows of it are cut out."""
    nodes = [node("Slice", "x start end", "a"), node("Add", "a w", "y")]
    constants = {"start": shape_of(30), "end": shape_of(60), "w": weights(30, 10)}
    return model(nodes, [tensor("x", ["T", 10])], [tensor("y", None)], constants)


@pytest.mark.parametrize(
    ("proto", "line"),
    [
        (flat(3, 48, 48), "--shape 'x=1,3,48,48'"),
        (flat(3, 64, 64), "--shape 'x=1,3,64,64'"),
        (halves(32), "--shape 'x=1,3,224,224'"),
        (halves(160), "--shape 'x=1,3,320,320'"),
        (tokens(), "--shape 'ids=1,16' --shape 'mask=1,16,1'"),
        (state(), "--shape 'x=1,512' --shape 'h=2,1,6'"),
        (rows(), "--shape 'x=128,10'"),
    ],
    ids=["flat48", "flat64", "halves", "halves160", "tokens", "state", "rows"],
)
def test_the_line_to_type_converts(proto, line, tmp_path):
    path = save(proto, tmp_path / "m.onnx")
    with pytest.raises(Unsupported) as caught:
        read(path)
    assert line in str(caught.value)
    words = shlex.split(line)
    shapes = {
        name: [int(size) for size in sizes.split(",")]
        for name, _, sizes in (word.rpartition("=") for word in words[1::2])
    }
    assert translate(read(path, ShapeRequest(shapes=shapes))).written.data.nbytes


def test_both_lines_ask_for_the_same(tmp_path):
    with pytest.raises(Unsupported) as caught:
        read(save(tokens(), tmp_path / "m.onnx"))
    assert str(caught.value).endswith("  or  --dim 'batch=1' --dim 'seq=16'")


def test_what_is_fixed_stays_fixed(tmp_path):
    with pytest.raises(Unsupported, match=r"--shape 'ids=3,16' --shape 'mask=3,16,1'"):
        read(save(tokens(), tmp_path / "m.onnx"), ShapeRequest(dims={"batch": 3}))


def test_where_nothing_fits_the_first_is_suggested_and_time_is_bounded(tmp_path, monkeypatch):
    path = save(flat(3, 7, 9), tmp_path / "m.onnx")
    with pytest.raises(Unsupported, match="--shape 'x=1,3,224,224'"):
        read(path)
    monkeypatch.setattr(suggestion, "BUDGET_S", -1)
    tried = []
    declared = read(path, ShapeRequest(keep_open=True))
    suggestion.accepted(declared, tried.append)
    assert len(tried) == 1


def test_a_refused_model_is_suggested_sizes_that_it_takes(tmp_path):
    nodes = [node("Reshape", "x s", "f"), node("Fancy", "f", "y")]
    proto = model(
        nodes,
        [tensor("x", ["N", 3, "H", "W"])],
        [tensor("y", None)],
        {"s": shape_of(-1, 3 * 64 * 64)},
    )
    with pytest.raises(Unsupported, match="--shape 'x=1,3,"):
        read(save(proto, tmp_path / "m.onnx"))


def test_a_name_with_a_quote_is_a_word_of_a_shell(tmp_path):
    proto = model([node("Relu", "it's", "y")], [tensor("it's", ["N", 2])], [tensor("y", None)])
    proto.graph.node[0].input[0] = "it's"
    with pytest.raises(Unsupported) as caught:
        read(save(proto, tmp_path / "m.onnx"))
    line = str(caught.value).partition("sizes): ")[2].partition("  or  ")[0]
    assert shlex.split(line) == ["--shape", "it's=1,2"]
