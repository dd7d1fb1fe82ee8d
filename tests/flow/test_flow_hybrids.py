"""Products among floats: they round their operand as they run, so that no conversion stands around them."""

from collections import Counter

import numpy as np
import onnx
import pytest
import test_flow_quantize
from test_flow_mixed import roots
from test_flow_quantize import Net, data, residual

from straightway.flow.convert import Request, convert
from straightway.flow.inputs import make_inputs
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest
from straightway.flow.tally import nearness
from straightway.run import litert, ort
from straightway.run.process import Child

RNG = np.random.default_rng(3)


def normalized_images(path):
    """A convolution of what is divided by a root, and behind it one without a bias."""
    n = Net(x=(1, 12, 10, 10))
    size = n.Sqrt(n.Add(n.ReduceMean(n.Mul("x", "x"), axes=[1]), n.const(1e-2)))
    weights = n.const(RNG.normal(0, 0.2, (48, 12, 3, 3)))
    a = n.Conv(n.Div("x", size), weights, n.const(RNG.normal(0, 1, 48)), pads=[1, 1, 1, 1])
    size = n.Sqrt(n.Add(n.ReduceMean(n.Mul(a, a), axes=[1]), n.const(1e-2)))
    return n.save(path, n.Conv(n.Div(a, size), n.const(RNG.normal(0, 0.2, (24, 48, 1, 1)))))


@pytest.fixture(autouse=True)
def _numbers_of_one_size(monkeypatch):
    """Of the usual numbers one is 56 times the least deviation that it is divided by: 8 bits keep 31 dB of it."""
    monkeypatch.setattr(test_flow_quantize, "RNG", np.random.default_rng(4))


@pytest.fixture(scope="module")
def child():
    with Child(engines=["litert", "onnxruntime"]) as own:
        yield own


def operators(path):
    return Counter(node.op_type for node in onnx.load(path).graph.node)


@pytest.mark.parametrize("net", [roots, normalized_images], ids=["matrices", "images"])
def test_no_conversion_stands_around_a_product_among_floats(tmp_path, child, net):
    path = net(tmp_path / "m.onnx")
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    assert not [b for b in found.borders if "the model's" not in b.cause]
    assert found.accuracy.outputs[0].sqnr_db > 35
    said = [r for r in found.remarks if "rounds its operand as it runs" in r.text]
    assert {r.kind for r in said} == {"done"}
    assert not {r.node for r in said} & set(found.floats)
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0, 1)))
    assert made.verification.equal
    products = [
        node
        for node in made.translation.layout.graph.nodes
        if node.op.name in ("CONV_2D", "FULLY_CONNECTED")
    ]
    assert len(products) == 2
    assert {node.inputs[1].dtype.name for node in products} == {"int8"}
    assert len(made.verification.ran.placement.partitions) == 1


@pytest.mark.parametrize("options", [{"target": "tflite-micro"}, {"max_loss": 0.5}])
def test_where_there_are_no_such_kernels_integers_have_borders(tmp_path, options):
    path = roots(tmp_path / "m.onnx")
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path), **options))
    assert "DynamicQuantizeLinear" not in operators(tmp_path / "q.onnx")
    products = {name for name in found.floats if "Conv" in name or "MatMul" in name}
    said = {r.node for r in found.remarks if "without --max-loss, some may" in r.text}
    assert said == (products if "max_loss" in options else set())


def test_a_product_that_keeps_floats_for_the_loss_is_told_of_the_faster_kernel(tmp_path):
    path = roots(tmp_path / "m.onnx")
    asked = QuantizeRequest(calibration=data(path), max_loss=1e-4)
    found = quantize(path, tmp_path / "q.onnx", asked)
    said = {r.node for r in found.remarks if "without --max-loss, some may" in r.text}
    assert said
    assert said <= set(found.floats)


def test_the_whole_difference_of_outputs_behind_them_is_told(tmp_path, child):
    path = roots(tmp_path / "m.onnx")
    quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0, 1)))
    (end,) = made.verification.carried
    feeds = [make_inputs(made.translation.source, seed) for seed in (0, 1)]
    apart = [
        nearness(
            child.call(ort.run(tmp_path / "q.onnx", given, optimise=False))[end.name],
            child.call(litert.run(_stored(tmp_path, made), list(given.values()))).outputs[0],
        )
        for given in feeds
    ]
    assert end.sqnr_db == pytest.approx(min(apart), abs=1e-6)
    assert 20 < end.sqnr_db < 100
    assert f"{end.sqnr_db:.1f} dB signal to error" in made.verification.note
    (said,) = (r for r in made.remarks if r.step == "flow.verify")
    assert (said.kind, said.numbers["sqnr_db"]) == ("measured", end.sqnr_db)


def _stored(folder, made):
    (folder / "q.tflite").write_bytes(made.data)
    return folder / "q.tflite"


def test_a_model_of_integers_stays_one(tmp_path):
    path = residual(tmp_path / "m.onnx")
    found = quantize(path, tmp_path / "q.onnx", QuantizeRequest(calibration=data(path)))
    assert "DynamicQuantizeLinear" not in operators(tmp_path / "q.onnx")
    assert not found.floats


def test_shares_leave_out_what_is_rounded_as_it_runs(tmp_path):
    path = normalized_images(tmp_path / "m.onnx")
    asked = QuantizeRequest(calibration=data(path), sensitivity=2)
    near = quantize(path, tmp_path / "q.onnx", asked).accuracy
    assert operators(tmp_path / "q.onnx")["DynamicQuantizeLinear"] == 2
    assert near.outputs[0].sqnr_db > 35
