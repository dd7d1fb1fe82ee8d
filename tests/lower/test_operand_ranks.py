"""Operands of another rank or size than their operator reads are a fault of the model."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from case_models import build

from straightway.errors import InvalidModel, Unsupported
from straightway.flow.convert import convert
from straightway.flow.translate import read, translate
from straightway.lower.declare import LOWERINGS, Case, case, run
from straightway.lower.tree_ensembles import TARGETS, TREES

F4 = np.float32
HEADS = (2, 4, 3, 8)
TURNS = np.ones((5, 4), F4)
PLACES = run([[0, 4, 2], [1, 1, 3]], np.int64)
WHOLE = run([[3, -2, 1], [0, 1, 2]], np.int64)


def saved(domain: str, op: str, given: Case, folder: Path) -> Path:
    path = folder / "m.onnx"
    onnx.save(build(LOWERINGS[domain, op], given).model, path)
    return path


@pytest.mark.parametrize(
    ("domain", "op", "given", "text"),
    [
        (
            "onnx",
            "Attention",
            case(q=HEADS, k=HEADS, v=HEADS, nonpad_kv_seqlen=run(3, np.int64), opset=24),
            "a number for each example",
        ),
        (
            "onnx",
            "RotaryEmbedding",
            case(x=HEADS, cos_cache=TURNS, sin_cache=TURNS, opset=23),
            "are turned by tables",
        ),
        (
            "com.microsoft",
            "RotaryEmbedding",
            case(x=(2, 3, 8), positions=PLACES, cosine=TURNS, sine=np.array(1, F4)),
            "are turned by tables",
        ),
        (
            "com.microsoft",
            "Pad",
            case(data=(2, 3), pads=np.array([0, 1, 0, 1]), value=np.ones((0, 1), F4)),
            "one number is put around",
        ),
        ("onnx", "DFT", case(input=(2, 0, 1), axis=np.array(1), opset=20), "at least one point"),
    ],
)
def test_other_ranks_are_faults_of_the_model(
    domain: str, op: str, given: Case, text: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidModel, match=text):
        translate(read(saved(domain, op, given, tmp_path)))


def test_scores_of_other_ranks_are_refused(tmp_path: Path) -> None:
    asked = case(boxes=(2, 6, 4), scores=(2, 2, 6, 3), max_output_boxes_per_class=np.array([1]))
    with pytest.raises(Unsupported, match=r"scores \[batch, classes, boxes\]"):
        translate(read(saved("onnx", "NonMaxSuppression", asked, tmp_path)))


def test_numbers_beyond_int32_are_refused(tmp_path: Path) -> None:
    asked = case(signal=(2, 32, 1), frame_step=np.array(2**31), window=np.ones(8, F4), opset=17)
    with pytest.raises(Unsupported, match="has numbers of int32; its strides would be"):
        translate(read(saved("onnx", "STFT", asked, tmp_path)))


def test_a_region_in_two_dimensions_is_refused(tmp_path: Path) -> None:
    roi = np.array([[0, 0, -0.2, 0.3, 1, 1, 0.6, 1.2]], F4)
    asked = case(
        X=(2, 3, 4, 6),
        roi=roi,
        scales=None,
        sizes=np.array([2, 3, 5, 7]),
        coordinate_transformation_mode="tf_crop_and_resize",
        mode="linear",
    )
    with pytest.raises(Unsupported, match="two finite numbers for each axis"):
        translate(read(saved("onnx", "Resize", asked, tmp_path)))


@pytest.mark.parametrize(
    ("op", "given"),
    [
        ("LinearRegressor", case(x=WHOLE, coefficients=(0.5, -1.0, 2.0), intercepts=(0.25,))),
        ("TreeEnsembleRegressor", case(x=WHOLE, **TREES, **TARGETS, n_targets=1)),
    ],
)
def test_regressors_of_whole_numbers_give_floats(op: str, given: Case, tmp_path: Path) -> None:
    """ONNX's evaluator rounds weights to the type of the features, where onnxruntime has no kernel."""
    done = convert(saved("ai.onnx.ml", op, given, tmp_path))
    assert done.verification.equal
    assert "reference evaluator" in str(done.verification)
