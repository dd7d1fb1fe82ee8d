"""Two quantizations of one model, of any format, against it."""

import json

import numpy as np
import onnx
import pytest
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static
from test_flow_quantize import RNG, Net, data, residual

import straightway
from straightway.errors import InvalidRequest, Mismatch
from straightway.flow.compare import CompareRequest, compare
from straightway.flow.convert import Request, convert
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest
from straightway.run.process import Child


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model whose ranges are eight times too wide, and as they should be; as ONNX and TFLite."""
    folder = tmp_path_factory.mktemp("compare")
    n = Net(x=(1, 4, 12, 12))
    a = n.Relu(n.Conv("x", n.weights(8, 4, 3, 3)))
    b = n.MaxPool(n.Relu(n.Conv(a, n.weights(8, 8, 3, 3))), kernel_shape=[2, 2], strides=[2, 2])
    path = n.save(folder / "float.onnx", n.Conv(b, n.weights(6, 8, 3, 3)))
    samples = data(path)
    np.savez(folder / "wide.npz", x=8 * RNG.normal(0, 1, (4, 1, 4, 12, 12)).astype(np.float32))
    with Child(engines=["litert", "onnxruntime"]) as child:
        for name, seen in (("plain", folder / "wide.npz"), ("better", samples)):
            quantize(path, folder / f"{name}.onnx", QuantizeRequest(calibration=seen))
            for io in ("keep", "nhwc"):
                made = convert(
                    folder / f"{name}.onnx", child=child, request=Request(seeds=(0,), io=io)
                )
                (folder / f"{name}.{io}.tflite").write_bytes(made.data)
    return folder


FILES = ("{}.onnx", "{}.keep.tflite", "{}.nhwc.tflite")


def asked(folder, **more):
    return CompareRequest(reference=folder / "float.onnx", calibration=folder / "data", **more)


@pytest.mark.parametrize("first", FILES)
@pytest.mark.parametrize("second", FILES)
def test_the_nearer_one_is_found_in_either_order(made, first, second):
    a, b = made / first.format("plain"), made / second.format("better")
    there, back = compare(a, b, asked(made)), compare(b, a, asked(made))
    assert (there.verdict, back.verdict) == ("b", "a")
    (forth,), (other,) = there.outputs, back.outputs
    assert forth.gain_db == pytest.approx(-other.gain_db)
    assert forth.gain_db > 6
    assert forth.b_db == other.a_db
    assert there.inside
    for pair in there.inside:
        assert pair.a_db is None or pair.a_db > 3, pair
    assert there.branches


@pytest.mark.parametrize("kind", FILES)
def test_a_file_is_as_near_as_itself(made, kind):
    path = made / kind.format("plain")
    found = compare(path, path, asked(made))
    assert found.verdict == "same"
    assert all(pair.gain_db == 0 for pair in (*found.outputs, *found.inside))


def test_distances_are_those_of_the_quantization(made):
    found = compare(made / "plain.onnx", made / "better.onnx", asked(made))
    near = quantize(made / "float.onnx", None, QuantizeRequest(calibration=made / "data")).accuracy
    assert found.outputs[0].b_db == pytest.approx(near.outputs[0].sqnr_db, abs=0.05)
    rows = {row.name: row.sqnr_db for row in near.inside}
    shared = [pair for pair in found.inside if pair.name in rows]
    assert len(shared) >= 3
    pairs = compare(made / "plain.onnx", made / "better.onnx", asked(made, samples=8)).inside
    assert [p.name for p in pairs] == [p.name for p in found.inside]


def test_a_drop_beyond_the_limit_fails(made):
    files = made / "better.onnx", made / "plain.keep.tflite"
    assert not compare(*files, asked(made)).fails
    assert compare(*files, asked(made, max_drop_db=3.0)).fails
    assert not compare(*files, asked(made, max_drop_db=90.0)).fails
    assert not compare(*reversed(files), asked(made, max_drop_db=3.0)).fails


def test_one_sample_decides_nothing(made):
    found = compare(made / "plain.onnx", made / "better.onnx", asked(made, samples=1))
    assert found.verdict == "same"
    assert found.outputs[0].gain_db > 6


def test_another_model_is_no_candidate(made, tmp_path):
    other = residual(tmp_path / "other.onnx")
    with pytest.raises(Mismatch, match="another model"):
        compare(other, made / "plain.onnx", asked(made))
    with Child(engines=["litert", "onnxruntime"]) as child:
        (tmp_path / "other.tflite").write_bytes(convert(other, child=child).data)
    with pytest.raises(Mismatch, match="another model"):
        compare(made / "plain.onnx", tmp_path / "other.tflite", asked(made))


def test_what_is_missing_is_said(made, tmp_path):
    files = made / "plain.onnx", made / "better.onnx"
    with pytest.raises(InvalidRequest, match="--reference FLOAT"):
        compare(*files, CompareRequest(random=2))
    with pytest.raises(InvalidRequest, match="no calibration data"):
        compare(*files, CompareRequest(reference=made / "float.onnx"))
    with pytest.raises(InvalidRequest, match="no such file"):
        compare(made / "nothing.onnx", files[0], asked(made))
    (tmp_path / "trace.json").write_text(json.dumps({}))
    with pytest.raises(InvalidRequest, match=r"trace\.json: compare takes two quantized models"):
        compare(files[0], tmp_path / "trace.json", asked(made))
    with pytest.raises(InvalidRequest, match="nonsense"):
        straightway.compare(*files, nonsense=1)


def test_the_public_function_compares(made):
    options = {"reference": made / "float.onnx", "calibration": made / "data"}
    found = straightway.compare(made / "plain.onnx", made / "better.nhwc.tflite", **options)
    assert found.samples == 8
    assert not found.is_random


def test_an_input_of_integers_is_fed_by_its_scale(made, tmp_path):
    """As files for microcontrollers have it."""
    model = onnx.load(made / "plain.onnx")
    (rounding,) = [n for n in model.graph.node if n.op_type == "QuantizeLinear" and "x" in n.input]
    (reader,) = [n for n in model.graph.node if rounding.output[0] in n.input]
    model.graph.node.remove(rounding)
    reader.input[0] = "x"
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT8
    onnx.save(model, tmp_path / "whole.onnx")
    with Child(engines=["litert", "onnxruntime"]) as child:
        (tmp_path / "whole.tflite").write_bytes(convert(tmp_path / "whole.onnx", child=child).data)
    found = compare(made / "plain.keep.tflite", tmp_path / "whole.tflite", asked(made))
    assert found.verdict == "same"
    assert found.outputs[0].b_db == pytest.approx(found.outputs[0].a_db, abs=0.2)


@pytest.mark.parametrize("given", [{"calibration": None, "random": 3}, {}])
def test_open_dimensions_have_the_sizes_of_the_data(made, tmp_path, given):
    n = Net(x=(1, 4, "h", "w"))
    path = n.save(tmp_path / "open.onnx", n.Relu(n.Conv("x", n.weights(8, 4, 3, 3))))
    samples = made / "data"
    for method in ("minmax", "entropy"):
        asked_for = QuantizeRequest(calibration=samples, method=method)
        quantize(path, tmp_path / f"{method}.onnx", asked_for)
    request = CompareRequest(reference=path, **{"calibration": samples, **given})
    found = compare(tmp_path / "minmax.onnx", tmp_path / "entropy.onnx", request)
    assert found.samples == given.get("random", len(list(samples.iterdir())))
    assert found.outputs[0].a_db > 10


class Reader(CalibrationDataReader):
    """Random inputs."""

    def __init__(self, shape):
        rng = np.random.default_rng(0)
        self.left = [{"x": rng.normal(0, 1, shape).astype(np.float32)} for _ in range(4)]

    def get_next(self):
        return self.left.pop() if self.left else None


def pictures(path):
    n = Net(x=(1, 4, 12, 10))
    a = n.Relu(n.Conv("x", n.weights(8, 4, 3, 3), pads=[1, 1, 1, 1]))
    b = n.Conv(a, n.weights(6, 8, 1, 1))
    joined = n.Concat(n.Mul(b, n.Sigmoid(b)), a, axis=1)
    return n.save(path, n.Conv(joined, n.weights(5, 14, 1, 1)))


def lines(path):
    """Convolutions along lines, which TFLite computes as images of one row, channels last."""
    n = Net(x=(1, 4, 12, 1))
    x = n.Squeeze("x", n.const([3], np.int64))
    a = n.Relu(n.Conv(x, n.weights(8, 4, 3), pads=[1, 1]))
    b = n.Tanh(n.Conv(a, n.weights(8, 8, 3), pads=[1, 1]))
    return n.save(path, n.Conv(n.Add(a, b), n.weights(5, 8, 1)))


@pytest.mark.parametrize("form", [QuantFormat.QDQ, QuantFormat.QOperator])
@pytest.mark.parametrize("net", [pictures, lines])
def test_a_value_is_read_at_one_place_in_either_format(tmp_path, net, form):
    path = net(tmp_path / "m.onnx")
    shape = (1, 4, 12, 10) if net is pictures else (1, 4, 12, 1)
    quantize_static(path, tmp_path / "q.onnx", Reader(shape), quant_format=form)
    with Child(engines=["litert", "onnxruntime"]) as child:
        (tmp_path / "q.tflite").write_bytes(convert(tmp_path / "q.onnx", child=child).data)
    asked_for = CompareRequest(reference=path, random=6)
    found = compare(tmp_path / "q.onnx", tmp_path / "q.tflite", asked_for)
    both = [p for p in found.inside if p.a_db is not None and p.b_db is not None]
    assert len(both) >= 3
    for pair in both:
        assert pair.a_db == pytest.approx(pair.b_db, abs=2.0), pair


def test_what_differs_within_the_spread_is_no_difference(made):
    found = compare(made / "plain.onnx", made / "plain.onnx", asked(made))
    assert not any(one.differs for one in (*found.inside, *found.branches))
    alone = compare(made / "plain.onnx", made / "better.onnx", asked(made, samples=1))
    assert any(one.differs for one in alone.inside)
    assert all(abs(one.gain_db) > 0.1 for one in alone.inside if one.differs)
