"""Small probabilities: onnxruntime's Sigmoid is off in the third digit, LiteRT's is not."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import straightway
from straightway.onnx_io.respell import respelled, sigmoids


def save(path, shift):
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Sigmoid", ["a"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 3]) for n in "xy"]
    bias = numpy_helper.from_array(np.full(3, shift, np.float32), "b")
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [bias])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def test_the_reference_is_asked_again(tmp_path):
    done = straightway.convert(save(tmp_path / "m.onnx", -11.0))
    assert done.verification is not None
    assert done.verification.equal
    assert "1 / (1 + exp(-x))" in done.verification.note
    assert done.verification.worst.relative_error < 1e-5


def test_it_is_not_asked_where_all_is_equal(tmp_path):
    done = straightway.convert(save(tmp_path / "m.onnx", 0.0))
    assert done.verification is not None
    assert not done.verification.note


def test_a_wrong_file_stays_wrong(tmp_path):
    from straightway.lower.declare import LOWERINGS

    lowering = LOWERINGS["onnx", "Sigmoid"]
    object.__setattr__(lowering, "function", lambda g, x, **_: g.LOGISTIC(g.MUL(x, 1.001)))
    with pytest.raises(straightway.Mismatch):
        straightway.convert(save(tmp_path / "m.onnx", -11.0))


@pytest.fixture(autouse=True)
def _restored():
    from straightway.lower import families
    from straightway.lower.declare import LOWERINGS

    families.load()
    lowering = LOWERINGS["onnx", "Sigmoid"]
    function = lowering.function
    yield
    object.__setattr__(lowering, "function", function)


def test_a_model_without_sigmoid_has_no_other_spelling(tmp_path):
    path = save(tmp_path / "m.onnx", 0.0)
    model = onnx.load(path)
    model.graph.node[1].op_type = "Relu"
    onnx.save(model, path)
    assert respelled(path, [sigmoids]) is None


def half_model(path, middle):
    """float16 inside, computed by onnxruntime with every result rounded, and floats after it."""
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.standard_normal((5, 64, 3, 3)).astype(np.float16), "w")
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Conv", ["h", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        *middle,
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [4, 64, 8, 8]), ("y", None))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def test_narrow_floats_inside_are_no_fault(tmp_path):
    softmax = [helper.make_node("Softmax", ["f"], ["y"], axis=1)]
    done = straightway.convert(half_model(tmp_path / "m.onnx", softmax))
    assert done.verification is not None
    assert done.verification.equal
    assert "float16 and bfloat16 in float32" in done.verification.note


def test_a_wrong_file_of_narrow_floats_stays_wrong(tmp_path):
    from straightway.lower.declare import LOWERINGS

    lowering = LOWERINGS["onnx", "Sigmoid"]
    object.__setattr__(lowering, "function", lambda g, x, **_: g.LOGISTIC(g.MUL(x, 1.05)))
    sigmoid = [helper.make_node("Sigmoid", ["f"], ["y"])]
    with pytest.raises(straightway.Mismatch):
        straightway.convert(half_model(tmp_path / "m.onnx", sigmoid))


NUMBERS = np.array(
    [np.nan, np.inf, -np.inf, 300, -300, -1.5, 127.9, 255.7, 1e5, -1e5, 3e9, -3e9, 1e19, -1e19],
    np.float32,
)


@pytest.mark.parametrize("name", ["INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64"])
def test_what_a_type_does_not_hold_is_the_nearest(name, tmp_path):
    kind = TensorProto.DataType.Value(name)
    nodes = [
        helper.make_node("Cast", ["x"], ["z"], to=kind),
        helper.make_node("Identity", ["z"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, NUMBERS.shape),
        helper.make_tensor_value_info("y", kind, NUMBERS.shape),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=NUMBERS)
    done = straightway.convert(tmp_path / "m.onnx", inputs=tmp_path / "x.npz")
    assert done.verification is not None
    assert "ONNX leaves that undefined" in done.verification.note
    limits = np.iinfo(done.verification.ran.outputs[0].dtype)
    assert done.verification.ran.outputs[0][:3].tolist() == [limits.max, limits.max, limits.min]


def one_node(path, op, kind, shape, opset=22, **attrs):
    ends = [helper.make_tensor_value_info(n, kind, s) for n, s in (("x", shape), ("y", None))]
    nodes = [helper.make_node(op, ["x"], ["y"], **attrs)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


@pytest.mark.parametrize(
    ("op", "kind", "attrs"),
    [
        ("Det", TensorProto.BFLOAT16, {}),
        ("LRN", TensorProto.DOUBLE, {"size": 3}),
        ("LRN", TensorProto.BFLOAT16, {"size": 3}),
    ],
)
def test_floats_without_a_kernel_are_compared_in_float32(op, kind, attrs, tmp_path):
    shape = [2, 3, 3] if op == "Det" else [1, 4, 5, 5]
    done = straightway.convert(one_node(tmp_path / "m.onnx", op, kind, shape, **attrs))
    assert done.verification is not None
    assert done.verification.equal
    if op == "LRN":
        assert "computing other floats in float32" in done.verification.note


def test_dilation_with_same_padding_is_compared_with_the_evaluator(tmp_path):
    rng = np.random.default_rng(0)
    weights = numpy_helper.from_array(rng.standard_normal((2, 3, 3, 3)).astype(np.float32), "w")
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [1, 3, 9, 8]), ("y", [1, 2, 9, 8]))
    ]
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", dilations=[2, 3])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    done = straightway.convert(tmp_path / "m.onnx")
    assert done.verification is not None
    assert "reference evaluator" in done.verification.note


@pytest.mark.parametrize(
    "attrs", [{"clip": 0.5}, {"activations": ["LeakyRelu"], "activation_alpha": [0.2]}]
)
def test_a_batch_that_comes_first_is_no_fault(attrs, tmp_path):
    rng = np.random.default_rng(0)
    constants = [
        numpy_helper.from_array(rng.standard_normal((1, 3, size)).astype(np.float32), name)
        for name, size in (("w", 5), ("r", 3))
    ]
    nodes = [helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=3, layout=1, **attrs)]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("x", [2, 4, 5]), ("y", None))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    done = straightway.convert(tmp_path / "m.onnx")
    assert done.verification is not None
    assert done.verification.equal


@pytest.mark.parametrize(
    ("op", "count", "periodic"),
    [("HannWindow", 1, 0), ("BlackmanWindow", 1, 1), ("BlackmanWindow", 2, 0)],
)
@pytest.mark.parametrize("is_constant", [True, False])
def test_windows_that_hold_no_more_than_rounding_are_no_fault(
    op, count, periodic, is_constant, tmp_path
):
    nodes = [helper.make_node(op, ["n"], ["y"], periodic=periodic)]
    size = numpy_helper.from_array(np.array(count), "n")
    inputs = [helper.make_tensor_value_info("n", TensorProto.INT64, [])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [count])]
    if is_constant:
        nodes.append(helper.make_node("Add", ["x", "y"], ["z"]))
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [count])]
        outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [count]))
    constants = [size] if is_constant else []
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    done = straightway.convert(tmp_path / "m.onnx")
    assert done.verification is not None
    assert done.verification.equal
    cancels = op == "BlackmanWindow" and count == 1 + (not periodic)
    assert ("in float64" in done.verification.note) == cancels


def test_a_wrong_window_stays_wrong(tmp_path, monkeypatch):
    from straightway.lower import ranges

    monkeypatch.setitem(ranges.COSINES, "BlackmanWindow", (0.42, -0.5, 0.0801))
    nodes = [helper.make_node("BlackmanWindow", ["n"], ["y"])]
    ends = [
        helper.make_tensor_value_info("n", TensorProto.INT64, []),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1]),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(straightway.Mismatch):
        straightway.convert(tmp_path / "m.onnx")


@pytest.mark.parametrize("op", ["LpPool", "MaxPool", "AveragePool"])
def test_the_evaluator_miscounts_dilated_windows_without_padding(op, tmp_path):
    attrs = {"kernel_shape": [2, 2], "dilations": [1, 2], "auto_pad": "VALID"}
    path = one_node(tmp_path / "m.onnx", op, TensorProto.DOUBLE, [2, 3, 7, 9], opset=21, **attrs)
    done = straightway.convert(path)
    assert done.verification is not None
    assert done.verification.equal
    assert done.verification.outputs[0].shape == (2, 3, 7 - 1, 9 - 2)


@pytest.mark.parametrize(("auto_pad", "begins"), [("SAME_UPPER", 1), ("SAME_LOWER", 2)])
def test_convolutions_padded_to_the_same_size_are_compared_beside_dilations(
    auto_pad, begins, tmp_path
):
    """As PyTorch's padding="same" is exported, which onnxruntime refuses; the odd row is on one side."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((4, 3, 2, 3)).astype(np.float32)
    after = rng.standard_normal((4, 2, 3, 3)).astype(np.float32)
    attrs = {"kernel_shape": [2, 3], "dilations": [3, 2]}
    graphs = [
        helper.make_graph(
            [
                helper.make_node("Conv", ["x", "w"], ["same"], **attrs, **pads),
                # which ONNX's evaluator does not run in groups with dilations
                helper.make_node("ConvTranspose", ["same", "v"], ["y"], group=2, dilations=[2, 2]),
            ],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 9])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 12, 13])],
            [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(after, "v")],
        )
        for pads in ({"auto_pad": auto_pad}, {"pads": [begins, 2, 3 - begins, 2]})
    ]
    for name, graph in zip(("m.onnx", "plain.onnx"), graphs, strict=True):
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / name)
    done = straightway.convert(tmp_path / "m.onnx", tmp_path / "m.tflite")
    assert done.verification is not None
    assert "with pads for auto_pad SAME" in done.verification.note
    assert straightway.verify(tmp_path / "plain.onnx", tmp_path / "m.tflite").equal


def test_powers_that_are_no_number_are_the_nearest(tmp_path):
    bases = numpy_helper.from_array(np.array([[-1, 0, 3]]), "b")
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 1]),
        helper.make_tensor_value_info("y", TensorProto.INT64, [3, 3]),
    ]
    nodes = [helper.make_node("Pow", ["b", "x"], ["y"])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [bases])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    done = straightway.convert(tmp_path / "m.onnx")
    assert done.verification is not None
    assert "ONNX leaves that undefined" in done.verification.note
    assert any("24 bits" in remark.text for remark in done.remarks)


@pytest.mark.parametrize("exponent", [np.int32, np.int64])
def test_powers_of_zero_below_zero_are_undefined(tmp_path, exponent):
    bases = numpy_helper.from_array(np.array([[0, -1, 2]]), "b")
    powers = numpy_helper.from_array(np.array([[-(2**31)], [-1], [3]], exponent), "p")
    y = helper.make_tensor_value_info("y", TensorProto.INT64, [3, 3])
    graph = helper.make_graph(
        [helper.make_node("Pow", ["b", "p"], ["y"])], "g", [], [y], [bases, powers]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    found = straightway.convert(tmp_path / "m.onnx").verification
    assert found.equal
    assert "ONNX leaves that undefined" in found.note
