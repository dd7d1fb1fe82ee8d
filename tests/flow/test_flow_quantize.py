"""Float models in TFLite's 8-bit scheme: by the published specification, near the float model."""

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import straightway
from straightway.errors import InvalidRequest
from straightway.flow.candidate import describe
from straightway.flow.convert import Request, convert
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest
from straightway.run import litert, ort
from straightway.run.process import Child

RNG = np.random.default_rng(3)


class Net:
    """Builds a float model, node by node."""

    def __init__(self, **inputs):
        self.nodes, self.constants = [], []
        self.inputs = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in inputs.items()
        ]

    def const(self, array, dtype=np.float32):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def __getattr__(self, op):
        def add(*inputs, **attrs):
            name = f"{op.lower()}{len(self.nodes)}"
            self.nodes.append(helper.make_node(op, inputs, [name], name=f"n_{name}", **attrs))
            return name

        return add

    def weights(self, *shape, scale=1.0):
        spread = scale * np.exp(RNG.normal(0, 1, (shape[0], *[1] * (len(shape) - 1))))
        return self.const(RNG.normal(0, 1, shape) * spread / np.sqrt(np.prod(shape[1:])))

    def save(self, path, *outputs, opset=17):
        infos = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
        graph = helper.make_graph(self.nodes, "g", self.inputs, infos, self.constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8
        )
        onnx.save(onnx.shape_inference.infer_shapes(model), path)
        return path


def residual(path):
    n = Net(x=(1, 3, 16, 12))
    bias = n.const(np.linspace(-1, 1, 8))
    a = n.Relu(n.Conv("x", n.weights(8, 3, 3, 3), bias, pads=[1, 1, 1, 1]))
    b = n.Conv(a, n.weights(8, 1, 3, 3), bias, pads=[1, 1, 1, 1], group=8)
    c = n.Add(a, n.Mul(b, n.Sigmoid(b)))
    d = n.MaxPool(c, kernel_shape=[2, 2], strides=[2, 2])
    e = n.AveragePool(c, kernel_shape=[2, 2], strides=[2, 2])
    f = n.Concat(d, e, axis=1)
    g = n.Flatten(n.GlobalAveragePool(f))
    h = n.Gemm(g, n.weights(5, 16), n.const(np.arange(5) / 5), transB=1)
    return n.save(path, n.Softmax(h, axis=1), h)


def decoder(path):
    n = Net(x=(1, 6, 5, 7), y=(1, 4, 10, 14))
    a = n.LeakyRelu(n.Conv("x", n.weights(6, 6, 1, 1)), alpha=0.1)
    up = n.ConvTranspose(a, n.weights(6, 4, 2, 2), strides=[2, 2])
    both = n.Add(n.Tanh(up), "y")
    wide = n.Resize(both, "", n.const([1, 1, 2, 2]), mode="nearest")
    shuffled = n.DepthToSpace(n.Conv(wide, n.weights(8, 4, 3, 3)), blocksize=2)
    return n.save(path, n.Transpose(shuffled, perm=[0, 2, 3, 1]))


def attention(path):
    n = Net(x=(2, 9, 16))
    q, k, v = (n.MatMul("x", n.weights(16, 16)) for _ in range(3))
    scores = n.MatMul(q, n.Transpose(k, perm=[0, 2, 1]))
    mixed = n.MatMul(n.Softmax(n.Mul(scores, n.const(0.25)), axis=-1), v)
    h = n.Add("x", n.Add(n.MatMul(mixed, n.weights(16, 16)), n.const(RNG.normal(0, 1, 16))))
    return n.save(path, n.ReduceMean(n.Clip(h, n.const(-2.0), n.const(2.5)), axes=[1], keepdims=0))


def pyramid(path):
    n = Net(x=(1, 3, 16, 12))
    fine = n.Relu(n.Conv("x", n.weights(8, 3, 3, 3), pads=[1, 1, 1, 1]))
    coarse = n.Relu(n.Conv(fine, n.weights(8, 8, 2, 2), strides=[2, 2]))
    wide = n.Resize(coarse, "", n.const([1, 1, 2, 2]), mode="linear")
    joined = n.Concat(fine, wide, axis=1)
    return n.save(path, n.Conv(joined, n.weights(2, 16, 1, 1)))


NETS = {"residual": residual, "decoder": decoder, "attention": attention, "pyramid": pyramid}


@pytest.fixture(scope="module")
def child():
    with Child(engines=["litert", "onnxruntime"]) as own:
        yield own


def data(path, count=8):
    """A folder of samples."""
    model = onnx.load(path)
    folder = path.parent / "data"
    folder.mkdir(exist_ok=True)
    for k in range(count):
        arrays = {
            i.name: RNG.normal(0, 1, [d.dim_value for d in i.type.tensor_type.shape.dim])
            for i in model.graph.input
        }
        np.savez(folder / f"{k}.npz", **{n: a.astype(np.float32) for n, a in arrays.items()})
    return folder


@pytest.fixture(scope="module", params=NETS)
def done(request, tmp_path_factory, child):
    folder = tmp_path_factory.mktemp(request.param)
    path = NETS[request.param](folder / "float.onnx")
    found = quantize(path, folder / "int8.onnx", QuantizeRequest(calibration=data(path)))
    return found, convert(folder / "int8.onnx", request=Request(seeds=(0,)), child=child)


def test_it_is_near_the_float_model(done):
    for row in done[0].accuracy.outputs:
        assert row.sqnr_db > 20, row


def test_it_becomes_one_graph_of_integers(done):
    graph = done[1].translation.layout.graph
    names = [node.op.name for node in graph.nodes]
    assert names.count("QUANTIZE") == len(graph.inputs)
    assert names.count("DEQUANTIZE") == len(graph.outputs)
    inside = [n for n in graph.nodes if n.op.name not in ("QUANTIZE", "DEQUANTIZE", "RESHAPE")]
    floats = [n for n in inside for v in (*n.operands(), *n.outputs) if v.dtype == np.float32]
    assert not floats


FIXED = {"SOFTMAX": (1 / 256, -128), "LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
SAME = {"MAX_POOL_2D", "CONCATENATION", "RESHAPE", "TRANSPOSE", "DEPTH_TO_SPACE", "SLICE"}


def read(value):
    return np.ravel(value.quant.scale)[0], int(np.ravel(value.quant.zero_point)[0])


def test_it_follows_the_specification(done):
    """tensorflow.org/lite/performance/quantization_spec, op by op."""
    for node in done[1].translation.layout.graph.nodes:
        real = [v for v in node.operands() if v.quant is not None]
        if node.op.name in FIXED:
            assert read(node.output) == FIXED[node.op.name]
        if node.op.name in SAME and node.output.dtype == np.int8:
            assert {read(v) for v in (*real, *node.outputs)} == {read(node.output)}
        for value in real:
            if value.const is not None and value.dtype == np.int8 and node.op.name != "MUL":
                if node.op.name in ("MAXIMUM", "MINIMUM"):
                    continue
                assert not np.any(value.quant.zero_point)
                assert value.const.min() >= -127
            if value.dtype == np.int32:
                x, weights = (v for v in real if v.dtype == np.int8)
                x, weights = (weights, x) if x.const is not None else (x, weights)
                product = np.float32(read(x)[0]) * weights.quant.scale
                np.testing.assert_allclose(value.quant.scale, product, 1e-6)


def test_tiny_weights_keep_their_bias(tmp_path, child):
    n = Net(x=(1, 4, 8, 8))
    weights = RNG.normal(0, 0.3, (6, 4, 3, 3))
    weights[1] *= 1e-9
    weights[2] = 0
    bias = np.array([0.1, 3.0, -2.5, 0.2, 0.3, -0.1])
    path = n.save(tmp_path / "m.onnx", n.Conv("x", n.const(weights), n.const(bias)))
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    assert found.accuracy.outputs[0].sqnr_db > 30
    assert {1} == {r.numbers.get("channels") for r in found.remarks if r.op == "CONV_2D"}
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,)))
    file = tmp_path / "m.tflite"
    file.write_bytes(made.data)
    (output,) = child.call(litert.run(file, [np.zeros((1, 4, 8, 8), np.float32)])).outputs
    np.testing.assert_allclose(output[0, 1:3, 3, 3], [3.0, -2.5], atol=0.05)


@pytest.mark.parametrize("is_added", [True, False])
def test_wide_biases_leave_their_weights_alone(is_added, tmp_path, child):
    """Beside int16 a bias is int64: weights a thousandth of it keep their scales, and their bits."""
    n = Net(x=(1, 64))
    weights = RNG.normal(0, 0.005, (64, 12))
    bias = RNG.choice([-1, 1], 12) * RNG.uniform(15, 20, 12)
    product = [n.MatMul("x", n.const(weights))] if is_added else ["x", n.const(weights)]
    result = n.Add(*product, n.const(bias)) if is_added else n.Gemm(*product, n.const(bias))
    path = n.save(tmp_path / "m.onnx", result)
    request = QuantizeRequest(random=4, activations="int16", target="tflite-micro")
    found = quantize(path, tmp_path / "q.onnx", request)
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0, 1)))
    assert not [r.text for r in (*found.remarks, *made.remarks) if "raised" in r.text]
    (op,) = [o for o in made.translation.layout.graph.nodes if o.op.name == "FULLY_CONNECTED"]
    stored = op.operands()[2]
    assert stored.dtype == np.int64
    assert np.abs(stored.const).max() > 2**31
    np.testing.assert_allclose(stored.const * stored.quant.scale, bias, atol=1e-2)


def test_stray_values_cost_less_by_other_methods(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "RNG", np.random.default_rng(5))
    n = Net(x=(1, 16))
    hidden = n.Relu(n.Gemm("x", n.weights(24, 16), n.const(np.zeros(24)), transB=1))
    y = n.Gemm(hidden, n.weights(4, 24), n.const(np.zeros(4)), transB=1)
    path = n.save(tmp_path / "m.onnx", y)
    samples = RNG.uniform(-1, 1, (256, 16)).astype(np.float32)
    stray = samples.copy()
    stray[200, 3], stray[201, 5] = 250, -90
    np.savez(tmp_path / "stray.npz", x=stray)
    sqnr = {
        method: quantize(
            path,
            None,
            QuantizeRequest(calibration=tmp_path / "stray.npz", method=method, percentile=99.0),
        )
        .accuracy.outputs[0]
        .sqnr_db
        for method in ("minmax", "percentile")
    }
    assert sqnr["minmax"] < 20
    assert sqnr["percentile"] > sqnr["minmax"] + 10
    assert any(
        "reaches from" in r.text
        for r in quantize(path, None, QuantizeRequest(calibration=tmp_path / "stray.npz")).remarks
    )


def test_nodes_stay_in_floats_on_request(tmp_path, child):
    path = residual(tmp_path / "m.onnx")
    name = next(n.name for n in onnx.load(path).graph.node if n.op_type == "Gemm")
    quantize(path, tmp_path / "q.onnx", QuantizeRequest(random=4, keep_float=[name]))
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,)))
    (product,) = [n for n in made.translation.layout.graph.nodes if n.op.name == "FULLY_CONNECTED"]
    assert product.output.dtype == np.float32


BETWEEN = {
    "LOGISTIC": lambda n, x: n.Sigmoid(x),
    "SOFTMAX": lambda n, x: n.Softmax(x, axis=1),
    "ADD": lambda n, x: n.Add(x, n.Tanh(x)),
    "AVERAGE_POOL_2D": lambda n, x: n.AveragePool(x, kernel_shape=[2, 2]),
    "MAX_POOL_2D": lambda n, x: n.MaxPool(x, kernel_shape=[2, 2]),
}


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("op", BETWEEN)
def test_nodes_between_integers_stay_in_floats_on_request(op, is_open, tmp_path, child):
    """Roundings on both sides mean integers, unless the model says that it keeps the node in floats."""
    n = Net(x=("batch" if is_open else 1, 8, 8, 8))
    kept = BETWEEN[op](n, n.Conv("x", n.weights(12, 8, 3, 3)))
    path = n.save(tmp_path / "m.onnx", n.Conv(kept, n.weights(8, 12, 3, 3)))
    options = {"random": 4, "target": "tflite-micro", "method": "minmax", "fit": False}
    asked = QuantizeRequest(keep_float=[f"n_{kept}"], **options)
    found = quantize(path, tmp_path / "q.onnx", asked)
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,)))
    nodes = made.translation.layout.graph.nodes
    dtypes = {node.op.name: node.output.dtype.name for node in nodes}
    assert dtypes["CONV_2D"] == "int8"
    assert {dtypes[op], dtypes["DEQUANTIZE"]} == {"float32"}
    assert list(found.floats) == [f"n_{kept}"]
    assert [b.value for b in made.borders] == [b.value for b in found.borders]
    quantize(path, tmp_path / "q.onnx", QuantizeRequest(**options))
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,)))
    assert "DEQUANTIZE" not in {node.op.name for node in made.translation.layout.graph.nodes}


def test_what_only_moves_has_the_type_of_what_is_beside_it(tmp_path, child):
    n = Net(x=(1, 8, 8, 8))
    moved = n.Transpose(n.Conv("x", n.weights(8, 8, 3, 3)), perm=[0, 1, 3, 2])
    path = n.save(tmp_path / "m.onnx", n.Conv(moved, n.weights(8, 8, 3, 3)))
    asked = QuantizeRequest(random=4, target="tflite-micro", keep_float=[f"n_{moved}"])
    found = quantize(path, tmp_path / "q.onnx", asked)
    assert not found.floats
    assert [r.node for r in found.remarks if "only orders elements" in r.text] == [f"n_{moved}"]
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,)))
    assert not [b for b in made.borders if "the model's" not in b.cause]


def test_scores_beside_boxes_do_not_become_zero(tmp_path, child):
    """As a detector ends: one tensor of pixels to 300 and of scores to 1."""
    n = Net(x=(1, 3, 8, 8))
    boxes = n.Relu(n.Conv("x", n.weights(4, 3, 1, 1, scale=120.0)))
    scores = n.Sigmoid(n.Conv("x", n.weights(5, 3, 1, 1)))
    path = n.save(tmp_path / "m.onnx", n.Concat(boxes, scores, axis=1))
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    assert any("less than two bits" in remark.text for remark in found.remarks)
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,)))
    (tmp_path / "q.tflite").write_bytes(made.data)
    x = RNG.normal(0, 1, (1, 3, 8, 8)).astype(np.float32)
    (got,) = child.call(litert.run(tmp_path / "q.tflite", [x])).outputs
    (want,) = child.call(ort.run(path, {"x": x})).values()
    np.testing.assert_allclose(got[:, 4:], want[:, 4:], atol=0.05)


def test_channels_of_unlike_ranges_are_brought_together(tmp_path):
    n = Net(x=(1, 4, 9, 9))
    spread = n.const(RNG.normal(0, 1, (8, 4, 1, 1)) * np.logspace(-2, 0, 8)[:, None, None, None])
    a = n.Relu(n.Conv("x", spread))
    even = n.const(RNG.normal(0, 1, (8, 1, 3, 3)) / np.logspace(-2, 0, 8)[:, None, None, None])
    path = n.save(tmp_path / "m.onnx", n.Conv(a, even, group=8))
    folder = data(path)
    plain, better = (
        quantize(path, None, QuantizeRequest(calibration=folder, equalize=on))
        for on in (False, True)
    )
    gain = better.accuracy.outputs[0].sqnr_db - plain.accuracy.outputs[0].sqnr_db
    assert gain > 6
    assert any("like ranges" in remark.text for remark in better.remarks)


def test_what_an_activation_cuts_off_needs_no_bits(tmp_path):
    n = Net(x=(1, 3, 8, 8))
    wide = n.Conv("x", n.weights(4, 3, 1, 1, scale=20.0), n.const([-60.0] * 4))
    path = n.save(tmp_path / "m.onnx", n.HardSwish(wide))
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    lows = [
        (-128 - int(numpy_helper.to_array(zero))) * float(numpy_helper.to_array(scale))
        for scale, zero in _schemes(tmp_path / "q.onnx")
    ]
    assert found.accuracy.outputs[0].sqnr_db > 25
    assert min(lows) > -10


@pytest.mark.parametrize("op", ["Sigmoid", "Tanh", "Elu", "Silu"])
def test_what_comes_near_a_limit_needs_no_bits(tmp_path, op):
    n = Net(x=(1, 3, 8, 8))
    wide = n.Conv("x", n.weights(4, 3, 1, 1, scale=100.0), n.const([-300.0, -100, 1, 2]))
    y = n.Mul(wide, n.Sigmoid(wide)) if op == "Silu" else getattr(n, op)(wide)
    path = n.save(tmp_path / "m.onnx", y)
    asked = QuantizeRequest(calibration=data(path), method="minmax", fit=False)
    quantize(path, tmp_path / "q.onnx", asked)
    lows = [
        (-128 - int(numpy_helper.to_array(zero))) * float(numpy_helper.to_array(scale))
        for scale, zero in _schemes(tmp_path / "q.onnx")
    ]
    assert min(lows) > -12


def _schemes(path):
    """Scales and zero points of QuantizeLinear nodes."""
    graph = onnx.load(path).graph
    constants = {t.name: t for t in graph.initializer}
    return [
        tuple(constants[i] for i in node.input[1:])
        for node in graph.node
        if node.op_type == "QuantizeLinear"
    ]


def test_roots_and_what_they_scale_stay_in_floats(tmp_path, child):
    n = Net(x=(2, 6, 16))
    mean = n.ReduceMean("x", axes=[-1])
    apart = n.Sub("x", mean)
    variance = n.Add(n.ReduceMean(n.Mul(apart, apart), axes=[-1]), n.const(1e-3))
    y = n.Add(
        n.Mul(n.Div(apart, n.Sqrt(variance)), n.const(RNG.normal(1, 0.1, 16))), n.const([0.1] * 16)
    )
    path = n.save(tmp_path / "m.onnx", n.MatMul(y, n.weights(16, 8)))
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    assert found.accuracy.outputs[0].sqnr_db > 25
    assert convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,))).verification.equal


def test_random_data_are_branded(tmp_path):
    path = residual(tmp_path / "m.onnx")
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(random=2))
    assert found.is_random
    notes = {p.key: p.value for p in onnx.load(tmp_path / "q.onnx").metadata_props}
    assert "random" in notes["straightway.random"]


@pytest.mark.parametrize("number", [0.0, 0.5])
def test_constant_data_are_told(tmp_path, number):
    path = residual(tmp_path / "m.onnx")
    np.savez(tmp_path / "same.npz", x=np.full((3, 3, 16, 12), number, np.float32))
    found = quantize(path, None, QuantizeRequest(calibration=tmp_path / "same.npz"))
    assert found.is_constant
    assert not quantize(path, None, QuantizeRequest(calibration=data(path))).is_constant


def test_missing_data_and_unknown_nodes_are_refused(tmp_path):
    path = residual(tmp_path / "m.onnx")
    with pytest.raises(InvalidRequest, match="Give 100 to 500"):
        quantize(path, tmp_path / "q.onnx")
    with pytest.raises(InvalidRequest, match="--random makes up inputs"):
        quantize(path, None, QuantizeRequest(random=2, calibration=data(path)))
    with pytest.raises(InvalidRequest, match="no node of this name"):
        quantize(path, tmp_path / "q.onnx", QuantizeRequest(random=2, keep_float=["nobody"]))
    with pytest.raises(InvalidRequest, match="methods are"):
        quantize(path, tmp_path / "q.onnx", QuantizeRequest(random=2, method="guess"))
    assert not (tmp_path / "q.onnx").exists()


def test_deploying_in_eight_bits_writes_both_files_and_says_what_they_cost(tmp_path):
    path = residual(tmp_path / "net.onnx")
    out = tmp_path / "out"
    made = straightway.deploy(
        path, out, seeds=[0], int8={"calibration": data(path), "sensitivity": 1}
    )
    assert sorted(p.name for p in out.iterdir()) == [
        "net.int8.onnx", "net.int8.tflite", "report.html", "report.json", "trace.json",
    ]  # fmt: skip
    assert any("dB signal to error" in note for note in made.view.notes)
    assert made.quantization.accuracy.samples == 8
    least = min(row.sqnr_db for row in made.quantization.accuracy.outputs)
    shown = made.view.accuracy
    assert sum(one.share for one in shown.inside) + sum(shown.inputs.values()) == pytest.approx(1)
    assert [b.op for b in shown.borders].count("QUANTIZE") == 1
    assert all(one.channels for one in shown.outputs)
    assert sum(shown.inside[0].before) == sum(shown.inside[0].after) > 0
    assert made.view.verdict.accuracy.startswith(f"{least:.1f} dB signal to error")
    assert made.conversion.verification.equal


@pytest.mark.parametrize("kept", [(), ("embedding",)])
def test_an_embedding_stays_in_floats_only_where_it_does(tmp_path, kept):
    rng = np.random.default_rng(3)
    table, weights = (rng.standard_normal(s).astype(np.float32) for s in ((50, 16), (16, 4)))
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["rows"], name="embedding"),
            helper.make_node("MatMul", ["rows", "weights"], ["y"], name="head"),
        ],
        "tagger",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 4])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(weights, "weights")],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), tmp_path / "m.onnx")
    ids = rng.integers(0, 50, (8, 1, 6))
    asked = QuantizeRequest(
        calibration=lambda: ({"ids": one} for one in ids),
        keep_float=kept,
        target="tflite-micro",
    )
    found = quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", asked)
    told = [remark for remark in found.remarks if "stays as it is" in remark.text]
    assert [remark.node for remark in told] == list(kept)
    made = convert(tmp_path / "q.onnx", request=Request(seeds=(0,)))
    (tmp_path / "q.tflite").write_bytes(made.data)
    looked_up = [n for n in describe(tmp_path / "q.tflite").main.operators if n.kind == "GATHER"]
    assert len(looked_up) == 1
