"""Nodes that compute nothing go, exactly; those that only seem to stay."""

import numpy as np
import pytest
from models import check, graph_of, names, only

from straightway.ir import tensor_type
from straightway.ir.verify import verify
from straightway.passes import fold, identity

ONE = np.float32(1)


def simplified(text, opset=17, **constants):
    return check(text, opset, steps=[fold.run, identity.run], tolerance=0, **constants)


def inner(body, kind="float[2,3,4]"):
    """A body between two nodes that stay, from %a to %b."""
    return f"({kind} x) => (y) {{ a = Neg(x)  {body}  y = Neg(b) }}"


GONE = {
    "identity": ("b = Identity(a)", {}),
    "cast to the same type": ("b = Cast<to=1>(a)", {}),
    "transpose in order": ("b = Transpose<perm=[0,1,2]>(a)", {}),
    "reshape to the same shape": ("b = Reshape(a, s)", {"s": np.array([2, -1, 4])}),
    "expand to the same shape": ("b = Expand(a, s)", {"s": np.array([1, 3, 1])}),
    "whole slice": (
        "b = Slice(a, s, e, t)",
        {"s": np.array([0]), "e": np.array([99]), "t": np.array([1])},
    ),
    "pad by nothing": ("b = Pad(a, p)", {"p": np.zeros(6, np.int64)}),
    "tile once": ("b = Tile(a, r)", {"r": np.ones(3, np.int64)}),
    "concat of one": ("b = Concat<axis=1>(a)", {}),
    "sum of one": ("b = Sum(a)", {}),
    "mean of one": ("b = Mean(a)", {}),
    "maximum of one": ("b = Max(a)", {}),
    "times one": ("b = Mul(a, one)", {"one": ONE}),
    "one times": ("b = Mul(one, a)", {"one": np.ones((1, 3, 1), np.float32)}),
    "by one": ("b = Div(a, one)", {"one": ONE}),
    "less zero": ("b = Sub(a, z)", {"z": np.float32(0)}),
    "plus minus zero": ("b = Add(a, z)", {"z": np.float32(-0.0)}),
    "to the power of one": ("b = Pow(a, one)", {"one": ONE}),
    "at least minus infinity": ("b = Max(a, z)", {"z": np.float32(-np.inf)}),
    "at most infinity": ("b = Min(z, a)", {"z": np.float32(np.inf)}),
    "dropout": ("b = Dropout(a)", {}),
}


@pytest.mark.parametrize(("body", "constants"), GONE.values(), ids=list(GONE))
def test_gone(body, constants):
    assert names(simplified(inner(body), **constants)) == ["Neg", "Neg"]


KEPT = {
    "plus zero turns -0.0": ("b = Add(a, z)", {"z": np.float32(0)}),
    "less minus zero turns -0.0": ("b = Sub(a, z)", {"z": np.float32(-0.0)}),
    "one by": ("b = Div(one, a)", {"one": ONE}),
    "zero less": ("b = Sub(z, a)", {"z": np.float32(0)}),
    "one to the power": ("b = Pow(one, a)", {"one": ONE}),
    "times nearly one": ("b = Mul(a, one)", {"one": np.float32(1.0000001)}),
    "times one, wider": ("b = Mul(a, one)", {"one": np.ones((1, 1, 1, 1), np.float32)}),
    "times ones of more rows": ("b = Mul(a, one)", {"one": np.ones((5, 1, 3, 4), np.float32)}),
    "reversed": (
        "b = Slice(a, s, e, t, u)",
        {
            "s": np.array([-1]),
            "e": np.array([-99]),
            "t": np.array([1]),
            "u": np.array([-1]),
        },
    ),
    "rolled by padding": ("b = Pad(a, p)", {"p": np.array([0, 0, 1, 0, 0, -1])}),
    "transposed": ("b = Transpose<perm=[0,2,1]>(a)", {}),
    "at least minus infinity, wider": (
        "b = Max(a, z)",
        {"z": np.full((1, 1, 1, 1), -np.inf, np.float32)},
    ),
}


@pytest.mark.parametrize(("body", "constants"), KEPT.values(), ids=list(KEPT))
def test_kept(body, constants):
    assert len(names(simplified(inner(body), **constants))) == 3


def test_minus_zero_keeps_its_sign():
    """What must stay does matter: 1 / -0.0 is not 1 / 0.0."""
    text = "(float[1] x) => (y) { a = Add(x, z)  y = Reciprocal(a) }"
    feeds = [np.array([-0.0], np.float32)]
    simplified(text, feeds=feeds, z=np.float32(0))
    simplified(text, feeds=feeds, z=np.float32(-0.0))


def test_integers_plus_zero_go():
    text = "(int64[3] x) => (y) { a = Neg(x)  b = Add(a, z)  y = Neg(b) }"
    assert names(simplified(text, z=np.int64(0))) == ["Neg", "Neg"]


@pytest.mark.parametrize("opset", [7, 10, 13])
def test_dropout_at_inference_goes_in_every_opset(opset):
    text = "(float[4] x) => (y) { a = Neg(x)  b, m = Dropout(a)  y = Neg(b) }"
    assert names(simplified(text, opset)) == ["Neg", "Neg"]


def test_dropout_whose_mask_is_used_stays():
    text = "(float[4] x) => (y, n) { y, m = Dropout(x)  n = Not(m) }"
    assert "Dropout" in names(simplified(text))


def test_dropout_in_training_stays():
    text = "(float[4] x) => (y) { a = Dropout(x, r, t)  y = Neg(a) }"
    graph = graph_of(text, r=np.float32(0.5), t=np.array(True))
    fold.run(graph)
    assert identity.run(graph) == []
    assert names(graph) == ["Dropout", "Neg"]


def test_two_transposes_become_one_or_none():
    text = """(float[2,3,4] x) => (y, z) {
        a = Transpose<perm=[0,2,1]>(x)  b = Transpose<perm=[0,2,1]>(a)  y = Neg(b)
        c = Transpose<perm=[1,2,0]>(x)  d = Transpose<perm=[1,2,0]>(c)  z = Neg(d) }"""
    graph = simplified(text)
    assert sorted(names(graph)) == ["Neg", "Neg", "Transpose"]
    assert only(graph, "Transpose").attrs["perm"] == (2, 0, 1)


def test_a_transpose_without_perm_reverses():
    text = "(float[2,3] x) => (y) { a = Transpose(x)  b = Transpose(a)  y = Neg(b) }"
    assert names(simplified(text)) == ["Neg"]


def test_a_transpose_with_another_user_stays_for_it():
    text = """(float[2,3] x) => (y, z) {
        a = Transpose(x)  b = Transpose(a)  y = Neg(b)  z = Exp(a) }"""
    graph = simplified(text)
    assert sorted(names(graph)) == ["Exp", "Neg", "Transpose"]
    assert only(graph, "Neg").inputs[0] is graph.inputs[0]


def test_reshapes_in_a_row_become_one():
    text = """(float[2,3,4] x) => (y) {
        a = Flatten<axis=1>(x)  b = Unsqueeze(a, axes)  c = Reshape(b, s)  y = Neg(c) }"""
    graph = simplified(text, axes=np.array([0]), s=np.array([4, 0, -1]))
    assert names(graph) == ["Reshape", "Neg"]
    assert only(graph, "Reshape").inputs[1].const.tolist() == [4, 2, 3]


def test_reshapes_that_return_go():
    text = """(float[2,3,4] x) => (y) {
        a = Unsqueeze(x, axes)  b = Squeeze(a, axes)  y = Neg(b) }"""
    assert names(simplified(text, axes=np.array([0]))) == ["Neg"]


def test_what_has_no_elements_is_a_constant():
    """A dimension of size 0 means another thing to Reshape: none is left that could be merged."""
    text = "(float[0,3] x) => (y) { a = Flatten<axis=1>(x)  b = Unsqueeze(a, axes)  y = Neg(b) }"
    assert names(simplified(text, axes=np.array([0]))) == ["Identity"]


@pytest.mark.parametrize(
    ("kind", "between", "last", "left"),
    [
        ("float16[3]", 1, 10, 0),
        ("int32[3]", 11, 6, 0),
        ("int8[3]", 1, 3, 0),
        ("bool[3]", 6, 9, 0),
        ("int16[3]", 7, 1, 1),
        ("float[3]", 10, 1, 2),
        ("int64[3]", 11, 7, 2),
        ("int32[3]", 1, 6, 2),
        ("float[3]", 7, 1, 2),
    ],
)
def test_two_casts_become_one_if_the_first_loses_nothing(kind, between, last, left):
    text = f"({kind} x) => (y) {{ a = Cast<to={between}>(x)  b = Cast<to={last}>(a)"
    text += "  y = Identity(b) }"
    assert names(simplified(text)).count("Cast") == left


@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("kept", [0, 1])
def test_a_reduction_keeps_or_drops_dimensions_at_once(opset, kept):
    axes = f"<axes=[1], keepdims={kept}>(x)" if opset < 13 else f"<keepdims={kept}>(x, axes)"
    text = f"(float[2,3,4] x) => (y) {{ a = ReduceSum{axes}  b = Reshape(a, s)  y = Neg(b) }}"
    shape = np.array([2, 4] if kept else [2, 1, 4])
    constants = {"s": shape} | ({} if opset < 13 else {"axes": np.array([1])})
    graph = simplified(text, opset, **constants)
    assert names(graph) == ["ReduceSum", "Neg"]
    assert graph.first.attrs["keepdims"] == 1 - kept


def test_arg_max_keeps_its_dimension_too():
    text = "(float[2,3] x) => (y) { a = ArgMax<axis=-1, keepdims=0>(x)  b = Unsqueeze(a, s)"
    graph = simplified(text + "  y = Cast<to=1>(b) }", s=np.array([1]))
    assert names(graph) == ["ArgMax", "Cast"]


def test_a_reshape_that_moves_more_than_reduced_dimensions_stays():
    text = "(float[2,3,4] x) => (y) { a = ReduceSum<keepdims=0>(x, t)  y = Reshape(a, s) }"
    graph = simplified(text, t=np.array([1]), s=np.array([8]))
    assert names(graph) == ["ReduceSum", "Reshape"]


def test_an_output_that_is_an_input_keeps_an_identity():
    text = "(float[2,3] x) => (y) { a = Transpose(x)  y = Transpose(a) }"
    graph = simplified(text)
    assert names(graph) == ["Identity"]
    assert identity.run(graph) == []


def test_two_outputs_of_one_value_keep_both_names():
    text = "(float[2] x) => (y, z) { y = Neg(x)  z = Identity(y) }"
    assert names(simplified(text)) == ["Neg", "Identity"]


def test_an_output_takes_its_name_along():
    text = "(float[2] x) => (y) { a = Neg(x)  y = Mul(a, one) }"
    graph = simplified(text, one=ONE)
    assert names(graph) == ["Neg"]
    assert graph.outputs[0].name == "y"


def test_other_users_of_an_output_read_past_it():
    text = "(float[2] x) => (y, z) { y = Identity(x)  z = Neg(y) }"
    graph = simplified(text)
    assert only(graph, "Neg").inputs[0] is graph.inputs[0]


def test_what_a_branch_returns_of_the_outside_keeps_its_name_outside():
    text = """(float[2] x, bool c) => (y, z) {
        y = Neg(x)
        z = If(c) < then_branch = a () => (t) { t = Identity(y) },
                    else_branch = b () => (e) { e = Exp(y) } > }"""
    graph = simplified(text)
    assert [value.name for value in graph.outputs] == ["y", "z"]
    verify(graph)


def test_origins_go_to_what_is_left():
    graph = graph_of("(float[2] x) => (y) { a = Neg(x)  y = Identity(a) }")
    fold.run(graph)
    identity.run(graph)
    assert {source.op for source in graph.first.origins} == {"Neg", "Identity"}


def test_types_stay():
    text = "(float[2,3,4] x) => (y) { a = Flatten<axis=1>(x)  b = Unsqueeze(a, t)  y = Neg(b) }"
    graph = simplified(text, t=np.array([0]))
    assert only(graph, "Reshape").output.type == tensor_type("float32", (1, 2, 12))


def test_what_a_branch_reads_of_the_outside_keeps_its_name_too():
    text = """(float[2] x, bool c) => (y, z) {
        y = Neg(x)
        z = If(c) < then_branch = a () => (t) { q = Identity(y)  t = Relu(q) },
                    else_branch = b () => (e) { e = Exp(y) } > }"""
    graph = simplified(text)
    assert [value.name for value in graph.outputs] == ["y", "z"]
