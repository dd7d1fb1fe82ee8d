"""Files for devices: scales, types of activations, integers in and out, spellings, on their engines."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_flow_mixed import uneven
from test_flow_quantize import RNG, Net, attention, data, decoder, residual

import straightway
from straightway.errors import InvalidRequest, ToolFailed, Unsupported
from straightway.flow.candidate import describe
from straightway.flow.convert import Request, convert
from straightway.flow.pair import verify_pair
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest
from straightway.flow.translate import form_for, translate
from straightway.ingest.onnx import ingest_proto
from straightway.lower.declare import LOWERINGS
from straightway.lower.samples import single
from straightway.quant.scheme import scheme_of
from straightway.run import litert, micro, ort, vela
from straightway.run.process import Child
from straightway.targets.known import find

NETS = {"residual": residual, "decoder": decoder, "attention": attention}
WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")


def made(folder, net, target, **options):
    """Quantize and convert for a target; the conversion, and the file."""
    path = NETS[net](folder / "float.onnx")
    asked = QuantizeRequest(calibration=data(path, 4), target=target, **options)
    quantize(path, folder / "q.onnx", asked)
    request = Request(target=target, seeds=(0, 1))
    return convert(folder / "q.onnx", folder / "q.tflite", request=request), folder / "q.tflite"


def ends(conversion):
    graph = conversion.translation.layout.graph
    return [value.dtype.name for value in (*graph.inputs, *graph.outputs)]


def names(conversion):
    return [node.op.name for node in conversion.translation.layout.graph.nodes]


def scale_counts(conversion):
    graph = conversion.translation.layout.graph
    return {n.op.name: n.inputs[1].quant.scale.size for n in graph.nodes if n.op.name in WEIGHTED}


def integers(conversion, seed=0):
    rng = np.random.default_rng(seed)
    inputs = conversion.translation.layout.graph.inputs
    return [rng.integers(-100, 100, v.shape).astype(v.dtype) for v in inputs]


@pytest.mark.parametrize("net", ["residual", "attention"])
@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_vela_takes_files_for_ethos_u_whole(tmp_path, net, target):
    conversion, file = made(tmp_path, net, target)
    assert set(ends(conversion)) == {"int8"}
    assert not {"QUANTIZE", "DEQUANTIZE"} & set(names(conversion))
    assert vela.compile_for(file, target).whole


def test_repeated_pixels_are_one_op_where_there_is_no_delegate(tmp_path):
    conversion, file = made(tmp_path, "decoder", "ethos-u55-128")
    assert "RESIZE_NEAREST_NEIGHBOR" in names(conversion)
    graph = conversion.translation.layout.graph
    assert max(v.rank for v in graph.values()) <= 4
    left = {one.op for one in vela.compile_for(file).refused}
    assert left == {"DEPTH_TO_SPACE"}
    other = convert(tmp_path / "q.onnx", request=Request(seeds=(0,), target="litert"))
    assert "RESIZE_NEAREST_NEIGHBOR" not in names(other)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("activations", ["int8", "int16"])
def test_micro_runs_what_is_made_for_it(tmp_path, child, net, activations):
    conversion, file = made(tmp_path, net, "tflite-micro", activations=activations)
    assert activations in ends(conversion)
    feeds = integers(conversion)
    got = child.call(micro.run(file, feeds))
    want = child.call(litert.run(file, feeds, delegate=False)).outputs
    for one, other in zip(got, want, strict=True):
        agree(one, other)


def test_sixteen_bits_lose_less_than_eight(tmp_path):
    path = attention(tmp_path / "m.onnx")
    folder = data(path)
    eight, sixteen = (
        quantize(path, None, QuantizeRequest(calibration=folder, activations=kind)).accuracy
        for kind in ("int8", "int16")
    )
    # what is left is due to the weights, which have eight bits in either
    assert sixteen.outputs[0].sqnr_db > eight.outputs[0].sqnr_db + 3


def test_older_micro_has_one_scale_for_a_matrix(tmp_path):
    conversion, _ = made(tmp_path, "residual", "tflite-micro-2024")
    found = scale_counts(conversion)
    assert found["FULLY_CONNECTED"] == 1
    assert found["CONV_2D"] == 8


def test_neutron_has_one_scale_for_all_weights(tmp_path):
    conversion, _ = made(tmp_path, "residual", "neutron-n3-64")
    assert set(scale_counts(conversion).values()) == {1}


def sixteen(conversion):
    """The ops whose result is int16, by the name of the model's node."""
    graph = conversion.translation.layout.graph
    return {n.name: n.op.name for n in graph.nodes if n.output.dtype == np.int16}


def agree(one, other):
    """Kernels may be off by one, which later ones carry on."""
    assert one.dtype == other.dtype
    apart = one.astype(np.float64) - other
    assert np.sqrt((apart**2).mean()) <= max(1, np.ptp(other.astype(np.float64)) / 64)


@pytest.mark.parametrize("target", ["tflite-micro", "litert"])
@pytest.mark.parametrize(
    ("net", "nodes"),
    [
        ("residual", ["n_conv2"]),
        ("residual", ["n_conv0", "n_sigmoid3"]),
        ("residual", ["n_concat8", "n_softmax12"]),
        ("decoder", ["n_conv0"]),
        ("attention", ["n_softmax4"]),
    ],
)
def test_single_nodes_compute_with_sixteen_bits(tmp_path, child, net, nodes, target):
    path = NETS[net](tmp_path / "float.onnx")
    known = [n.name for n in onnx.load(path).graph.node]
    nodes = [
        next(one for one in known if one.startswith(name.rstrip("0123456789"))) for name in nodes
    ]
    asked = QuantizeRequest(calibration=data(path, 4), target=target, int16=nodes)
    found = quantize(path, tmp_path / "q.onnx", asked)
    request = Request(target=target, seeds=(0, 1))
    conversion = convert(tmp_path / "q.onnx", tmp_path / "q.tflite", request=request)
    assert conversion.verification.equal
    assert set(nodes) <= set(found.wide) < set(known)
    kinds = {n.output.dtype.name for n in conversion.translation.layout.graph.nodes}
    assert {"int8", "int16"} <= kinds
    listed = {b.operator: b.op for b in found.borders}
    ops = describe(tmp_path / "q.tflite").main.operators
    assert listed == {
        k: op.kind for k, op in enumerate(ops) if op.kind in ("QUANTIZE", "DEQUANTIZE")
    }
    assert all(
        "computes with int16" in b.cause or "int8" in b.cause or "model's" in b.cause
        for b in found.borders
    )
    graph = conversion.translation.layout.graph
    feeds = [np.random.default_rng(0).normal(0, 1, v.shape).astype(v.dtype) for v in graph.inputs]
    feeds = [x if x.dtype == np.float32 else integers(conversion)[k] for k, x in enumerate(feeds)]
    got = child.call(micro.run(tmp_path / "q.tflite", feeds))
    want = child.call(litert.run(tmp_path / "q.tflite", feeds, delegate=False)).outputs
    for one, other in zip(got, want, strict=True):
        agree(one, other)


def test_a_budget_chooses_sixteen_bits_where_there_are_fast_kernels(tmp_path):
    path = uneven(tmp_path / "m.onnx")
    folder = data(path)
    plain = quantize(path, None, QuantizeRequest(calibration=folder, target="ethos-u55-128"))
    allowed = 0.8 * plain.accuracy.loss
    for target in ("ethos-u55-128", "tflite-micro", "litert"):
        asked = QuantizeRequest(calibration=folder, target=target, max_loss=allowed)
        found = quantize(path, tmp_path / "q.onnx", asked)
        assert found.accuracy.loss <= allowed
        assert bool(found.wide) == (target != "litert")
        told = any("XNNPACK's delegate takes no int16" in r.text for r in found.remarks)
        assert told == (target == "litert") == bool(found.floats)
        conversion = convert(
            tmp_path / "q.onnx", tmp_path / "q.tflite", request=Request(target=target, seeds=(0,))
        )
        assert conversion.verification.equal
        if target == "ethos-u55-128":
            assert sixteen(conversion)
            assert vela.compile_for(tmp_path / "q.tflite", target).whole


def test_sixteen_bits_are_refused_where_there_are_none(tmp_path):
    path = residual(tmp_path / "m.onnx")
    name = onnx.load(path).graph.node[0].name
    with pytest.raises(InvalidRequest, match="neutron-n3-64 computes with int8; got int16"):
        QuantizeRequest(random=1, target="neutron-n3-64", int16=[name])
    with pytest.raises(InvalidRequest, match="int16 or in floats; got both"):
        QuantizeRequest(random=1, int16=[name], keep_float=[name])
    with pytest.raises(InvalidRequest, match="--int16 nobody: the model has no node"):
        quantize(path, None, QuantizeRequest(random=1, int16=["nobody"]))
    n = Net(x=(1, 4))
    gelu = n.save(tmp_path / "g.onnx", n.Elu(n.Add("x", n.const(np.ones(4)))))
    last = onnx.load(gelu).graph.node[-1].name
    with pytest.raises(InvalidRequest, match="ELU has no 16-bit kernel; --float"):
        quantize(gelu, None, QuantizeRequest(random=1, int16=[last]))


def test_a_target_refuses_what_it_does_not_compute():
    with pytest.raises(InvalidRequest, match=r"neutron-n3-64 computes with int8; got .*int16"):
        QuantizeRequest(random=1, target="neutron-n3-64", activations="int16")


@pytest.mark.parametrize("io_type", ["int8", "uint8", "integer"])
def test_inputs_and_outputs_are_integers_on_request(tmp_path, child, io_type):
    path = residual(tmp_path / "m.onnx")
    quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    request = Request(io_type=io_type, seeds=(0,))
    conversion = convert(tmp_path / "q.onnx", tmp_path / "q.tflite", request=request)
    kind = "int8" if io_type == "integer" else io_type
    assert set(ends(conversion)) == {kind}
    assert names(conversion).count("QUANTIZE") == (3 if io_type == "uint8" else 0)
    assert conversion.verification.equal
    floats = convert(tmp_path / "q.onnx", tmp_path / "f.tflite", request=Request(seeds=(0,)))
    x = np.random.default_rng(1).normal(0, 1, (1, 3, 16, 12)).astype(np.float32)
    want = child.call(litert.run(tmp_path / "f.tflite", [x])).outputs
    graph = conversion.translation.layout.graph
    stored = scheme_of(graph.inputs[0]).stored(x)
    got = child.call(litert.run(tmp_path / "q.tflite", [stored])).outputs
    for value, one, other in zip(graph.outputs, got, want, strict=True):
        np.testing.assert_array_equal(scheme_of(value).real(one), other)
    assert set(ends(floats)) == {"float32"}
    found = verify_pair(tmp_path / "q.onnx", tmp_path / "q.tflite", Request(seeds=(0,)))
    assert found.equal
    assert found.interior


def test_integers_of_another_file_are_read_as_what_they_stand_for(tmp_path):
    """A file that is not ours byte for byte is compared by its outputs."""
    path = residual(tmp_path / "m.onnx")
    quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    request = Request(io_type="int8", target="tflite-micro", seeds=(0,))
    file = tmp_path / "q.tflite"
    convert(tmp_path / "q.onnx", file, request=request)
    file.write_bytes(file.read_bytes() + b"\0" * 16)
    found = verify_pair(tmp_path / "q.onnx", file, Request(seeds=(0,)))
    assert "outputs only" in found.note
    for check in found.outputs:
        assert check.max_error < 0.2


def test_floats_that_nothing_rounds_stay_and_are_named(tmp_path):
    n = Net(x=(1, 4))
    path = n.save(tmp_path / "m.onnx", n.Relu("x"))
    found = convert(path, request=Request(target="tflite-micro", seeds=(0,)))
    assert ends(found) == ["float32", "float32"]
    assert [r.text for r in found.remarks if r.step == "quant.ends"] == [
        "input 'x' stays a float: it is not rounded to one kind of integers",
        "output 'relu0' stays a float: it is not rounded to one kind of integers",
    ]
    with pytest.raises(InvalidRequest, match="quantize it first"):
        convert(path, request=Request(io_type="uint8"))
    with pytest.raises(InvalidRequest, match="types of inputs and outputs are float, integer"):
        Request(io_type="int4")


def test_deploying_for_a_target_asks_both_steps(tmp_path):
    path = residual(tmp_path / "net.onnx")
    asked = {"seeds": [0], "target": "tflite-micro-2024", "int8": {"calibration": data(path, 4)}}
    straightway.deploy(path, tmp_path / "out", **asked)
    done = straightway.deploy(path, tmp_path / "out", **asked)  # over the files of the first
    assert any("of this machine, not of the target" in note for note in done.view.latency.notes)
    assert set(ends(done.conversion)) == {"int8"}
    assert scale_counts(done.conversion)["FULLY_CONNECTED"] == 1


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("is_rounded", [False, True])
def test_what_an_engine_lacks_is_spelled_in_parts(tmp_path, child, approximate, is_rounded):
    n = Net(x=(1, 16))
    hidden = n.Gelu(n.Gemm("x", n.weights(8, 16), transB=1), approximate=approximate)
    path = n.save(tmp_path / "m.onnx", hidden, opset=20)
    request = Request(target="tflite-micro", seeds=(0, 1))
    if is_rounded:
        asked = QuantizeRequest(calibration=data(path, 4), target="tflite-micro")
        quantize(path, tmp_path / "q.onnx", asked)
        path = tmp_path / "q.onnx"
    conversion = convert(path, tmp_path / "m.tflite", request=request)
    assert "GELU" not in names(conversion)
    assert "TANH" in names(conversion)
    feeds = [np.zeros(v.shape, v.dtype) for v in conversion.translation.layout.graph.inputs]
    assert child.call(micro.run(tmp_path / "m.tflite", feeds))
    if is_rounded:
        kept = convert(path, request=Request(target="ethos-u55-128", seeds=(0,)))
        assert "GELU" in names(kept)


def tokens(path, kind=TensorProto.INT64):
    """Rows of a table by their numbers, then a layer; and the greatest place of each row."""
    n = Net()
    n.inputs = [helper.make_tensor_value_info("ids", kind, (1, 6))]
    rows = n.Gather(n.const(RNG.normal(0, 1, (50, 16))), "ids", axis=0)
    y = n.MatMul(rows, n.const(RNG.normal(0, 0.3, (16, 8))))
    best = n.ArgMax(y, axis=-1, keepdims=0)
    infos = [
        helper.make_tensor_value_info(y, TensorProto.FLOAT, (1, 6, 8)),
        helper.make_tensor_value_info(best, TensorProto.INT64, (1, 6)),
    ]
    graph = helper.make_graph(n.nodes, "g", n.inputs, infos, n.constants)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), path)
    return path


def said(conversion, step):
    return [r.text for r in conversion.remarks if r.step == step]


@pytest.mark.parametrize("kind", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("form", ["float", "int8", "int16"])
def test_places_in_a_table_are_int32_on_a_microcontroller(tmp_path, child, form, kind):
    path = tokens(tmp_path / "m.onnx", kind)
    if form != "float":
        np.savez(tmp_path / "d.npz", ids=RNG.integers(0, 50, (4, 1, 6)).astype(int_of(kind)))
        asked = QuantizeRequest(
            calibration=tmp_path / "d.npz", target="tflite-micro", activations=form
        )
        quantize(path, tmp_path / "q.onnx", asked)
        path = tmp_path / "q.onnx"
    file = tmp_path / "m.tflite"
    found = convert(path, file, request=Request(target="tflite-micro", seeds=(0, 1)))
    assert ends(found)[0] == ends(found)[-1] == "int32"
    assert said(found, "flow.kernels") == []
    told = [text for text in said(found, "quant.narrowing") if "in the model" in text]
    wide = ["input 'ids'"] * (kind == TensorProto.INT64)
    assert [text.partition(" is")[0] for text in told] == [*wide, told[-1].partition(" is")[0]]
    ids = np.array([[0, -1, 5, 49, -50, 7]], np.int32)
    got = child.call(micro.run(file, [ids]))
    want = child.call(litert.run(file, [ids], delegate=False)).outputs
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(
            one.astype(float), other.astype(float), atol=1.0 * (form != "float"), rtol=1e-5
        )
    assert verify_pair(path, file, Request(seeds=(0,))).equal


def int_of(kind):
    return np.int64 if kind == TensorProto.INT64 else np.int32


def test_numbers_beyond_int32_are_refused_as_inputs_and_kept_as_constants(tmp_path):
    path = tokens(tmp_path / "m.onnx")
    np.savez(tmp_path / "far.npz", ids=np.full((1, 6), 2**40))
    request = Request(target="tflite-micro", inputs=tmp_path / "far.npz")
    with pytest.raises(InvalidRequest, match="'ids' is int32 for this target; got numbers from"):
        convert(path, request=request)
    n = Net()
    n.inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, (4,))]
    y = n.Mul("x", n.const([2**40], np.int64))
    info = helper.make_tensor_value_info(y, TensorProto.INT64, (4,))
    graph = helper.make_graph(n.nodes, "g", n.inputs, [info], n.constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "k.onnx",
    )
    found = convert(tmp_path / "k.onnx", request=Request(target="tflite-micro", seeds=(0,)))
    assert ends(found) == ["int64", "int64"]
    (text,) = said(found, "flow.kernels")
    assert "MUL takes float32, int32; got int64 (tensorflow/lite/micro/kernels/mul.cc:45)" in text


@pytest.mark.parametrize("target", ["tflite-micro", "ethos-u55-128", "neutron-n3-64", "litert"])
def test_what_the_target_has_no_kernel_for_is_said(tmp_path, target):
    n = Net(x=(2, 3, 4))
    y = n.Tile(n.Softmax("x"), n.const([1, 2, 1], np.int64))
    path = n.save(tmp_path / "m.onnx", y)
    found = convert(path, request=Request(target=target, seeds=(0,)))
    told = said(found, "flow.kernels")
    assert (told == []) == (target == "litert" or not {"TILE", "POW"} & set(names(found)))
    assert all("TensorFlow Lite Micro has no TILE" in text for text in told)


@pytest.mark.parametrize("op", ["Mod", "Where", "Neg", "Abs", "Cast", "Gather"])
def test_whole_numbers_are_computed_with_the_kernels_that_there_are(tmp_path, child, op):
    n = Net()
    n.inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, (3, 4))]
    zero = n.const(0, np.int64)
    made = {
        "Mod": lambda: n.Mod("x", n.const([3, 5, 7, 2], np.int64)),
        "Where": lambda: n.Where(n.Less("x", zero), n.Mul("x", "x"), "x"),
        "Neg": lambda: n.Neg("x"),
        "Gather": lambda: n.Cast(
            n.Gather(
                n.Reshape(n.Less("x", zero), n.const([12], np.int64)),
                n.Mod("x", n.const(12, np.int64)),
            ),
            to=TensorProto.INT64,
        ),
        "Abs": lambda: n.Abs("x"),
        "Cast": lambda: n.Cast(n.Cast("x", to=TensorProto.BOOL), to=TensorProto.INT64),
    }[op]()
    info = helper.make_tensor_value_info(made, TensorProto.INT64, (3, 4))
    graph = helper.make_graph(n.nodes, "g", n.inputs, [info], n.constants)
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "m.onnx")
    file = tmp_path / "m.tflite"
    found = convert(tmp_path / "m.onnx", file, request=Request(target="tflite-micro", seeds=(0,)))
    assert said(found, "flow.kernels") == []
    x = np.arange(-6, 6).reshape(3, 4)
    (got,) = child.call(micro.run(file, [x.astype(np.int32)]))
    (want,) = child.call(ort.run(tmp_path / "m.onnx", {"x": x})).values()
    np.testing.assert_array_equal(got, want)


FAMILIES = ("lower.index", "lower.compare", "lower.selection", "lower.shape")


def test_samples_run_on_a_microcontroller_or_say_why_not(tmp_path, child):
    form = form_for(find("tflite-micro"))
    silent, count = [], 0
    for key, lowering in sorted(LOWERINGS.items()):
        if not lowering.function.__module__.endswith(FAMILIES):
            continue
        for number, one in enumerate(lowering.samples):
            node = single(lowering, one)
            try:
                made = translate(ingest_proto(node.model()), form)
            except Unsupported:  # it needs a model that declares its results
                continue
            if any(r.step == "flow.kernels" for r in made.remarks):
                continue
            file = tmp_path / "m.tflite"
            file.write_bytes(bytes(made.written.data))
            inputs = made.lowered.graph.inputs
            feeds = [node.feeds[v.name].astype(v.dtype) for v in inputs]
            try:
                child.call(micro.run(file, feeds))
                count += 1
            except ToolFailed as error:
                silent.append((key, number, str(error)))
    assert silent == []
    assert count > 50


def test_whole_numbers_of_scaled_integers_are_those_stored(tmp_path):
    """MatMulInteger of an input that is rounded: the file takes the integers, and casts them."""
    n = Net(x=(3, 8))
    scale, zero = n.const(0.03), n.const(7, np.int8)
    weights = n.const(np.arange(-24, 24).reshape(8, 6), np.int8)
    whole = n.MatMulInteger(n.QuantizeLinear("x", scale, zero), weights, zero)
    path = n.save(tmp_path / "m.onnx", n.Mul(n.Cast(whole, to=TensorProto.FLOAT), n.const(3e-4)))
    found = convert(path, tmp_path / "m.tflite", request=Request(target="tflite-micro", seeds=(0,)))
    assert ends(found)[0] == "int8"
    (given,) = integers(found)
    want = (given.astype(int) - 7) @ np.arange(-24, 24).reshape(8, 6) * 3e-4
    with Child(engines=["litert"]) as child:
        (got,) = child.call(litert.run(tmp_path / "m.tflite", [given])).outputs
    assert np.allclose(got, want, atol=1e-4)
