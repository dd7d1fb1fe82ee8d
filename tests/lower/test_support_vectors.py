"""Random support vector machines compute what onnxruntime computes, with any number of examples."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import pytest

from straightway.errors import InvalidModel, Unsupported
from straightway.flow.convert import convert
from straightway.run.process import Child

FEATURES = 5
Attributes = dict[str, Any]


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


def machine(seed: int, classes: int, kernel: str, *, likely: bool) -> Attributes:
    """Vectors, weights and labels; `likely`: with the coefficients of probabilities."""
    rng = np.random.default_rng(seed)
    own = rng.integers(1, 5, classes)
    pairs = classes * (classes - 1) // 2
    found: Attributes = {
        "kernel_type": kernel,
        "kernel_params": [0.1, 0.25, 3.0],
        "vectors_per_class": own.tolist(),
        "support_vectors": rng.standard_normal(own.sum() * FEATURES).tolist(),
        "coefficients": rng.standard_normal(own.sum() * (classes - 1)).tolist(),
        "rho": rng.standard_normal(pairs).tolist(),
        "classlabels_ints": rng.permutation(100)[:classes].tolist(),
    }
    if likely:
        found["prob_a"] = (-rng.random(pairs) - 0.5).tolist()
        found["prob_b"] = rng.standard_normal(pairs).tolist()
    return found


def model(attrs: Attributes, scores: int, rows: int | str = "N") -> onnx.ModelProto:
    node = onnx.helper.make_node("SVMClassifier", ["x"], ["l", "s"], domain="ai.onnx.ml", **attrs)
    kinds = onnx.TensorProto
    graph = onnx.helper.make_graph(
        [node],
        "machine",
        [onnx.helper.make_tensor_value_info("x", kinds.FLOAT, [rows, FEATURES])],
        [
            onnx.helper.make_tensor_value_info("l", kinds.INT64, [rows]),
            onnx.helper.make_tensor_value_info("s", kinds.FLOAT, [rows, scores]),
        ],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("ai.onnx.ml", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(
    ("classes", "kernel", "likely"),
    [(2, "RBF", True), (4, "RBF", False), (4, "POLY", True), (7, "SIGMOID", True)],
)
def test_any_number_of_rows(
    child: Child, tmp_path: Path, classes: int, kernel: str, likely: bool
) -> None:
    attrs = machine(classes, classes, kernel, likely=likely)
    scores = classes if likely or classes == 2 else classes * (classes - 1) // 2
    onnx.save(model(attrs, scores), tmp_path / "m.onnx")
    assert convert(tmp_path / "m.onnx", child=child).verification is not None


def test_texts_for_labels_are_refused_where_they_are_an_output(
    child: Child, tmp_path: Path
) -> None:
    attrs = machine(1, 3, "RBF", likely=True)
    del attrs["classlabels_ints"]
    made = model(attrs | {"classlabels_strings": ["a", "b", "c"]}, 3)
    made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
    onnx.save(made, tmp_path / "m.onnx")
    with pytest.raises(Unsupported, match="hands over no texts"):
        convert(tmp_path / "m.onnx", child=child)
    del made.graph.output[0]
    onnx.save(made, tmp_path / "m.onnx")
    assert convert(tmp_path / "m.onnx", child=child).verification is not None


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"vectors_per_class": [3, 4]}, "2 counts of vectors"),
        ({"rho": [0.5]}, "1 of rho"),
        ({"prob_b": [0.5]}, "prob_a and prob_b have 3 numbers"),
        ({"support_vectors": [0.5, 1.0]}, "2 numbers of support vectors"),
        ({"coefficients": [0.5, 1.0]}, "2 coefficients"),
    ],
)
def test_attributes_that_contradict_each_other(
    tmp_path: Path, changed: Attributes, found: str
) -> None:
    attrs = machine(3, 3, "RBF", likely=True) | changed
    onnx.save(model(attrs, 3, 2), tmp_path / "m.onnx")
    with pytest.raises(InvalidModel, match=found):
        convert(tmp_path / "m.onnx", verify=False)
