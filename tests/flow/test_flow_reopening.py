"""Models with open dimensions are observed at the data's sizes and stay open where they can."""

import numpy as np
import onnx
import pytest
from test_flow_quantize import Net

from straightway.errors import InvalidRequest
from straightway.flow.calibration import Pictures
from straightway.flow.convert import Request, convert
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest

RNG = np.random.default_rng(4)


def network(path, *, batch="batch", spatial=(8, 8)):
    n = Net(x=(batch, 3, *spatial))
    a = n.Relu(n.Conv("x", n.weights(4, 3, 3, 3), n.const(np.zeros(4)), pads=[1, 1, 1, 1]))
    pooled = n.GlobalAveragePool(a)
    flat = n.Reshape(pooled, n.const([-1, 4], np.int64))
    return n.save(path, n.Gemm(flat, n.weights(5, 4), n.const(np.zeros(5)), transB=1))


def dims(path):
    graph = onnx.load(path).graph
    return [
        [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*graph.input, *graph.output)
    ]


def samples(tmp_path, *shape):
    np.savez(tmp_path / "data.npz", x=RNG.normal(0, 1, shape).astype(np.float32))
    return tmp_path / "data.npz"


def test_an_open_batch_stays_open_and_converts(tmp_path, child):
    path = network(tmp_path / "m.onnx")
    asked = QuantizeRequest(calibration=samples(tmp_path, 6, 3, 8, 8))
    found = quantize(path, tmp_path / "q.onnx", asked)
    assert found.samples == 6
    assert any("batch stay open, observed at batch=1" in r.text for r in found.remarks)
    assert dims(tmp_path / "q.onnx") == [["batch", 3, 8, 8], ["batch", 5]]
    made = convert(tmp_path / "q.onnx", child=child, request=Request())
    assert made.verification.equal
    assert "batch" in made.sizes
    for asked in ({"dims": {"batch": 1}}, {"shapes": {"x": (1, 3, 8, 8)}}):
        fixed = QuantizeRequest(calibration=samples(tmp_path, 6, 3, 8, 8), **asked)
        quantize(path, tmp_path / "fixed.onnx", fixed)
        assert dims(tmp_path / "fixed.onnx") == [[1, 3, 8, 8], [1, 5]]


def test_sizes_of_pictures_stay_open(tmp_path, child):
    path = network(tmp_path / "m.onnx", spatial=("h", "w"))
    found = quantize(
        path, tmp_path / "q.onnx", QuantizeRequest(calibration=samples(tmp_path, 4, 3, 10, 12))
    )
    assert dims(tmp_path / "q.onnx")[0] == ["batch", 3, "h", "w"]
    assert "h=10, w=12" in next(r.text for r in found.remarks if "stay open" in r.text)
    assert convert(tmp_path / "q.onnx", child=child, request=Request()).verification.equal


def test_what_is_rounded_as_it_runs_stays_open(tmp_path, child):
    n = Net(x=("batch", 6, 16))
    power = n.Add(n.ReduceMean(n.Mul("x", "x"), axes=[-1]), n.const(1e-3))
    made = n.MatMul(n.Div("x", n.Sqrt(power)), n.weights(16, 32))
    path = n.save(tmp_path / "m.onnx", made)
    quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=samples(tmp_path, 6, 6, 16)))
    assert "DynamicQuantizeLinear" in {x.op_type for x in onnx.load(tmp_path / "q.onnx").graph.node}
    assert dims(tmp_path / "q.onnx")[0] == ["batch", 6, 16]
    found = convert(tmp_path / "q.onnx", child=child, request=Request())
    assert found.verification.equal
    assert "batch" in found.sizes


def test_what_the_sizes_decide_is_fixed_and_named(tmp_path):
    """A table cut to the length of the sequence."""
    n = Net(x=(1, "length", 4))
    size = n.Gather(n.Shape("x"), n.const([1], np.int64))
    table = n.const(RNG.normal(0, 1, (64, 4)))
    cut = n.Slice(table, n.const([0], np.int64), size, n.const([0], np.int64))
    path = n.save(tmp_path / "m.onnx", n.MatMul(n.Add("x", cut), n.weights(4, 4)))
    asked = QuantizeRequest(calibration=samples(tmp_path, 3, 9, 4))
    found = quantize(path, tmp_path / "q.onnx", asked)
    (text,) = [r.text for r in found.remarks if r.step == "flow.reopening"]
    assert text.startswith("m.onnx: length can't stay open: ")
    assert text.endswith("; fixed at length=9")
    assert dims(tmp_path / "q.onnx") == [[1, 9, 4], [1, 9, 4]]


def test_pictures_need_a_size_where_the_model_has_none(tmp_path):
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "pictures"
    folder.mkdir()
    image.fromarray(RNG.integers(0, 255, (20, 30, 3)).astype(np.uint8)).save(folder / "a.png")
    path = network(tmp_path / "m.onnx", spatial=("h", "w"))
    with pytest.raises(InvalidRequest, match="--size 224x224"):
        quantize(path, None, QuantizeRequest(calibration=folder, pictures=Pictures()))
    quantize(
        path,
        tmp_path / "q.onnx",
        QuantizeRequest(calibration=folder, pictures=Pictures(size=(16, 8))),
    )
    assert dims(tmp_path / "q.onnx")[0] == ["batch", 3, "h", "w"]
    other = network(tmp_path / "fixed.onnx", batch=1)
    with pytest.raises(InvalidRequest, match="got a size of"):
        quantize(other, None, QuantizeRequest(calibration=folder, pictures=Pictures(size=(9, 9))))
    with pytest.raises(InvalidRequest, match="layouts are nchw, nhwc"):
        Pictures(layout="hwc")


def test_random_inputs_have_sizes_that_the_model_takes(tmp_path):
    path = network(tmp_path / "m.onnx")
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(random=2))
    assert found.is_random
    assert dims(tmp_path / "q.onnx")[0] == ["batch", 3, 8, 8]


def test_missing_data_of_open_models_are_told(tmp_path):
    path = network(tmp_path / "m.onnx")
    with pytest.raises(InvalidRequest, match="Give 100 to 500"):
        quantize(path, None, QuantizeRequest())
    with pytest.raises(InvalidRequest, match="no sample"):
        quantize(path, None, QuantizeRequest(calibration=lambda: iter(())))
