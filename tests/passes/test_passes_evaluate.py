"""Constants are computed as ONNX says: its own node tests, and numbers that are easy to lose."""

import itertools
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from evaluate_graph import ingest_model
from models import graph_of, names
from onnx import numpy_helper

from straightway.errors import InvalidModel
from straightway.passes import fold
from straightway.passes.dedup import RANDOM
from straightway.passes.evaluate import EVALUATORS, evaluate
from straightway.passes.evaluate_matrix import convolution
from straightway.passes.evaluator import UnfoldableError
from straightway.passes.types import infer, subgraphs

# Operators whose node tests we must evaluate, or say why not.
UNFOLDED = {
    "left to the run time",  # float8 and float4, saturating
    "is not evaluated",  # an attribute or an equation that is out of the ordinary
    "no identity",  # an empty maximum
    "invalid data type for einsum",
    "a scalar has no index",
    "the order is free",
    "strings are not converted",
    "is older than opset",
    "lies outside",
    "that is not zero",
    "no known size",
}


def node_cases():
    """Backend tests of one node without subgraphs, by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        cases = load_model_tests(kind="node")
    return {case.name: case for case in cases if len(case.model.graph.node) == 1}


@pytest.fixture(scope="module")
def cases():
    return node_cases()


def with_constant_operands(case):
    """The case's node with all operands constant; None where one is no tensor."""
    proto = onnx.ModelProto()
    proto.CopyFrom(case.model)
    operands, _ = case.data_sets[0]
    for value, array in zip(proto.graph.input, operands, strict=True):
        if isinstance(array, (list, type(None))):
            return None
        if not isinstance(array, onnx.TensorProto):
            array = numpy_helper.from_array(np.asarray(array))  # noqa: PLW2901 - as the file has it
        array.name = value.name
        proto.graph.initializer.append(array)
    del proto.graph.input[:]
    return ingest_model(proto).first


def assert_equal(found, expected, name):
    if isinstance(expected, onnx.TensorProto):
        expected = numpy_helper.to_array(expected)
    assert (found.dtype, found.shape) == (expected.dtype, np.shape(expected)), name
    if found.dtype.kind in "iubO":
        np.testing.assert_array_equal(found, expected, err_msg=name)
    else:
        wide = (found.astype(np.float64), np.asarray(expected).astype(np.float64))
        np.testing.assert_allclose(*wide, rtol=1e-5, atol=1e-6, err_msg=name)


def test_onnx_node_tests(cases):
    """Each of ONNX's own tests gives its expected result, or a reason that we know."""
    folded, unknown = 0, []
    for name, case in cases.items():
        proto = case.model.graph.node[0]
        if proto.op_type not in EVALUATORS or proto.domain:
            continue
        node = with_constant_operands(case)
        if node is None or subgraphs(node):
            continue
        try:
            found = evaluate(node, infer(node, {"": node.op.version}))
        except UnfoldableError as error:
            if not any(reason in str(error) for reason in UNFOLDED):
                unknown.append(f"{name}: {error}")
            continue
        folded += 1
        for one, other in zip(found, case.data_sets[0][1], strict=False):
            assert_equal(one, other, name)
    assert not unknown
    assert folded > 700


def folded(text, opset=17, **constants):
    """The only output of a model whose operands are constants."""
    graph = graph_of(text, opset, **constants)
    fold.run(graph)
    (value,) = graph.outputs
    assert names(graph) == ["Identity"], names(graph)
    return value.producer.inputs[0].const


def test_integers_divide_towards_zero_exactly():
    a = np.array([7, -7, 7, -7, 2**62 + 1, -(2**62) - 1], np.int64)
    b = np.array([2, 2, -2, -2, 2, 2], np.int64)
    quotient = folded("() => (int64[6] y) { y = Div(a, b) }", a=a, b=b)
    np.testing.assert_array_equal(quotient, [3, -3, -3, 3, 2**61, -(2**61)])


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8"])
def test_integer_division_agrees_with_python(dtype):
    limits = np.iinfo(dtype)
    values = np.arange(max(limits.min, -20) + 1, 20, dtype=dtype)
    a, b = (np.array(v, dtype) for v in zip(*itertools.product(values, values), strict=True))
    a, b = a[b != 0], b[b != 0]
    quotient = EVALUATORS["Div"].function(a, b)
    expected = [int(int(x) / int(y)) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(quotient, expected)
    assert quotient.dtype == dtype


def test_division_of_integers_by_zero_stays():
    text = "() => (int64[2] y) { y = Div(a, b) }"
    graph = graph_of(text, a=np.array([1, 2]), b=np.array([1, 0]))
    (remark,) = fold.run(graph)
    assert names(graph) == ["Div"]
    assert "divides an integer by zero" in remark.text


def test_float32_is_computed_in_float32():
    a, b = np.array([16777216.0], np.float32), np.array([1.0], np.float32)
    assert folded("() => (float[1] y) { y = Add(a, b) }", a=a, b=b) == 16777216.0


def test_halves_are_not_lost():
    a, b = np.array([3.0], np.float32), np.array([2.0], np.float32)
    text = "() => (float[1] y) { h = Div(a, b)  y = Add(h, c) }"
    assert folded(text, a=a, b=b, c=np.array([0.5], np.float32)) == 2.0


def test_rounding_is_to_even():
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    np.testing.assert_array_equal(
        folded("() => (float[5] y) { y = Round(x) }", x=x), [0, 2, 2, 0, -2]
    )


@pytest.mark.parametrize(("exponent", "expected"), [(0.5, 2.0), (-1.0, 0.25)])
def test_an_exponent_of_another_type_keeps_the_base_type(exponent, expected):
    text = "() => (float[1] y) { y = Pow(x, e) }"
    result = folded(text, x=np.array([4], np.float32), e=np.array(exponent, np.float64))
    assert result.dtype == np.float32
    assert result == expected


def test_an_integer_base_with_a_float_exponent():
    text = "() => (int64[1] y) { y = Pow(x, e) }"
    result = folded(text, x=np.array([9], np.int64), e=np.array(0.5, np.float32))
    assert (result.dtype, result[0]) == (np.int64, 3)


def cast(array, to):
    return folded(f"() => (y) {{ y = Cast<to={to}>(x) }}", x=array)


def test_casts_cut_towards_zero():
    np.testing.assert_array_equal(cast(np.array([1.9, -1.9], np.float32), 7), [1, -1])


def test_casts_below_the_range_give_the_least_integer():
    result = cast(np.array([-np.inf, -1e30], np.float32), 7)
    np.testing.assert_array_equal(result, [np.iinfo(np.int64).min] * 2)


@pytest.mark.parametrize("number", [np.inf, np.nan, 2.0**63])
def test_casts_on_which_engines_differ_stay(number):
    graph = graph_of("() => (y) { y = Cast<to=7>(x) }", x=np.array([number], np.float32))
    (remark,) = fold.run(graph)
    assert names(graph) == ["Cast"]
    assert "lies outside int64" in remark.text


def test_casts_of_integers_wrap():
    np.testing.assert_array_equal(cast(np.array([300, -1], np.int32), 2), [44, 255])


def test_softmax_before_opset_13_flattens():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    old = folded("() => (y) { y = Softmax<axis=1>(x) }", 11, x=x)
    new = folded("() => (y) { y = Softmax<axis=1>(x) }", 13, x=x)
    np.testing.assert_allclose(old.reshape(2, -1).sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(new.sum(1), 1, rtol=1e-6)


@pytest.mark.parametrize("opset", [9, 13])
def test_axes_are_attributes_once_and_operands_now(opset):
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    if opset < 13:
        text = "() => (y) { s = ReduceSum<axes=[2], keepdims=0>(x)  y = Squeeze<axes=[0]>(s) }"
        result = folded(text, opset, x=x)
    else:
        text = "() => (y) { s = ReduceSum<keepdims=0>(x, a)  y = Squeeze(s, b) }"
        result = folded(text, opset, x=x, a=np.array([2]), b=np.array([0]))
    np.testing.assert_array_equal(result, [3, 12])


@pytest.mark.parametrize("opset", [6, 9, 11])
def test_bounds_of_clip_are_attributes_once_and_operands_now(opset):
    x = np.array([-2, 0, 9], np.float32)
    if opset < 11:
        result = folded("() => (y) { y = Clip<min=-1.0>(x) }", opset, x=x)
    else:
        result = folded("() => (y) { y = Clip(x, a) }", opset, x=x, a=np.float32(-1))
    np.testing.assert_array_equal(result, [-1, 0, 9])


@pytest.mark.parametrize("opset", [9, 11, 18])
def test_pads_are_attributes_once_and_operands_now(opset):
    x = np.ones((1, 2), np.float32)
    if opset < 11:
        text = "() => (y) { y = Pad<pads=[0,1,0,-1], value=5.0>(x) }"
        result = folded(text, opset, x=x)
    else:
        pads = np.array([0, 1, 0, -1])
        result = folded("() => (y) { y = Pad(x, p, v) }", opset, x=x, p=pads, v=np.float32(5))
    np.testing.assert_array_equal(result, [[5, 1]])


def test_a_slice_runs_backwards_to_the_first_element():
    x = np.arange(5)
    text = "() => (y) { y = Slice(x, s, e, a, t) }"
    least = np.array([np.iinfo(np.int64).min])
    parts = {"s": np.array([-1]), "e": least, "a": np.array([0]), "t": np.array([-2])}
    np.testing.assert_array_equal(folded(text, x=x, **parts), [4, 2, 0])


def test_a_range_counts_up_and_down():
    text = "() => (y) { y = Range(a, b, c) }"
    scalars = lambda *v: dict(zip("abc", map(np.int64, v), strict=True))  # noqa: E731 - short
    np.testing.assert_array_equal(folded(text, **scalars(0, 5, 2)), [0, 2, 4])
    np.testing.assert_array_equal(folded(text, **scalars(5, 0, -2)), [5, 3, 1])
    assert folded(text, **scalars(5, 0, 1)).size == 0
    floats = {"a": np.float32(0), "b": np.float32(1), "c": np.float32(0.1)}
    result = folded(text, **floats)
    np.testing.assert_array_equal(result, np.arange(10, dtype=np.float32) * np.float32(0.1))


DEQUANTIZE = "() => (y) { y = DequantizeLinear<axis=0>(x, s, z) }"


def test_dequantization_per_axis():
    x = np.array([[-128, 127], [0, 10]], np.int8)
    scale, zero = np.array([0.5, 2], np.float32), np.array([-128, 10], np.int8)
    result = folded(DEQUANTIZE, x=x, s=scale, z=zero)
    np.testing.assert_array_equal(result, [[0, 127.5], [-20, 0]])


def test_dequantization_keeps_its_scheme():
    graph = graph_of(
        "(float[1,2] x) => (y) { w = DequantizeLinear<axis=1>(q, s, z)  y = MatMul(x, w) }",
        q=np.array([[1, 2, 3], [4, 5, 6]], np.int8),
        s=np.array([1, 2, 3], np.float32),
        z=np.zeros(3, np.int8),
    )
    fold.run(graph)
    quant = graph.first.inputs[1].quant
    assert quant.axis == 1
    assert quant.zero_point.dtype == np.int8
    np.testing.assert_array_equal(quant.scale, [1, 2, 3])


@pytest.mark.parametrize(
    ("rename", "axis"),
    [
        ("w = Transpose(d)", 0),
        ("w = Identity(d)", 1),
        ("w = Unsqueeze(d, zero)", 2),
        ("w = Reshape(d, shape)", 0),
    ],
)
def test_the_scheme_follows_its_axis(rename, axis):
    graph = graph_of(
        f"""(float[1] x) => (y) {{
            d = DequantizeLinear<axis=1>(q, s)  {rename}  y = Mul(x, w) }}""",
        q=np.array([[1, 2, 3]], np.int8),
        s=np.array([1, 2, 3], np.float32),
        zero=np.array([0]),
        shape=np.array([3, 1, 1]),
    )
    fold.run(graph)
    assert graph.first.inputs[1].quant.axis == axis


def test_a_scheme_whose_axis_is_split_is_lost():
    graph = graph_of(
        "(float[1] x) => (y) { d = DequantizeLinear<axis=0>(q, s)  w = Reshape(d, r)  y = Mul(x, w) }",
        q=np.arange(4, dtype=np.int8),
        s=np.ones(4, np.float32),
        r=np.array([2, 2]),
    )
    fold.run(graph)
    assert graph.first.inputs[1].quant is None


def test_dequantization_in_blocks():
    x = np.arange(8, dtype=np.int8).reshape(4, 2)
    scale = np.array([[1, 10], [100, 1000]], np.float32)
    text = "() => (y) { y = DequantizeLinear<axis=0, block_size=2>(x, s) }"
    result = folded(text, 21, x=x, s=scale)
    np.testing.assert_array_equal(result, x * np.repeat(scale, 2, 0))


def test_a_scale_of_another_length_is_refused():
    graph = graph_of(
        "() => (y) { y = DequantizeLinear<axis=0>(x, s) }",
        x=np.zeros((2, 3), np.int8),
        s=np.ones(3, np.float32),
    )
    (remark,) = fold.run(graph)
    assert "does not fit axis 0" in remark.text


def test_quantization_saturates_after_rounding_to_even():
    x = np.array([0.5, 1.5, 1000, -1000], np.float32)
    text = "() => (y) { y = QuantizeLinear(x, s, z) }"
    result = folded(text, x=x, s=np.float32(1), z=np.int8(1))
    np.testing.assert_array_equal(result, [1, 3, 127, -128])


@pytest.mark.parametrize(
    ("text", "constants"),
    [
        ("y = ConstantOfShape(s)", {"s": np.array([1 << 20, 1 << 20])}),
        ("y = Expand(x, s)", {"x": np.float32(1), "s": np.array([1 << 30])}),
        ("y = Tile(x, s)", {"x": np.ones(2, np.float32), "s": np.array([1 << 30])}),
        (
            "y = Range(a, b, c)",
            {"a": np.int64(0), "b": np.int64(1 << 40), "c": np.int64(1)},
        ),
        (
            "y = Mul(a, b)",
            {"a": np.ones((1 << 14, 1), np.float32), "b": np.ones(1 << 14, np.float32)},
        ),
        (
            "y = Gather<axis=0>(x, i)",
            {"x": np.ones((1, 1 << 16), np.float32), "i": np.zeros(1 << 12, np.int64)},
        ),
        ("y = OneHot(i, d, v)", {"i": np.zeros(9), "d": np.int64(1 << 40), "v": np.zeros(2)}),
        ("y = Pad(x, s)", {"x": np.ones(1, np.float32), "s": np.array([0, 1 << 40])}),
    ],
)
def test_huge_results_are_never_made(text, constants):
    """None of these would fit: the test itself would die of them."""
    graph = graph_of(f"() => (y) {{ {text} }}", **constants)
    remarks = fold.run(graph)
    assert len(names(graph)) == 1
    assert any("bytes" in remark.text for remark in remarks)


def test_a_model_with_large_constants_may_make_larger_ones(monkeypatch):
    """Int4 becomes float32; a Tile to ten times as much does not fold."""
    monkeypatch.setattr(fold, "MOST_RESULT_BYTES", 100)
    for repeats, left in [(8, "Identity"), (10, "Tile")]:
        text = "() => (y) { y = Tile(x, r) }"
        graph = graph_of(text, x=np.ones(100, np.float32), r=np.array([repeats]))
        fold.run(graph)
        assert names(graph) == [left]


def test_many_constants_may_not_grow_the_model_without_end(monkeypatch):
    monkeypatch.setattr(fold, "MOST_ADDED_BYTES", 10_000)
    body = " ".join(f"a{i} = ConstantOfShape(s)  b{i} = Relu(a{i})" for i in range(20))
    total = ", ".join(f"b{i}" for i in range(20))
    graph = graph_of(f"() => (y) {{ {body} y = Sum({total}) }}", s=np.array([1000]))
    remarks = fold.run(graph)
    assert names(graph).count("ConstantOfShape") == 19
    assert any("are left for constants" in remark.text for remark in remarks)


def test_ranges_stop_when_nothing_is_left(monkeypatch):
    monkeypatch.setattr(fold, "MOST_ADDED_BYTES", 0)
    monkeypatch.setattr(fold, "STEPS", 0)
    numbers = dict(zip("abc", map(np.int64, (0, 9, 1)), strict=True))
    graph = graph_of("() => (y) { y = Range(a, b, c) }", **numbers)
    fold.run(graph)
    assert names(graph) == ["Range"]


def test_long_products_stay():
    graph = graph_of(
        '() => (y) { y = Einsum<equation="ab,cd,ef->a">(x, x, x) }',
        x=np.ones((100, 100), np.float32),
    )
    (remark,) = fold.run(graph)
    assert "takes too long" in remark.text


def test_constant_indices_out_of_range_are_a_fault_of_the_model():
    graph = graph_of(
        "() => (y) { y = Gather<axis=0>(x, i) }", x=np.ones(3, np.float32), i=np.array([3])
    )
    with pytest.raises(InvalidModel, match=r"Gather.*index 3 is out of bounds for axis 0"):
        fold.run(graph)


def test_random_operators_have_no_evaluator():
    assert not RANDOM & EVALUATORS.keys()


@pytest.mark.parametrize(
    ("call", "axis"),
    [
        ("LogSoftmax<axis={}>(x)", 2),
        ("Flatten<axis={}>(x)", 3),
        ("GatherElements<axis={}>(x, i)", 2),
    ],
)
@pytest.mark.parametrize("far", [0, 2**31 - 9])
def test_an_axis_beyond_the_rank_is_a_fault_of_the_model(call, axis, far):
    arrays = {"x": np.ones((2, 3), np.float32), "i": np.zeros((2, 3), np.int64)}
    graph = graph_of(f"() => (y) {{ y = {call.format(axis + far)} }}", 11, **arrays)
    with pytest.raises(InvalidModel, match=r"axis|fit"):
        fold.run(graph)


def test_a_mean_of_the_least_integer_keeps_its_sign():
    least = np.iinfo(np.int64).min
    rows = np.array([[least, 0], [-3, -4], [3, 4], [-3, 3]], np.int64)
    text = "(int64[4] x) => (int64[4] y) { m = ReduceMean<axes=[1], keepdims=0>(c)  y = Add(x, m) }"
    graph = graph_of(text, c=rows)
    fold.run(graph)
    assert graph.first.operands()[1].const.tolist() == [least // 2, -3, 3, 0]


@pytest.mark.parametrize("shape", [(2, 4, 11), (2, 4, 9, 11)])
def test_convolutions_of_constants_have_groups_and_distances(shape):
    """As positions are, before a layer projects them."""
    rng = np.random.default_rng(0)
    rank = len(shape) - 2
    pads, strides, dilations = [1, 0] * rank, [2, 1][:rank], [1, 3][:rank]
    operands = {
        "x": rng.standard_normal(shape).astype(np.float32),
        "w": rng.standard_normal((6, 2, *(3, 2)[:rank])).astype(np.float32),
        "b": rng.standard_normal(6).astype(np.float32),
    }
    node = onnx.helper.make_node(
        "Conv", [*operands], ["y"], group=2, pads=pads, strides=strides, dilations=dilations
    )
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in operands.items()],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)
    (want,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {})
    attrs = {"pads": tuple(pads), "strides": tuple(strides), "dilations": tuple(dilations)}
    found = convolution(*operands.values(), auto_pad="NOTSET", group=2, **attrs)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
