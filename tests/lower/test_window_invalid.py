"""What breaks ONNX's own rules, yet passes its shape functions, is named before anything is built."""

import numpy as np
import onnx
import pytest
from window_cases import single

from straightway.errors import InvalidModel
from straightway.ingest.onnx import ingest
from straightway.lower.lowering import lower_graph
from straightway.passes.pipeline import prepare

X = np.ones((1, 3, 8, 8), np.float32)
W = np.ones((4, 3, 3, 3), np.float32)
NONE = np.zeros(0, np.float32)


def refusals(model, folder):
    onnx.save(model, folder / "model.onnx")
    source = ingest(folder / "model.onnx")
    prepare(source)
    return lower_graph(source).refusals


@pytest.mark.parametrize(
    ("op", "operands", "attrs", "text"),
    [
        ("Conv", {"w": np.ones((4, 2, 3, 3), np.float32)}, {}, "do not fit"),
        ("Conv", {"w": W}, {"group": 2}, "do not fit"),
        ("Conv", {"w": W}, {"group": 0}, "at least one group"),
        ("Conv", {"w": W, "b": np.ones(3, np.float32)}, {}, "the bias must be"),
        ("Conv", {"w": W}, {"kernel_shape": (2, 2)}, "contradicts"),
        ("Conv", {"w": W}, {"auto_pad": "SAME"}, "auto_pad is one of"),
        ("ConvTranspose", {"w": W}, {}, "do not fit"),
        ("ConvTranspose", {"w": W[:3], "b": np.ones(2, np.float32)}, {}, "the bias must be"),
        ("ConvTranspose", {"w": W[:3]}, {"pads": (9, 9, 9, 9)}, "crop the whole result"),
        ("MaxPool", {}, {"kernel_shape": (2, 2), "auto_pad": "SAME"}, "auto_pad is one of"),
        ("LRN", {}, {"size": 0}, "at least one channel"),
        ("DepthToSpace", {}, {"blocksize": 2}, "multiple of 4 channels"),
        ("SpaceToDepth", {}, {"blocksize": 3}, "do not fill"),
    ],
)
def test_an_invalid_window_is_named(op, operands, attrs, text, tmp_path):
    model = single(op, {"x": X, **operands}, attrs)
    with pytest.raises(InvalidModel, match=text) as caught:
        refusals(model, tmp_path)
    assert "'node'" in str(caught.value)


@pytest.mark.parametrize("scale", [0.0, -2.0, float("nan")])
def test_a_resize_to_nothing_is_refused(scale, tmp_path):
    operands = {"x": X, "roi": NONE, "scales": np.array([1, 1, scale, 2], np.float32)}
    (remark,) = refusals(single("Resize", operands, {}), tmp_path)
    assert "empty" in remark.text
