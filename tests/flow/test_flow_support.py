"""The support table says what conversions show, and cites what stands elsewhere."""

import re

import pytest

from straightway.flow.support import limit, support
from straightway.lower.declare import need
from straightway.tflite.rows import ROWS

KERNEL = re.compile(r"^[\w/.]+\.(cc|h):\d+")


def of(name):
    (entry,) = [one for one in support(name) if one.domain == "onnx"]
    return entry


def test_types_are_those_that_convert():
    assert of("Not").types == {"T": ("bool",)}
    assert of("Sqrt").types == {"T": ("f16", "bf16", "f32", "f64")}
    assert of("Gather").types["Tind"] == ("i32", "i64")


def test_operands_of_types_that_go_together_change_together():
    assert of("RMSNormalization").types["V"] == ("f16", "bf16", "f32", "f64")


def test_versions_are_those_whose_schema_is_named():
    assert of("Upsample").versions[0] == 7
    assert 1 not in of("Upsample").versions
    assert of("Softmax").versions == (1, 11, 13)


def test_operators_without_a_schema_have_one_version():
    own = {entry.domain: entry for entry in support("Gelu")}
    assert own["com.microsoft"].versions == (1,)
    assert own["com.microsoft"].types == {"T": ("f16", "bf16", "f32", "f64")}
    assert [*own] == ["onnx", "com.microsoft"]
    assert own["com.microsoft"].name == "com.microsoft.Gelu"


def test_rows_cite_their_kernels():
    assert of("Sqrt").rows == {"SQRT": ROWS["SQRT"].kernel}
    assert KERNEL.match(of("MatMul").rows["BATCH_MATMUL"])
    assert of("Shape").rows == {}
    assert "WHILE" in of("Loop").rows


def test_operands_that_must_be_constant_are_limits():
    texts = [one.text for one in of("MelWeightMatrix").limits]
    assert "operand 'num_mel_bins' must be a constant" in texts


def test_operands_that_the_result_may_tell_are_said_to_be():
    texts = [one.text for one in of("Col2Im").limits]
    assert (
        "operand 'image_shape' must be a constant, or follow from the shape that the model declares for the result"
        in texts
    )


@pytest.mark.parametrize(
    ("kernel", "possible", "setter"),
    [("k/elu.cc:3", False, "LiteRT"), ("onnx/docs/Operators.md#Elu", False, "ONNX"), ("", True, "not yet")],
)  # fmt: skip
def test_a_limit_says_who_sets_it(kernel, possible, setter):
    found = limit(need(lambda x: x, "x must be", kernel=kernel, possible=possible), "Elu")
    assert (found.setter, found.kernel) == (setter, kernel)
