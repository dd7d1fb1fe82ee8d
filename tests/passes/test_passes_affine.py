"""Scales and offsets join weights only where channels are meant, nothing else reads, nothing overflows."""

import itertools

import numpy as np
import pytest
from models import check, graph_of, names, only

from straightway.passes import affine, fold

RANDOM = np.random.default_rng(3)


def numbers(*shape):
    """Between 0.5 and 2, of either sign."""
    size = RANDOM.uniform(0.5, 2, shape) * RANDOM.choice([-1, 1], shape)
    return size.astype(np.float32)


def positive(*shape):
    return np.abs(numbers(*shape))


def folded(text, opset=17, **constants):
    return check(text, opset, steps=[fold.run, affine.run], **constants)


def reasons(text, opset=17, **constants):
    graph = graph_of(text, opset, **constants)
    fold.run(graph)
    return graph, [r.text for r in affine.run(graph) if r.kind == "missed"]


# Each gives %a from %x: float[2,4,5,3]; channels of %a are 6.
LINEAR = {
    "Conv": ("a = Conv<pads=[1,1,1,1]>(x, w)", {"w": numbers(6, 4, 3, 3)}),
    "Conv with bias": ("a = Conv(x, w, b)", {"w": numbers(6, 4, 1, 1), "b": numbers(6)}),
    "grouped Conv": ("a = Conv<group=2>(x, w)", {"w": numbers(6, 2, 2, 2)}),
    "ConvTranspose": (
        "a = ConvTranspose<strides=[2,3], output_padding=[1,2]>(x, w)",
        {"w": numbers(4, 6, 2, 2)},
    ),
    "grouped ConvTranspose": (
        "a = ConvTranspose<group=2>(x, w, b)",
        {"w": numbers(4, 3, 2, 2), "b": numbers(6)},
    ),
}
NORMALIZATION = "c = BatchNormalization<epsilon=0.01>(a, g, h, m, v)"
STATISTICS = {"g": numbers(6), "h": numbers(6), "m": numbers(6), "v": positive(6)}
CHANNEL = {
    "BatchNormalization": (NORMALIZATION, STATISTICS),
    "Mul": ("c = Mul(a, s)", {"s": numbers(6, 1, 1)}),
    "Mul, constant first": ("c = Mul(s, a)", {"s": numbers(1, 6, 1, 1)}),
    "Div": ("c = Div(a, s)", {"s": numbers(6, 1, 1)}),
    "Add": ("c = Add(s, a)", {"s": numbers(6, 1, 1)}),
    "Sub": ("c = Sub(a, s)", {"s": numbers(6, 1, 1)}),
    "Sub from a constant": ("c = Sub(s, a)", {"s": numbers(6, 1, 1)}),
    "Neg": ("c = Neg(a)", {}),
    "number": ("c = Mul(a, s)", {"s": np.float32(3)}),
    "number of rank 1": ("c = Add(a, s)", {"s": numbers(1)}),
}


@pytest.mark.parametrize(("linear", "channel"), list(itertools.product(LINEAR, CHANNEL)))
def test_channels_fold_into_the_weights_before(linear, channel):
    (first, weights), (second, factors) = LINEAR[linear], CHANNEL[channel]
    text = f"(float[2,4,5,3] x) => (y) {{ {first} {second} y = Relu(c) }}"
    graph = folded(text, **weights, **factors)
    assert len(names(graph)) == 2
    assert len(graph.first.origins) == 2


@pytest.mark.parametrize("opset", [8, 9, 14, 15])
def test_normalisation_in_every_opset(opset):
    text = f"(float[2,4,5,3] x) => (y) {{ a = Conv(x, w) {NORMALIZATION} y = Relu(c) }}"
    assert names(folded(text, opset, w=numbers(6, 4, 1, 1), **STATISTICS)) == ["Conv", "Relu"]


def test_a_transposed_convolution_gets_a_bias_where_no_input_reaches():
    text = f"""(float[1,4,3,3] x) => (y) {{
        a = ConvTranspose<strides=[4,4]>(x, w) {NORMALIZATION} y = Relu(c) }}"""
    graph = folded(text, w=numbers(4, 6, 1, 1), **STATISTICS)
    assert graph.first.inputs[2].shape == (6,)


GEMMS = {
    "plain": ("a = Gemm(x, w)", {"w": numbers(5, 6)}),
    "with bias": ("a = Gemm(x, w, b)", {"w": numbers(5, 6), "b": numbers(6)}),
    "scaled": (
        "a = Gemm<alpha=0.5, beta=2.0>(x, w, b)",
        {"w": numbers(5, 6), "b": numbers(1, 6)},
    ),
    "transposed": ("a = Gemm<transB=1>(x, w, b)", {"w": numbers(6, 5), "b": numbers(3, 6)}),
    "column bias": ("a = Gemm(x, w, b)", {"w": numbers(5, 6), "b": numbers(3, 1)}),
    "scalar bias": ("a = Gemm<beta=0.0>(x, w, b)", {"w": numbers(5, 6), "b": numbers()}),
}
FEATURES = {
    "BatchNormalization": (NORMALIZATION, STATISTICS),
    "Mul": ("c = Mul(a, s)", {"s": numbers(6)}),
    "Add": ("c = Add(a, s)", {"s": numbers(1, 6)}),
    "Sub from a constant": ("c = Sub(s, a)", {"s": numbers(6)}),
}


@pytest.mark.parametrize(("gemm", "feature"), list(itertools.product(GEMMS, FEATURES)))
def test_features_fold_into_a_gemm(gemm, feature):
    (first, weights), (second, factors) = GEMMS[gemm], FEATURES[feature]
    text = f"(float[3,5] x) => (y) {{ {first} {second} y = Relu(c) }}"
    assert names(folded(text, **weights, **factors)) == ["Gemm", "Relu"]


@pytest.mark.parametrize("shape", ["2,3,5", "3,5", "5"])
def test_a_scale_folds_into_a_product(shape):
    text = f"(float[{shape}] x) => (y) {{ a = MatMul(x, w)  c = Mul(a, s)  y = Relu(c) }}"
    assert names(folded(text, w=numbers(5, 6), s=numbers(6))) == ["MatMul", "Relu"]


def test_an_offset_stays_after_a_product():
    text = "(float[2,3,5] x) => (y) { a = MatMul(x, w)  y = Add(a, s) }"
    assert names(folded(text, w=numbers(5, 6), s=numbers(6))) == ["MatMul", "Add"]


def test_a_scale_passes_the_bias_of_a_product():
    text = """(float[2,3,5] x) => (y) {
        a = MatMul(x, w)  b = Add(a, p)  c = Mul(b, s)  d = Sub(c, t)  y = Relu(d) }"""
    constants = {"w": numbers(5, 6), "p": numbers(6), "s": numbers(6), "t": numbers(6)}
    graph = folded(text, **constants)
    assert names(graph)[:2] == ["MatMul", "Add"]
    assert len(names(graph)) <= 4


def test_a_query_scale_folds_past_heads():
    """One number passes any reshape."""
    text = """(float[2,3,8] x) => (y) {
        a = MatMul(x, w)  b = Add(a, p)  r = Reshape(b, shape)
        t = Transpose<perm=[0,2,1,3]>(r)  c = Mul(t, s)  y = Relu(c) }"""
    graph = folded(
        text, w=numbers(8, 8), p=numbers(8), shape=np.array([2, 3, 2, 4]), s=np.float32(0.5)
    )
    assert names(graph) == ["MatMul", "Add", "Reshape", "Transpose", "Relu"]


@pytest.mark.parametrize(
    ("rename", "shape", "fits"),
    [
        ("r = Transpose<perm=[0,2,3,1]>(a)", (6,), True),
        ("r = Transpose<perm=[0,2,3,1]>(a)", (6, 1), False),
        ("r = Flatten<axis=2>(a)", (6, 1), False),
        ("r = Reshape(a, q)", (6, 1), True),
        ("r = Reshape(a, q)", (6,), False),
    ],
)
def test_channels_are_followed_through_renamings(rename, shape, fits):
    """The map is 6 by 6 with 6 channels: sizes cannot tell."""
    text = f"""(float[2,4,6,6] x) => (y) {{
        a = Conv(x, w)  {rename}  c = Mul(r, s)  y = Relu(c) }}"""
    constants = {"w": numbers(6, 4, 1, 1), "s": numbers(*shape)}
    if "Flatten" in rename:
        constants["s"] = numbers(12, 1)
    if "Reshape" in rename:
        constants["q"] = np.array([2, 6, 36])
        constants["s"] = numbers(*shape) if fits else numbers(36)
    graph = folded(text, **constants)
    assert ("Mul" not in names(graph)) is fits


@pytest.mark.parametrize("shape", [(6,), (6, 1), (1, 6), (6, 6), (2, 6, 1, 1), (6, 6, 6)])
def test_other_alignments_are_not_channels(shape):
    """Everything is 6 but the batch: only [6,1,1] would be channels."""
    text = "(float[2,6,6,6] x) => (y) { a = Conv(x, w)  c = Mul(a, s)  y = Relu(c) }"
    graph = folded(text, w=numbers(6, 6, 1, 1), s=numbers(*shape))
    assert names(graph) == ["Conv", "Mul", "Relu"]


def test_a_constant_that_widens_stays():
    text = "(float[1,4,1,1] x) => (y) { a = Conv(x, w)  c = Mul(a, s)  y = Relu(c) }"
    graph = folded(text, w=numbers(1, 4, 1, 1), s=numbers(6, 1, 1))
    assert names(graph) == ["Conv", "Mul", "Relu"]


TWICE = "(float[1,4,3,3] x) => (y, z) {{ a = Conv(x, w)  c = Mul(a, s)  {} }}"


@pytest.mark.parametrize("rest", ["y = Neg(c)  z = Neg(a)", "y = Neg(c)  z = Identity(a)"])
def test_a_result_with_another_user_is_not_changed(rest):
    graph = folded(TWICE.format(rest), w=numbers(6, 4, 1, 1), s=numbers(6, 1, 1))
    assert "Mul" in names(graph)


def test_a_result_that_is_an_output_is_not_changed():
    text = "(float[1,4,3,3] x) => (a, y) { a = Conv(x, w)  y = Mul(a, s) }"
    graph = folded(text, w=numbers(6, 4, 1, 1), s=numbers(6, 1, 1))
    assert names(graph) == ["Conv", "Mul"]


def test_an_output_keeps_its_name():
    text = "(float[1,4,3,3] x) => (y) { a = Conv(x, w)  y = Mul(a, s) }"
    graph = folded(text, w=numbers(6, 4, 1, 1), s=numbers(6, 1, 1))
    assert names(graph) == ["Conv"]


def test_shared_weights_are_copied():
    text = """(float[1,4,3,3] x) => (y, z) {
        a = Conv(x, w)  y = Mul(a, s)  z = Conv(x, w) }"""
    graph = folded(text, w=numbers(6, 4, 1, 1), s=numbers(6, 1, 1))
    assert names(graph) == ["Conv", "Conv"]


def test_weights_at_run_time_stay():
    text = f"(float[1,4,3,3] x, float[6,4,1,1] w) => (y) {{ a = Conv(x, w) {NORMALIZATION} y = Neg(c) }}"
    graph, why = reasons(text, **STATISTICS)
    assert names(graph) == ["Conv", "Mul", "Add", "Neg"]
    assert "computed at run time" in why[0]


def test_a_normalisation_alone_becomes_a_product_and_a_sum():
    text = f"(float[2,6,3] a) => (y) {{ {NORMALIZATION} y = Relu(c) }}"
    graph = folded(text, **STATISTICS)
    assert names(graph) == ["Mul", "Add", "Relu"]
    assert graph.first.inputs[1].shape == (6, 1)
    assert {source.op for source in graph.first.origins} == {"BatchNormalization"}


def test_a_normalisation_in_training_stays():
    text = """(float[2,6,3] x) => (y) {
        y, p, q = BatchNormalization<training_mode=1>(x, g, h, m, v) }"""
    graph, why = reasons(text, **STATISTICS)
    assert names(graph) == ["BatchNormalization"]
    assert "training mode" in why[0]


def test_a_normalisation_without_variance_stays():
    text = "(float[2,6,3] x) => (y) { y = BatchNormalization<epsilon=0.0>(x, g, h, m, v) }"
    graph, why = reasons(text, **(STATISTICS | {"v": -positive(6)}))
    assert names(graph) == ["BatchNormalization"]
    assert "variance is not positive" in why[0]


BEFORE = {
    "scale": ("c = Mul(x, s)", {"s": numbers(4, 1, 1)}, True),
    "division": ("c = Div(x, s)", {"s": numbers(4, 1, 1)}, True),
    "sign": ("c = Neg(x)", {}, True),
    "offset": ("c = Add(x, s)", {"s": numbers(4, 1, 1)}, False),
    "both": ("d = Mul(x, s)  c = Sub(d, t)", {"s": numbers(4, 1, 1), "t": numbers()}, False),
    "normalisation": (
        "c = BatchNormalization(x, s, t, u, v)",
        {"s": numbers(4), "t": numbers(4), "u": numbers(4), "v": positive(4)},
        False,
    ),
}


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    "pads", ["", "pads=[1,0,0,1], ", 'auto_pad="SAME_UPPER", ', 'auto_pad="VALID", ']
)
@pytest.mark.parametrize("kind", BEFORE)
def test_channels_fold_into_the_convolution_after(kind, pads, group):
    """Padding stays zero, so an offset may not meet it."""
    body, constants, anyway = BEFORE[kind]
    conv = f"y = Conv<{pads}group={group}>(c, w)"
    graph = folded(
        f"(float[2,4,5,6] x) => (y) {{ {body} {conv} }}",
        w=numbers(6, 4 // group, 2, 3),
        **constants,
    )
    unpadded = not pads or "VALID" in pads
    assert (names(graph) == ["Conv"]) is (anyway or unpadded)


def test_same_padding_of_a_point_is_none():
    text = '(float[2,4,5,6] x) => (y) { c = Add(x, s)  y = Conv<auto_pad="SAME_UPPER">(c, w) }'
    assert names(folded(text, w=numbers(6, 4, 1, 1), s=numbers(4, 1, 1))) == ["Conv"]


def test_a_normalisation_after_an_activation_folds_forward():
    text = f"""(float[2,4,5,6] x) => (y) {{
        r = Conv(x, k)  a = Relu(r)  {NORMALIZATION}  y = Conv(c, w) }}"""
    graph = folded(text, k=numbers(6, 4, 1, 1), w=numbers(3, 6, 2, 2), **STATISTICS)
    assert names(graph) == ["Conv", "Relu", "Conv"]
    assert {source.op for source in graph.last.origins} == {"BatchNormalization", "Conv"}


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("a = Mul(x, s)  y = Mul(a, t)", ["Mul"]),
        ("a = Add(x, s)  y = Add(t, a)", ["Add"]),
        ("a = Mul(x, s)  b = Mul(a, t)  y = Mul(b, s)", ["Mul"]),
        ("a = Add(x, s)  y = Mul(a, t)", ["Add", "Mul"]),
        ("a = Mul(x, s)  y = Add(a, t)", ["Mul", "Add"]),
    ],
)
def test_constants_in_a_row_join(body, left):
    text = f"(float[2,4,3] x) => (y) {{ {body} }}"
    graph = folded(text, s=positive(4, 1), t=positive(3))
    assert names(graph) == left


def test_constants_that_widen_do_not_join():
    text = "(float[4,1] x) => (y) { a = Mul(x, s)  y = Mul(a, t) }"
    assert names(folded(text, s=numbers(3), t=numbers(3))) == ["Mul", "Mul"]


def test_sums_that_round_on_purpose_stay():
    """x + 2²³·1.5 - 2²³·1.5 is round(x)."""
    magic = np.float32(12582912)
    text = "(float[8] x) => (y) { a = Add(x, s)  y = Add(a, t) }"
    assert names(folded(text, s=magic, t=-magic)) == ["Add", "Add"]


@pytest.mark.parametrize(("first", "second"), [(1e30, 1e30), (1e-30, 1e-30)])
def test_products_out_of_range_stay(first, second):
    text = "(float[8] x) => (y) { a = Mul(x, s)  y = Mul(a, t) }"
    graph = folded(text, s=np.float32(first), t=np.float32(second))
    assert names(graph) == ["Mul", "Mul"]


def test_weights_that_would_overflow_stay():
    text = "(float[1,4,1,1] x) => (y) { a = Conv(x, w)  y = Mul(a, s) }"
    graph, _ = reasons(text, w=np.full((6, 4, 1, 1), 1e30, np.float32), s=np.float32(1e30))
    assert names(graph) == ["Conv", "Mul"]


def test_integers_are_left():
    text = "(int32[2,3] x) => (y) { a = Mul(x, s)  y = Mul(a, t) }"
    assert names(folded(text, s=np.int32(2), t=np.int32(3))) == ["Mul", "Mul"]


def test_weights_are_computed_in_float64():
    """A product of three rounded once, not twice."""
    w, s = np.full((1, 1, 1, 1), 1 / 3, np.float32), np.float32(1 / 7)
    text = "(float[1,1,1,1] x) => (y) { a = Conv(x, w)  y = Div(a, s) }"
    graph = folded(text, w=w, s=s)
    exact = np.float64(w[0, 0, 0, 0]) / np.float64(s)
    assert graph.first.inputs[1].const.item() == np.float32(exact)


def test_what_is_folded_is_counted():
    text = f"(float[2,4,5,3] x) => (y) {{ a = Conv(x, w) {NORMALIZATION} y = Neg(c) }}"
    graph = graph_of(text, w=numbers(6, 4, 1, 1), **STATISTICS)
    fold.run(graph)
    (remark,) = affine.run(graph)
    assert (remark.kind, remark.numbers["nodes"]) == ("done", 2)
    assert only(graph, "Conv").name
