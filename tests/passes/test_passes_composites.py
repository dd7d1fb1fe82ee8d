"""What exporters spell out is recognised in all spellings, and only when it is the same function."""

import numpy as np
import pytest
from models import check, graph_of, names, only

from straightway.passes import composites, dedup, fold, identity

STEPS = [fold.run, identity.run, dedup.run, composites.run]
F = np.float32


def put_together(text, opset=17, steps=STEPS, **constants):
    return check(text, opset, steps=steps, **constants)


def activation(body, kind="float[3,5]"):
    return f"({kind} x) => (y) {{ {body} }}"


HALF_FORMS = {
    "x·e·h": "p = Mul(x, e)  y = Mul(p, h)",
    "h·(e·x)": "p = Mul(e, x)  y = Mul(h, p)",
    "x·h·e": "p = Mul(h, x)  y = Mul(p, e)",
    "x·(e·h)": "p = Mul(e, h)  y = Mul(x, p)",
    "x·e by 2": "p = Mul(x, e)  y = Div(p, two)",
    "x by 2·e": "p = Div(x, two)  y = Mul(e, p)",
}
ERF_ARGUMENTS = {"div": "s = Div(x, root)", "mul": "s = Mul(x, inverse)"}
NUMBERS = {
    "h": F(0.5),
    "two": F(2),
    "one": F(1),
    "three": F(3),
    "six": F(6),
    "zero": F(0),
    "root": F(2**0.5),
    "inverse": F(0.5**0.5),
    "cubic": F(0.044715),
    "bell": F((2 / np.pi) ** 0.5),
    "sixth": F(1 / 6),
}


def used(text):
    """The numbers that a body names."""
    words = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
    return {name: value for name, value in NUMBERS.items() if name in words}


@pytest.mark.parametrize("argument", ERF_ARGUMENTS)
@pytest.mark.parametrize("form", HALF_FORMS)
def test_gelu_by_erf(form, argument):
    text = activation(f"{ERF_ARGUMENTS[argument]}  r = Erf(s)  e = Add(r, one)  {HALF_FORMS[form]}")
    assert names(put_together(text, **used(text))) == ["Gelu"]


def test_gelu_with_the_half_inside():
    text = activation("s = Div(x, root)  r = Erf(s)  q = Mul(r, h)  e = Add(h, q)  y = Mul(e, x)")
    assert names(put_together(text, **used(text))) == ["Gelu"]


@pytest.mark.parametrize("shape", [(1,), (1, 1), (5,), (3, 5)])
def test_gelu_with_spread_constants(shape):
    text = activation("s = Div(x, root)  r = Erf(s)  e = Add(r, one)  p = Mul(x, e)  y = Mul(p, h)")
    constants = {name: np.full(shape, value) for name, value in used(text).items()}
    assert names(put_together(text, **constants)) == ["Gelu"]


CUBES = {
    "pow": "c = Pow(x, three)  b = Mul(c, cubic)",
    "products": "q = Mul(x, x)  c = Mul(x, q)  b = Mul(cubic, c)",
    "cubic first": "k = Mul(x, cubic)  q = Mul(k, x)  b = Mul(q, x)",
    "square": "q = Pow(x, two)  c = Mul(q, x)  b = Mul(c, cubic)",
}


@pytest.mark.parametrize("form", HALF_FORMS)
@pytest.mark.parametrize("cube", CUBES)
def test_gelu_by_tanh(cube, form):
    body = f"{CUBES[cube]}  a = Add(x, b)  s = Mul(a, bell)  r = Tanh(s)  e = Add(one, r)"
    text = activation(f"{body}  {HALF_FORMS[form]}")
    graph = put_together(text, **used(text))
    assert names(graph) == ["Gelu"]
    assert graph.first.attrs["approximate"] == "tanh"


@pytest.mark.parametrize(
    "body",
    [
        "q = Mul(x, x)  k = Mul(q, cubic)  o = Add(k, one)  w = Mul(x, bell)  s = Mul(w, o)",
        "k = Mul(x, cubic)  q = Mul(k, x)  o = Add(one, q)  w = Mul(bell, x)  s = Mul(w, o)",
        "q = Mul(x, x)  k = Mul(q, cubic)  o = Add(k, one)  w = Mul(x, o)  s = Mul(w, bell)",
    ],
)
def test_gelu_by_tanh_factored(body):
    text = activation(f"{body}  r = Tanh(s)  e = Add(r, one)  {HALF_FORMS['x·h·e']}")
    assert names(put_together(text, **used(text))) == ["Gelu"]


@pytest.mark.parametrize(
    ("name", "value"), [("root", 1.5), ("one", 1.001), ("h", 0.499), ("h", -0.5)]
)
def test_other_numbers_are_no_gelu(name, value):
    text = activation("s = Div(x, root)  r = Erf(s)  e = Add(r, one)  p = Mul(x, e)  y = Mul(p, h)")
    graph = put_together(text, **(used(text) | {name: F(value)}))
    assert "Gelu" not in names(graph)


def test_erf_of_another_value_is_no_gelu():
    text = """(float[3] x, float[3] z) => (y) {
        s = Div(z, root)  r = Erf(s)  e = Add(r, one)  p = Mul(x, e)  y = Mul(p, h) }"""
    assert "Gelu" not in names(put_together(text, **used(text)))


def test_a_gelu_that_widens_is_none():
    text = activation("s = Div(x, root)  r = Erf(s)  e = Add(r, one)  p = Mul(x, e)  y = Mul(p, h)")
    constants = used(text) | {"h": np.full((2, 1, 1), 0.5, F)}
    assert "Gelu" not in names(put_together(text, **constants))


def test_a_gelu_whose_inside_is_used_is_reported():
    text = """(float[3] x) => (y, z) {
        s = Div(x, root)  r = Erf(s)  e = Add(r, one)  p = Mul(x, e)  y = Mul(p, h)  z = Neg(r) }"""
    graph = graph_of(text, **used(text))
    fold.run(graph)
    remarks = composites.run(graph)
    assert "Gelu" not in names(graph)
    assert any("looks like gelu_erf" in r.text and "also used by" in r.text for r in remarks)


def test_gelu_in_half_precision():
    text = activation(
        "s = Div(x, root)  r = Erf(s)  e = Add(r, one)  p = Mul(x, e)  y = Mul(p, h)",
        "float16[3,5]",
    )
    constants = {name: value.astype(np.float16) for name, value in used(text).items()}
    assert names(put_together(text, tolerance=2e-3, **constants)) == ["Gelu"]


RELU6 = {
    "clip": "c = Clip(a, zero, six)",
    "min of max": "m = Max(a, zero)  c = Min(m, six)",
    "max of min": "m = Min(six, a)  c = Max(m, zero)",
    "min of relu": "m = Relu(a)  c = Min(m, six)",
}
SIXTHS = {
    "x·c by 6": "p = Mul(x, c)  y = Div(p, six)",
    "x·c·sixth": "p = Mul(c, x)  y = Mul(p, sixth)",
    "x·(c by 6)": "p = Div(c, six)  y = Mul(x, p)",
    "x·(c·sixth)": "p = Mul(c, sixth)  y = Mul(p, x)",
    "x·sixth·c": "p = Mul(x, sixth)  y = Mul(p, c)",
}


@pytest.mark.parametrize("relu6", RELU6)
@pytest.mark.parametrize("form", SIXTHS)
def test_hard_swish(form, relu6):
    text = activation(f"a = Add(x, three)  {RELU6[relu6]}  {SIXTHS[form]}")
    assert names(put_together(text, **used(text))) == ["HardSwish"]


def test_hard_swish_with_attributes():
    text = activation(f"a = Add(x, three)  c = Clip<min=0.0, max=6.0>(a)  {SIXTHS['x·c by 6']}")
    assert names(put_together(text, 10, **used(text))) == ["HardSwish"]


@pytest.mark.parametrize(
    ("alpha", "beta", "left"),
    [
        ("0.16666667", "0.5", ["HardSwish"]),
        ("0.166667", "0.5", ["HardSwish"]),
        ("0.2", "0.5", ["HardSigmoid", "Mul"]),
        ("0.16666667", "0.4", ["HardSigmoid", "Mul"]),
    ],
)
def test_hard_swish_by_hard_sigmoid(alpha, beta, left):
    text = activation(f"g = HardSigmoid<alpha={alpha}, beta={beta}>(x)  y = Mul(x, g)")
    assert names(put_together(text)) == left


def test_a_gate_of_another_value_is_a_hard_sigmoid():
    text = """(float[3] x, float[3] z) => (y) {
        a = Add(x, three)  c = Clip(a, zero, six)  g = Div(c, six)  y = Mul(z, g) }"""
    graph = put_together(text, **used(text))
    assert names(graph) == ["HardSigmoid", "Mul"]
    assert graph.first.attrs["beta"] == 0.5


def test_bounds_at_run_time_are_no_hard_swish():
    text = """(float[3] x, float lo) => (y) {
        a = Add(x, three)  c = Clip(a, lo, six)  p = Mul(x, c)  y = Div(p, six) }"""
    assert "HardSwish" not in names(put_together(text, **used(text)))


def test_integers_are_no_hard_swish():
    text = activation(f"a = Add(x, three)  {RELU6['clip']}  {SIXTHS['x·c by 6']}", "int64[4]")
    constants = {name: value.astype(np.int64) for name, value in used(text).items()}
    assert "HardSwish" not in names(put_together(text, **constants))


@pytest.mark.parametrize("body", ["s = Softplus(x)", "p = Exp(x)  o = Add(one, p)  s = Log(o)"])
def test_mish(body):
    text = activation(f"{body}  t = Tanh(s)  y = Mul(t, x)")
    assert names(put_together(text, **used(text))) == ["Mish"]


@pytest.mark.parametrize(
    "body", ["y = Max(zero, x)", "y = Clip(x, zero)", "y = Max(x, zeros)", "y = Clip(x, zero, top)"]
)
def test_relu(body):
    text = activation(body)
    extra = {"zeros": np.zeros((3, 5), F), "top": F(np.inf)}
    constants = used(text) | {k: v for k, v in extra.items() if k in body}
    assert names(put_together(text, **constants)) == ["Relu"]


def test_a_bound_of_another_number_is_no_relu():
    text = activation("y = Max(x, h)")
    assert names(put_together(text, **used(text))) == ["Max"]


@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 1)])
def test_prelu(op, shape):
    text = activation(f"p = Relu(x)  n = Neg(x)  m = Relu(n)  q = Mul(m, a)  y = {op}(p, q)")
    slope = np.random.default_rng(0).standard_normal(shape).astype(F)
    assert names(put_together(text, a=slope)) == ["PRelu"]


NORMALIZATION_ROOTS = {
    "div": "q = Sqrt(e)  n = Div(d, q)",
    "reciprocal": "q = Sqrt(e)  i = Reciprocal(q)  n = Mul(d, i)",
    "one by": "q = Sqrt(e)  i = Div(one, q)  n = Mul(i, d)",
    "pow": "i = Pow(e, minus)  n = Mul(d, i)",
    "pow half": "q = Pow(e, h)  n = Div(d, q)",
}
EPSILON = {"eps": F(1e-5), "minus": F(-0.5), "g": None, "b": None}


def mean(x, result, axes, opset):
    if opset < 18:
        return f"{result} = ReduceMean<axes=[{axes}]>({x})"
    return f"{result} = ReduceMean({x}, axes)"


def normalization(root, opset=17, axes="-1", square="s = Mul(d, d)", tail="y = Identity(n)"):
    body = f"{mean('x', 'u', axes, opset)}  d = Sub(x, u)  {square}  {mean('s', 'v', axes, opset)}"
    return f"{body}  e = Add(v, eps)  {NORMALIZATION_ROOTS[root]}  {tail}"


def normalized(text, opset=17, kind="float[2,3,4]", axes=(-1,), **constants):
    extra = {k: v for k, v in EPSILON.items() if v is not None and f"{k})" in text}
    extra |= {"axes": np.array(axes)} if opset >= 18 else {}
    return put_together(activation(text, kind), opset, **used(text), **extra, **constants)


@pytest.mark.parametrize("root", NORMALIZATION_ROOTS)
@pytest.mark.parametrize("square", ["s = Mul(d, d)", "s = Pow(d, two)"])
@pytest.mark.parametrize("opset", [13, 18])
def test_layer_normalization(root, square, opset):
    graph = normalized(normalization(root, opset, square=square), opset)
    assert names(graph) == ["LayerNormalization"]
    assert graph.first.attrs["axis"] == -1
    assert graph.first.attrs["epsilon"] == pytest.approx(1e-5)
    assert graph.first.inputs[1].shape == (4,)


@pytest.mark.parametrize(
    ("scale", "bias"), [((4,), (4,)), ((1, 1, 4), (1, 4)), ((1,), ()), ((), (4,))]
)
def test_layer_normalization_with_scale_and_bias(scale, bias):
    random = np.random.default_rng(0)
    gamma, beta = (random.standard_normal(shape).astype(F) for shape in (scale, bias))
    text = normalization("div", tail="m = Mul(n, g)  y = Add(b, m)")
    graph = normalized(text, g=gamma, b=beta)
    assert names(graph) == ["LayerNormalization"]
    assert [value.shape for value in graph.first.inputs[1:]] == [(4,), (4,)]


def test_layer_normalization_over_two_axes():
    text = normalization("div", axes="1,2", tail="y = Mul(n, g)")
    graph = normalized(text, g=np.random.default_rng(0).standard_normal((3, 4)).astype(F))
    assert names(graph) == ["LayerNormalization"]
    assert graph.first.attrs["axis"] == -2


@pytest.mark.parametrize("axes", ["1", "0,2"])
def test_other_axes_are_no_layer_normalization(axes):
    assert "LayerNormalization" not in names(normalized(normalization("div", axes=axes)))


def test_a_scale_of_another_axis_stays():
    text = normalization("div", tail="y = Mul(n, g)")
    graph = normalized(text, g=np.arange(3, dtype=F).reshape(3, 1))
    assert names(graph) == ["LayerNormalization", "Mul"]


def test_reductions_over_different_axes_are_no_layer_normalization():
    text = normalization("div").replace("v = ReduceMean<axes=[-1]>", "v = ReduceMean<axes=[1]>")
    assert "LayerNormalization" not in names(normalized(text))


def test_a_mean_that_drops_its_axis_is_none():
    text = normalization("div").replace("axes=[-1]", "axes=[-1], keepdims=0")
    assert "LayerNormalization" not in names(normalized(text, kind="float[4,4,4]"))


def test_layer_normalization_as_keras_writes_it():
    text = f"""{mean("x", "u", "-1", 13)}  d = Sub(x, u)  s = Mul(d, d)
        {mean("s", "v", "-1", 13)}  e = Add(v, eps)  q = Sqrt(e)  i = Reciprocal(q)
        k = Mul(i, g)  a = Mul(x, k)  o = Mul(u, k)  t = Sub(b, o)  y = Add(a, t)"""
    random = np.random.default_rng(0)
    gamma, beta = random.standard_normal((2, 4)).astype(F)
    graph = put_together(
        activation(text, "float[2,3,4]"), 13, eps=F(1e-3), g=gamma, b=beta, steps=STEPS
    )
    assert names(graph) == ["LayerNormalization"]


@pytest.mark.parametrize("root", NORMALIZATION_ROOTS)
@pytest.mark.parametrize("opset", [13, 18])
def test_rms_normalization(root, opset):
    ending = NORMALIZATION_ROOTS[root].replace("(d,", "(x,").replace(", d)", ", x)")
    text = (
        f"s = Pow(x, two)  {mean('s', 'v', '-1', opset)}  e = Add(v, eps)  {ending}  y = Mul(g, n)"
    )
    graph = normalized(text, opset, g=np.arange(1, 5, dtype=F))
    assert names(graph) == ["RMSNormalization"]
    np.testing.assert_array_equal(graph.first.inputs[1].const, [1, 2, 3, 4])


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("kept", [True, False])
def test_softmax(axis, kept):
    """Exporters of Keras and JAX drop the reduced dimension and bring it back."""
    drop = f"keepdims={int(kept)}"
    shape = [2, 3, 4]
    shape[axis] = 1
    first = "a = Identity(m)" if kept else "a = Reshape(m, r)"
    second = "b = Identity(t)" if kept else "b = Unsqueeze(t, q)"
    text = f"""m = ReduceMax<axes=[{axis}], {drop}>(x)  {first}  d = Sub(x, a)  p = Exp(d)
        t = ReduceSum<{drop}>(p, q)  {second}  y = Div(p, b)"""
    constants = {"q": np.array([axis])} | ({} if kept else {"r": np.array(shape)})
    graph = put_together(activation(text, "float[2,3,4]"), 13, **constants)
    assert names(graph) == ["Softmax"]
    assert graph.first.attrs["axis"] == axis % 3


def test_a_sum_of_another_axis_is_no_softmax():
    text = """m = ReduceMax<axes=[1]>(x)  d = Sub(x, m)  p = Exp(d)
        t = ReduceSum(p, q)  y = Div(p, t)"""
    graph = put_together(activation(text, "float[2,3,4]"), 13, q=np.array([2]))
    assert "Softmax" not in names(graph)


def test_exponentials_without_a_maximum_may_overflow_and_stay():
    text = "p = Exp(x)  t = ReduceSum(p, q)  y = Div(p, t)"
    assert "Softmax" not in names(put_together(activation(text), 13, q=np.array([1])))


def test_a_composite_has_the_origins_of_its_parts():
    text = activation("s = Div(x, root)  r = Erf(s)  e = Add(r, one)  p = Mul(x, e)  y = Mul(p, h)")
    graph = put_together(text, **used(text))
    assert {source.node for source in only(graph, "Gelu").origins} == set("srepy")


def test_composites_are_found_in_branches():
    text = """(float[3] x, bool c) => (y) {
        y = If(c) < then_branch = f () => (t) {
                        s = Div(x, root)  r = Erf(s)  e = Add(r, one)  p = Mul(x, e)  t = Mul(p, h) },
                    else_branch = g () => (u) { u = Neg(x) } > }"""
    graph = put_together(text, **used(text))
    assert names(only(graph, "If").attrs["then_branch"]) == ["Gelu"]
