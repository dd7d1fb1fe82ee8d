"""Rounding spelled out in floats is found where it is exactly that, and nowhere else."""

import numpy as np
import onnx
import onnx.parser
import pytest
from models import check, names
from onnx import helper, numpy_helper

import straightway
from straightway.passes.fake_quantize import scales_of

S = np.array(0.05, np.float32)


def spelled(body, tolerance=1e-5, **numbers):
    constants = {name: np.array(value, np.float32) for name, value in numbers.items()}
    feeds = [np.linspace(-9.01, 9.03, 4096, dtype=np.float32).reshape(1, 4096)]
    return check(
        f"(float[1,4096] x) => (y) {{ {body} }}", feeds=feeds, tolerance=tolerance, s=S, **constants
    )


FULL = "a = Div(x, s) b = Round(a) c = Add(b, z) d = Clip(c, lo, hi) e = Sub(d, z) y = Mul(e, s)"
BEFORE = "a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) y = Mul(c, s)"
PAIR = ["QuantizeLinear", "DequantizeLinear"]


@pytest.mark.parametrize(
    ("body", "numbers", "pairs"),
    [
        (FULL, {"z": 3, "lo": -128, "hi": 127}, 1),
        (FULL, {"z": 100, "lo": 0, "hi": 255}, 1),
        (FULL, {"z": 0, "lo": -127, "hi": 127}, 2),
        (FULL, {"z": 3, "lo": -8, "hi": 7}, 2),
        (
            FULL.replace("Clip(c, lo, hi)", "Max(c, lo) f = Min(d, hi)").replace("Sub(d", "Sub(f"),
            {"z": 3, "lo": 0, "hi": 255},
            1,
        ),
        (
            FULL.replace(
                "Add(b, z) d = Clip(c, lo, hi)", "Max(b, lo) f = Add(c, z) d = Min(f, hi)"
            ),
            {"z": 5, "lo": -100, "hi": 100},
            2,
        ),
        (BEFORE, {"lo": 0, "hi": 255}, 1),
        (BEFORE, {"lo": -128, "hi": 127}, 1),
        (BEFORE, {"lo": -7, "hi": 7}, 2),
    ],
)
def test_a_rounding_is_named(body, numbers, pairs):
    assert names(spelled(body, **numbers)) == PAIR * pairs


@pytest.mark.parametrize(
    ("body", "numbers"),
    [
        pytest.param(BEFORE, {"lo": -200, "hi": 200}, id="more than 256 numbers"),
        pytest.param(BEFORE, {"lo": -1.5, "hi": 7}, id="limits between numbers"),
        pytest.param(BEFORE, {"lo": 3, "hi": 7}, id="without zero"),
        pytest.param("a = Div(x, s) b = Round(a) y = Mul(b, s)", {}, id="without limits"),
        pytest.param(
            BEFORE.replace("y = Mul(c, s)", "y = Mul(c, t)"),
            {"lo": 0, "hi": 9, "t": 2},
            id="scales",
        ),
        pytest.param(
            FULL.replace("Sub(d, z)", "Sub(d, t)"), {"z": 1, "t": 2, "lo": 0, "hi": 9}, id="offsets"
        ),
    ],
)
def test_what_is_none_stays(body, numbers):
    assert "QuantizeLinear" not in names(spelled(body, **numbers))


@pytest.mark.parametrize("zero", [2, 131])
def test_the_zero_point_may_come_before(zero):
    """Halves then go to the other even number where it is odd: one quantum."""
    body = (
        "a = Div(x, s) b = Add(a, z) c = Round(b) d = Clip(c, lo, hi) e = Sub(d, z) y = Mul(e, s)"
    )
    assert names(spelled(body, tolerance=S * 1.01, z=zero, lo=0, hi=255)) == PAIR


def test_a_shift_that_is_no_whole_number_stays():
    body = (
        "a = Div(x, s) b = Add(a, z) c = Round(b) d = Clip(c, lo, hi) e = Sub(d, z) y = Mul(e, s)"
    )
    assert "QuantizeLinear" not in names(spelled(body, z=0.25, lo=0, hi=255))


def test_a_value_inside_that_others_read_stays():
    text = "a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) d = Mul(c, s) y = Sub(d, b)"
    assert "QuantizeLinear" not in names(spelled(text, lo=0, hi=9))


@pytest.mark.parametrize("text", ["a = Div(x, s) b = Round(a) y = Clip(b, lo, hi)", BEFORE])
def test_no_end_and_limits_that_come_as_the_model_runs(text):
    found = check(
        f"(float[1,4] x, float lo) => (y) {{ {text} }}",
        feeds=[np.array([[-3, -0.2, 0.3, 9]], np.float32), np.array(-7, np.float32)],
        s=S,
        hi=np.array(7, np.float32),
    )
    assert "QuantizeLinear" not in names(found)


BRANCHES = """<ir_version: 9, opset_import: ["": 17]>
g (float[1, 8] x, bool k) => (float[1, 8] y)
<float s = {{0.05}}, float lo = {{-100}}, float hi = {{100}}, int8 z = {{0}}> {{
  {before} y = If (k) <
    then_branch = t () => (float[1, 8] p) {{ {inside} }},
    else_branch = e () => (float[1, 8] q) {{ q = Relu(x) }}>
}}"""


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        pytest.param("a = Div(x, s) b = Round(a) c = Clip(b, lo, hi)", "p = Mul(c, s)", id="end"),
        pytest.param(
            "a = Div(x, s) b = Round(a)", "c = Clip(b, lo, hi) p = Mul(c, s)", id="limits"
        ),
        pytest.param("", "a = Div(x, s) b = Round(a) c = Clip(b, lo, hi) p = Mul(c, s)", id="all"),
        pytest.param("", "a = QuantizeLinear(x, s, z) p = DequantizeLinear(a, s, z)", id="named"),
        pytest.param(
            "a = QuantizeLinear(x, s, z)", "p = DequantizeLinear(a, s, z)", id="named, its end"
        ),
    ],
)
def test_roundings_in_branches(before, inside, tmp_path):
    onnx.save(
        onnx.parser.parse_model(BRANCHES.format(before=before, inside=inside)), tmp_path / "m.onnx"
    )
    assert straightway.convert(tmp_path / "m.onnx").verification.equal


def test_scales_are_found_again():
    random = np.random.default_rng(0)
    scales = random.uniform(1e-4, 1, 16).astype(np.float32)
    integers = random.integers(-127, 128, (16, 200))
    integers[3], integers[4] = 0, random.integers(-3, 4, 200)
    filters = (integers * scales[:, None]).astype(np.float32)
    found = scales_of(filters)
    again = (np.rint(filters / found[:, None]) * found[:, None]).astype(np.float32)
    np.testing.assert_allclose(again, filters, rtol=3e-7)
    assert found[3] == 1
    assert np.abs(filters / found[:, None]).max() <= 127.001
    np.testing.assert_allclose(found[4], scales[4], rtol=3e-7)


def test_weights_that_were_never_rounded_have_no_scale():
    assert scales_of(np.random.default_rng(0).standard_normal((8, 20)).astype(np.float32)) is None
    assert scales_of(np.array([[np.nan, 1]], np.float32)) is None


def network(by_inverse):
    """Convolutions, a sum, a mean and a product, each rounded after; weights rounded and folded."""
    random = np.random.default_rng(1)
    nodes, constants = [], {}

    def constant(name, array):
        constants[name] = np.asarray(array, np.float32)
        return name

    def add(op, *inputs, **attrs):
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], **attrs))
        return nodes[-1].output[0]

    def rounded(x, scale, zero):
        scale = np.float32(scale)
        factor = ("Mul", 1 / scale) if by_inverse else ("Div", scale)
        x = add("Round", add(factor[0], x, constant(f"f{len(nodes)}", factor[1])))
        z = constant(f"z{len(nodes)}", zero)
        x = add("Clip", add("Add", x, z), constant("lo", -128), constant("hi", 127))
        return add("Mul", add("Sub", x, z), constant(f"s{len(nodes)}", scale))

    def weights(*shape):
        scales = random.uniform(0.001, 0.01, (shape[0], *[1] * (len(shape) - 1)))
        return (random.integers(-127, 128, shape) * scales.astype(np.float32)).astype(np.float32)

    x = rounded("x", 0.025, 2)
    for index in range(4):
        w = constant(f"w{index}", weights(8, 3 if not index else 8, 3, 3))
        b = constant(f"b{index}", random.standard_normal(8))
        y = rounded(add("Relu", add("Conv", x, w, b, pads=[1] * 4)), 0.06, -128)
        x = rounded(add("Add", x, y), 0.1, -100) if index else y
    x = rounded(add("GlobalAveragePool", x), 0.06, -128)
    x = add("Gemm", add("Flatten", x), constant("w", weights(10, 8)), transB=1)
    y = rounded(x, 0.02, 0)
    nodes.append(helper.make_node("Identity", [y], ["y"]))
    info = [helper.make_tensor_value_info("x", 1, [1, 3, 12, 12])]
    out = [helper.make_tensor_value_info("y", 1, [1, 10])]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", info, out, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("by_inverse", [False, True])
def test_a_network_computes_with_integers(by_inverse, tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(network(by_inverse), path)
    result = straightway.convert(path, tmp_path / "net.tflite")
    written = list(result.translation.written.operators)
    kinds = [node.outputs[0].dtype.name for node in written]
    assert kinds == ["int8"] * (len(written) - 1) + ["float32"]
    assert written[-1].op.name == "DEQUANTIZE"
    assert [check.name for check in result.verification.outputs] == ["y"] * 3
    stored = [c for c in result.verification.interior if "without looking" not in c.name]
    assert len(stored) == 3 * 9
    assert {check.bound for check in stored} <= {1, 2}
