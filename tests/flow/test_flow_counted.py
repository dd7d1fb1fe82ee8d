"""Results of which only the run tells how many elements they have, and what follows them."""

from pathlib import Path

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest

from straightway.errors import Unsupported
from straightway.flow.convert import convert
from straightway.flow.translate import read, translate
from straightway.run import litert
from straightway.run.process import Child

CONSTANTS = {
    "most": np.array([5]),
    "overlap": np.array([0.3], np.float32),
    "least": np.array([0.4], np.float32),
    "one": np.array([1]),
    "two": np.array([2]),
    "first": np.array([0]),
    "second": np.array([1]),
    "scale": np.array([2, 3, 4, 5], np.float32),
    "flat": np.array([-1]),
}
FLOAT, INT = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
node = onnx.helper.make_node
info = onnx.helper.make_tensor_value_info
DETECTION = [
    node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["sel"]),
    node("Gather", ["sel", "two"], ["ids"], axis=1),
    node("Squeeze", ["ids", "second"], ["id"]),
    node("Squeeze", ["boxes", "first"], ["table"]),
    node("Gather", ["table", "id"], ["picked"], axis=0),
    node("Mul", ["picked", "scale"], ["scaled"]),
    node("Gather", ["sel", "one"], ["kinds"], axis=1),
    node("Concat", ["kinds", "ids"], ["pairs"], axis=1),
    node("Squeeze", ["scores", "first"], ["levels"]),
    node("GatherND", ["levels", "pairs"], ["score"]),
    node("Unsqueeze", ["score", "second"], ["column"]),
    node("Concat", ["scaled", "column"], ["found"], axis=1),
    node("Reshape", ["found", "flat"], ["line"]),
]
BOXES = [info("boxes", FLOAT, [1, 20, 4]), info("scores", FLOAT, [1, 3, 20])]


def save(folder: Path, nodes: list, inputs: list, outputs: list) -> Path:
    read_names = {name for one in nodes for name in one.input}
    graph = onnx.helper.make_graph(
        nodes,
        "counted",
        inputs,
        outputs,
        [onnx.numpy_helper.from_array(a, n) for n, a in CONSTANTS.items() if n in read_names],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    path = folder / "counted.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def test_what_follows_a_suppression_holds_at_every_size(tmp_path: Path) -> None:
    outputs = [info("found", FLOAT, ["n", 5]), info("line", FLOAT, ["m"])]
    found = convert(save(tmp_path, DETECTION, BOXES, outputs), tmp_path / "counted.tflite")
    assert found.verification.equal
    assert found.translation.source.assumed


def test_the_signature_says_what_is_open(tmp_path: Path) -> None:
    nodes = [node("NonZero", ["x"], ["places"])]
    path = save(tmp_path, nodes, [info("x", FLOAT, [4, 3])], [info("places", INT, [2, "n"])])
    found = translate(read(path))
    written = found.layout.graph
    (signature,) = [s for v, (_, s) in written.signatures.items() if v.name == "places"]
    assert signature == (2, -1)
    file = tmp_path / "counted.tflite"
    file.write_bytes(found.written.data)
    with Child(engines=["litert"]) as child:
        for count in (1, 5, 12, 0):
            x = np.zeros(12, np.float32)
            x[:count] = 1
            outputs = child.call(litert.run(file, [x.reshape(4, 3)])).outputs
            assert outputs[0].shape == (2, count)
            assert np.array_equal(outputs[0], np.nonzero(x.reshape(4, 3)))


def test_a_size_that_must_be_written_down_is_refused(tmp_path: Path) -> None:
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Shape", ["places"], ["sizes"]),
        node("Expand", ["one", "sizes"], ["ones"]),
    ]
    path = save(tmp_path, nodes, [info("x", FLOAT, [4, 3])], [info("ones", INT, ["a", "b"])])
    with pytest.raises(Unsupported, match="only the run tells how many elements 'places' has"):
        translate(read(path))


def test_what_constants_size_is_translated_once(tmp_path: Path) -> None:
    nodes = [node("NonZero", ["second"], ["places"]), node("Add", ["x", "places"], ["y"])]
    path = save(tmp_path, nodes, [info("x", INT, [1, 3])], [info("y", INT, [1, 3])])
    assert not translate(read(path)).source.assumed
