"""Pools against their definition, and how few ops they take."""

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper
import pytest
from window_cases import built, children, close, draw, model_of, run_model, single
from window_reference import Slide, average_pool, lp_pool, max_pool

from straightway.ir import Node, Op, Value, tensor_type
from straightway.lower.pool import never_negative
from straightway.onnx_io.schema import infer_types

child = pytest.fixture(scope="module")(children)


@pytest.mark.parametrize("seed", range(60))
def test_max_pool_is_its_definition(seed, child, tmp_path):
    drawn = draw("MaxPool", seed)
    found = run_model(child, model_of(drawn), {"x": drawn.x}, tmp_path)
    assert np.array_equal(found.y, max_pool(drawn.x, drawn.slide).astype(np.float32))


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("seed", range(50))
def test_average_pool_is_its_definition(seed, count_include_pad, child, tmp_path):
    drawn = draw("AveragePool", seed)
    try:
        with np.errstate(divide="raise", invalid="raise"):
            want = average_pool(drawn.x, drawn.slide, count_include_pad)
    except (AttributeError, FloatingPointError, ZeroDivisionError):
        pytest.skip("a window lies on padding only")
    attrs = {**drawn.attrs, "count_include_pad": count_include_pad}
    model = single("AveragePool", drawn.operands, attrs)
    assert close(run_model(child, model, {"x": drawn.x}, tmp_path).y, want)


@pytest.mark.parametrize("seed", range(40))
def test_lp_pool_is_its_definition(seed, child, tmp_path):
    drawn = draw("LpPool", seed)
    order = seed % 3 + 1
    if not all(reads for _, reads in drawn.slide.windows(drawn.x.shape[2:])):
        pytest.skip("a window lies on padding only")
    model = single("LpPool", drawn.operands, {**drawn.attrs, "p": order})
    found = run_model(child, model, {"x": drawn.x}, tmp_path)
    assert close(found.y, lp_pool(drawn.x, drawn.slide, order))


IMAGE = np.random.default_rng(2).standard_normal((1, 3, 8, 10)).astype(np.float32)


@pytest.mark.parametrize("opset", [11, 17, 22])
def test_ceil_mode_drops_a_window_behind_the_input(opset, child, tmp_path):
    """Of rows of 8 with kernel 2, stride 2, one row of padding behind, the fifth window is padding."""
    attrs = {"kernel_shape": (2, 3), "strides": (2, 2), "pads": (0, 1, 1, 1), "ceil_mode": 1}
    model = single("MaxPool", {"x": IMAGE}, attrs, opset=opset)
    found = run_model(child, model, {"x": IMAGE}, tmp_path)
    slide = Slide(kernel=(2, 3), strides=(2, 2), dilations=(1, 1), pads=((0, 1), (1, 1)), ceil=True)
    assert found.y.shape == (1, 3, 4, 6)
    assert np.array_equal(found.y, max_pool(IMAGE, slide))


@pytest.mark.parametrize("opset", [1, 7, 11, 17, 22])
def test_shapes_of_pools_agree_in_every_opset(opset):
    x = Value("x", tensor_type(np.float32, (1, 3, 8, 10)))
    attrs = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 0, 0)}
    node = Node(Op(dialect="onnx", name="MaxPool", version=opset), [x], [Value("y", None)], attrs)
    assert infer_types(node, {"": opset}) == [tensor_type(np.float32, (1, 3, 4, 5))]


@pytest.mark.parametrize(
    ("op", "attrs", "ops"),
    [
        ("MaxPool", {"kernel_shape": (2, 2), "strides": (2, 2)}, ["MAX_POOL_2D"]),
        ("MaxPool", {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}, ["MAX_POOL_2D"]),
        ("MaxPool", {"kernel_shape": (5, 5), "pads": (2, 2, 2, 2)}, ["MAX_POOL_2D"] * 2),
        (
            "MaxPool",
            {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)},
            ["PADV2", "MAX_POOL_2D"],
        ),
        ("AveragePool", {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)}, ["AVERAGE_POOL_2D"]),
        (
            "AveragePool",
            {
                "kernel_shape": (3, 3),
                "pads": (1, 0, 1, 0),
                "strides": (2, 2),
                "count_include_pad": 1,
            },
            ["PAD", "DEPTHWISE_CONV_2D"],
        ),
        ("GlobalAveragePool", {}, ["MEAN"]),
        ("GlobalMaxPool", {}, ["REDUCE_MAX"]),
    ],
)
def test_pools_take_as_few_ops_as_can_be(op, attrs, ops, child, tmp_path):
    found = run_model(child, single(op, {"x": IMAGE}, attrs), {"x": IMAGE}, tmp_path)
    assert [name for name in found.ops if name not in ("TRANSPOSE", "RESHAPE")] == ops


def test_after_a_relu_zero_is_low_enough(child, tmp_path):
    """XNNPACK pads with zeros only: one partition instead of two."""
    attrs = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["r"]),
        onnx.helper.make_node("MaxPool", ["r"], ["y"], **attrs),
    ]
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, IMAGE.shape)
    graph = onnx.helper.make_graph(
        nodes, "g", [info], [onnx.helper.make_empty_tensor_value_info("y")]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    found = run_model(child, model, {"x": IMAGE}, tmp_path)
    slide = Slide(kernel=(3, 3), strides=(2, 2), dilations=(1, 1), pads=((1, 1), (1, 1)))
    assert np.array_equal(found.y, max_pool(np.maximum(IMAGE, 0), slide))
    assert "PADV2" not in found.ops
    assert found.partitions == 1


@pytest.mark.parametrize(
    ("body", "proven"),
    [
        (lambda g, x: g.RELU(x), True),
        (
            lambda g, x: g.MAX_POOL_2D(g.RELU6(x), filter=(2, 2), strides=(1, 1), padding="SAME"),
            True,
        ),
        (lambda g, x: g.ADD(g.RELU(x), 1.0), True),
        (lambda g, x: g.ADD(g.RELU(x), -1.0), False),
        (lambda g, x: g.MUL(g.LOGISTIC(x), g.ABS(x)), True),
        (lambda g, x: g.MUL(g.LOGISTIC(x), x), False),
        (lambda g, x: g.NEG(g.RELU(x)), False),
        (lambda g, x: x, False),
    ],
)
def test_what_is_proven_never_negative(body, proven):
    graph, _ = built((1, 3, 4, 4), body)
    assert never_negative(graph.outputs[0]) is proven


@pytest.mark.parametrize(("size", "beta"), [(3, 0.75), (4, 0.5), (5, 1.0), (2, 0.3)])
@pytest.mark.parametrize("shape", [(2, 7, 3, 4), (2, 9, 5)])
def test_response_normalization_is_its_definition(size, beta, shape, child, tmp_path):
    """Onnxruntime takes odd sizes and images only; ONNX's reference leaves channels out."""
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    attrs = {"size": size, "alpha": 0.3, "beta": beta, "bias": 1.5}
    found = run_model(child, single("LRN", {"x": x}, attrs), {"x": x}, tmp_path)
    sums = np.zeros(shape)
    for c in range(shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(shape[1], c + size // 2 + 1)
        sums[:, c] = (x[:, low:high].astype(float) ** 2).sum(1)
    assert close(found.y, x / (1.5 + 0.3 / size * sums) ** beta)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool_is_its_definition(p, child, tmp_path):
    """Neither onnxruntime nor ONNX's reference has its newest version."""
    found = run_model(child, single("GlobalLpPool", {"x": IMAGE}, {"p": p}), {"x": IMAGE}, tmp_path)
    want = (np.abs(IMAGE.astype(float)) ** p).sum((2, 3), keepdims=True) ** (1 / p)
    assert close(found.y, want)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_a_convolution_absorbs_the_order_of_blocks(mode, child, tmp_path):
    """CRD is DCR with other channels, and a convolution can give its channels in any order."""
    random = np.random.default_rng(8)
    w = random.standard_normal((18, 3, 3, 3)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w"], ["c"]),
        onnx.helper.make_node("DepthToSpace", ["c"], ["y"], blocksize=3, mode=mode),
    ]
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, IMAGE.shape)
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [info],
        [onnx.helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    found = run_model(child, model, {"x": IMAGE}, tmp_path)
    assert found.ops == ["TRANSPOSE", "CONV_2D", "DEPTH_TO_SPACE", "TRANSPOSE"]
