"""Weights rounded by the rows that they are multiplied with."""

import numpy as np
import pytest

from straightway.ir import Graph, Node, Op, TensorType, Value, edit
from straightway.quant import fitting, rows
from straightway.quant.assignment import Assignment, scheme_for
from straightway.quant.filters import store
from straightway.run.rows_engine import Reservoir, drawn

FLOAT32 = np.dtype(np.float32)


def value(name, *shape):
    return Value(name, TensorType(dtype=FLOAT32, shape=shape))


def op(name, x, weights, result, attrs, *, bias=None):
    """A graph of one op."""
    graph = Graph()
    given = value("x", *x)
    edit.add_input(graph, given)
    constants = [edit.constant(graph, np.asarray(weights, np.float32), "w")]
    if bias is not None:
        constants.append(edit.constant(graph, np.asarray(bias, np.float32), "b"))
    attrs = {"activation": "NONE", **attrs}
    node = Node(Op(dialect="tflite", name=name), [given, *constants], [value("y", *result)], attrs)
    edit.append(graph, node)
    edit.set_outputs(graph, [node.output])
    return graph, node


def assigned(node, x, y=4.0):
    schemes = {node.inputs[0]: scheme_for(*x), node.output: scheme_for(-y, y)}
    return Assignment(schemes=schemes, anew={}, floats={}, remarks=())


def correlated(rng, count, size):
    return (rng.normal(0, 1, (count, size)) @ rng.normal(0, 1, (size, size))) / size


@pytest.mark.parametrize("bias", [True, False])
def test_errors_of_results_fall_on_rows_never_seen(bias):
    rng = np.random.default_rng(0)
    x = correlated(rng, 4000, 32) @ np.diag(np.logspace(0, -2, 32)) + 0.3
    weights = rng.normal(0, 1, (8, 32))
    graph, node = op(
        "FULLY_CONNECTED", (1, 32), weights, (1, 8), {}, bias=np.zeros(8) if bias else None
    )
    given = assigned(node, (x.min(), x.max()))
    plain = store(graph, given)
    seen = np.float32(x[None, :2000])
    fitted = fitting.fitted(plain, given, {node: seen})
    assert fitted.remarks[-1].numbers == {"ops": 1}
    fresh = x[2000:]
    scheme = given.schemes[node.inputs[0]]
    stored = (scheme.stored(fresh) - float(scheme.zero_point)) * scheme.scale

    def errors(filters):
        one = filters.by_node[node]
        shift = filters.shifts.get(node, 0.0)
        own = 0.0 if one.bias is None else one.bias * one.bias_quant.scale
        made = stored @ (one.weights * one.quant.scale[:, None]).T + own + shift
        return made - fresh @ weights.T

    before, after = errors(plain), errors(fitted)
    assert np.mean(after**2) < np.mean(before**2) / 2
    assert np.abs(after.mean(0)).max() < 0.2 * np.abs(before.mean(0)).max()


WINDOWS = [
    ({"strides": (2, 1), "dilations": (1, 2), "padding": "SAME"}, (2, 4, 7, 8), (6, 2, 3, 3)),
    ({"strides": (1, 2), "dilations": (1, 1), "padding": "VALID"}, (1, 4, 6, 9), (4, 4, 2, 3)),
    ({"strides": (1, 1), "dilations": (1, 1), "padding": "SAME"}, (1, 4, 5, 5), (8, 1, 3, 3)),
]


def convolved(x, weights, attrs):
    """Every element of the result, one by one."""
    count, channels, *size = x.shape
    filters, depth, *window = weights.shape
    reach = [(k - 1) * d + 1 for k, d in zip(window, attrs["dilations"], strict=True)]
    same = attrs["padding"] == "SAME"
    out = [
        -(-n // s) if same else (n - r) // s + 1
        for n, r, s in zip(size, reach, attrs["strides"], strict=True)
    ]
    most = [
        max((o - 1) * s + r - n, 0) if same else 0
        for o, s, r, n in zip(out, attrs["strides"], reach, size, strict=True)
    ]
    x = np.pad(x, [(0, 0), (0, 0), *((m // 2, m - m // 2) for m in most)])
    result = np.zeros((count, filters, *out))
    groups = channels // depth
    for f in range(filters):
        part = x[:, f // (filters // groups) * depth :][:, :depth]
        for i in range(out[0]):
            for j in range(out[1]):
                top, left = i * attrs["strides"][0], j * attrs["strides"][1]
                cut = part[:, :, top : top + reach[0], left : left + reach[1]]
                cut = cut[:, :, :: attrs["dilations"][0], :: attrs["dilations"][1]]
                result[:, f, i, j] = (cut * weights[f]).sum((1, 2, 3))
    return result


@pytest.mark.parametrize(("attrs", "x_shape", "w_shape"), WINDOWS)
def test_rows_times_weights_are_the_results_of_a_convolution(attrs, x_shape, w_shape):
    rng = np.random.default_rng(1)
    x, weights = rng.normal(0, 1, x_shape), rng.normal(0, 1, w_shape).astype(np.float32)
    want = convolved(x, weights, attrs)
    name = "DEPTHWISE_CONV_2D" if w_shape[1] == 1 else "CONV_2D"
    _, node = op(name, x_shape, weights, want.shape, attrs)
    (spec,) = rows.specs([(node, "x")], samples=1)
    taken = drawn(spec | {"share": 10**6}, x, rng)
    matrices = rows.grouped(node, weights)
    made = np.einsum("grk,gok->gor", taken, matrices).reshape(w_shape[0], -1)
    np.testing.assert_allclose(made, want.transpose(1, 0, 2, 3).reshape(w_shape[0], -1), 1e-4, 1e-5)
    assert np.array_equal(rows.ungrouped(node, matrices), weights)
    assert drawn(spec | {"share": 5}, x, rng).shape[1] == 5


def test_a_transposed_convolution_is_a_product_for_each_tap():
    rng = np.random.default_rng(2)
    weights = rng.normal(0, 1, (5, 3, 2, 2)).astype(np.float32)
    attrs = {"strides": (2, 2), "padding": "VALID", "output_shape": (1, 3, 8, 8)}
    graph, node = op("TRANSPOSE_CONV", (1, 5, 4, 4), weights, (1, 3, 8, 8), attrs, bias=np.zeros(3))
    x = rng.uniform(0.5, 1, (1, 5, 4, 4)) * np.arange(1, 6)[:, None, None]
    given = assigned(node, (0, x.max()))
    (spec,) = rows.specs([(node, "x")], samples=1)
    seen = drawn(spec, x, rng)
    fitted = fitting.fitted(store(graph, given), given, {node: seen}).by_node[node]
    real = fitted.weights * fitted.quant.scale[:, None, None]
    scheme = given.schemes[node.inputs[0]]
    stored = (scheme.stored(x) - float(scheme.zero_point)) * scheme.scale
    errors = np.einsum("nihw,ioab->onhwab", stored, real) - np.einsum(
        "nihw,ioab->onhwab", x, weights
    )
    means = errors.reshape(3, -1).mean(1) + fitted.bias * fitted.bias_quant.scale
    np.testing.assert_array_less(
        np.abs(means), fitted.bias_quant.scale
    )  # half of which is rounding


def test_few_rows_change_nothing():
    graph, node = op("FULLY_CONNECTED", (1, 4), np.eye(4), (1, 4), {}, bias=np.zeros(4))
    given = assigned(node, (-1, 1))
    plain = store(graph, given)
    assert fitting.fitted(plain, given, {node: np.ones((1, 3, 4), np.float32)}) is plain


def test_rows_are_drawn_evenly_from_all_samples():
    rng = np.random.default_rng(3)
    kept = Reservoir(200)
    for sample in range(100):
        kept.add(np.full((1, 20, 2), sample, np.float32), rng)
    found = kept.rows()[0, :, 0]
    assert found.shape == (200,)
    assert 40 < found.mean() < 60


def test_rows_take_little_memory():
    weights = np.zeros((4, 2048), np.float32)
    nodes = [op("FULLY_CONNECTED", (1, 2048), weights, (1, 4), {})[1] for _ in range(40)]
    specs = rows.specs([(node, "x") for node in nodes], samples=100)
    assert sum(4 * 2048 * spec["most"] for spec in specs) <= rows.MOST_BYTES


def test_what_is_known_is_not_fitted_again(monkeypatch):
    rng = np.random.default_rng(5)
    weights = rng.normal(0, 1, (3, 6))
    graph, node = op("FULLY_CONNECTED", (1, 6), weights, (1, 3), {}, bias=np.zeros(3))
    given = assigned(node, (-1, 1))
    plain, known = store(graph, given), {}
    seen = {node: np.float32(rng.normal(0, 0.3, (1, 50, 6)))}
    first = fitting.fitted(plain, given, seen, known)
    monkeypatch.setattr(fitting, "fit", None)
    again = fitting.fitted(plain, given, seen, known)
    assert again.by_node[node] is first.by_node[node]
    with pytest.raises(TypeError):
        fitting.fitted(plain, assigned(node, (-2, 1)), seen, known)
