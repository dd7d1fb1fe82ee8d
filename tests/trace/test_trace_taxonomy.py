"""One table of op names: complete, without doubles, and the decisions that others get wrong."""

import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator
from onnx import defs

from straightway.trace import taxonomy
from straightway.trace.taxonomy import (
    CATEGORIES,
    FAMILIES,
    category,
    family,
    operator_name,
    xnnpack_operator,
)


def test_every_builtin_op_has_a_family():
    names = {name for name in vars(BuiltinOperator) if not name.startswith("_")}
    assert {name for name in names if family(name) is None} == set()


def test_every_onnx_op_has_a_family():
    training = {"Adagrad", "Adam", "Gradient", "Momentum"}
    names = {
        schema.name for schema in defs.get_all_schemas() if schema.domain in ("", "ai.onnx.ml")
    }
    assert {name for name in names if family(name) is None} - training <= {"CastMap"}


def test_every_family_has_a_title_of_its_own():
    titles = [one.title for one in FAMILIES]
    assert all(titles)
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize(
    ("kind", "event", "name"),
    [
        ("CONV_2D", "Fully Connected (NC, F32) GEMM #1", "Convolution"),
        ("aten.convolution.default", "", "Convolution"),
        ("CONV_2D", "Transpose (ND, X32) #1", "Transpose"),
        ("aten.rsqrt.default", "Reciprocal Square Root (NC, F32)", "Reciprocal Square Root"),
        ("SELECT_V2", "", "Comparison, Selection"),
        ("aten.where.self", "", "Comparison, Selection"),
        ("ARG_MAX", "", "ARG_MAX"),
        ("", "Unheard Of (NC)", "Unheard Of (NC)"),
    ],
)
def test_an_operator_has_one_name(kind, event, name):
    assert operator_name(kind, event) == name


def test_a_name_stands_in_one_family_only():
    twice = [("ADD", FAMILIES[0]), ("ADD", FAMILIES[1])]
    with pytest.raises(ValueError, match="ADD stands in two families"):
        taxonomy._index(twice)


@pytest.mark.parametrize(
    ("kind", "event", "expected"),
    [
        ("", "Batch Matrix Multiply (NC, F32)", "matrix"),
        ("", "Convert (NC, F32, QD8)", "type conversion"),
        ("", "Resize Bilinear (NHWC)", "pooling"),
        ("", "Deconvolution (NHWC, F32) Subconv2D", "convolution"),
        ("", "Subtract (ND)", "elementwise"),
        ("", "HardSwish (NC)", "elementwise"),
        ("", "Max Pooling (NHWC, F32)", "pooling"),
        ("", "Average Pooling (NHWC, F32) Average Pooling", "pooling"),
        ("", "Softmax (NC, F32)", "normalisation"),
        ("", "Mean Squared (ND) Reduce2", "pooling"),
        ("", "Static Reshape (NC)", "data movement"),
        ("", "Slice (ND, X8) #12", "data movement"),
        ("", "Bitwise And (ND)", "elementwise"),
        ("", "Something New (ND)", "other"),
        ("CONV_2D", "Fully Connected (NC, F32) GEMM", "convolution"),
        ("FULLY_CONNECTED", "Static Reshape (NC)", "data movement"),
        ("STABLEHLO_COMPOSITE", "Softmax (NC, F32)", "normalisation"),
        ("CONV_2D", "", "convolution"),
        ("Conv", "", "convolution"),
        ("ReorderInput", "", "data movement"),
        ("MyOp", "", "other"),
        ("", "", "other"),
        ("unaccounted", "", "unaccounted"),
    ],
)
def test_categories(kind, event, expected):
    assert category(kind, event) == expected


def test_categories_are_known():
    assert {one.category for one in FAMILIES} | {"unaccounted"} == set(CATEGORIES)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Convolution (NHWC, F32) IGEMM", ("Convolution", "IGEMM")),
        ("Convolution (NHWC, F32) IGEMM #3", ("Convolution", "IGEMM")),
        ("Add (ND)", ("Add", "")),
        ("Average Pooling (NHWC, F32) Average Pooling", ("Average Pooling", "Average Pooling")),
        ("plain", ("plain", "")),
    ],
)
def test_an_event_name_falls_into_operator_and_kernel(name, parts):
    assert xnnpack_operator(name) == parts
