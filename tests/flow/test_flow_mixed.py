"""Errors of single roundings, measured; and what stays in floats so that no more is lost than allowed."""

import re

import numpy as np
import pytest
from test_flow_quantize import Net, data, residual

from straightway.errors import InvalidRequest
from straightway.flow import mixed
from straightway.flow.candidate import describe
from straightway.flow.convert import Request, convert
from straightway.flow.mixed import SAMPLES
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest
from straightway.quant.edges import is_op
from straightway.run import litert, ort
from straightway.run.process import Child


def uneven(path):
    """Most weights of the second convolution are too small for eight bits beside a few large ones."""
    rng = np.random.default_rng(11)
    n = Net(x=(1, 4, 12, 12))

    def weights(*shape):
        return rng.normal(0, 1, shape) / np.sqrt(np.prod(shape[1:]))

    a = n.Relu(n.Conv("x", n.const(weights(8, 4, 3, 3))))
    few = np.where(rng.random((8, 8, 3, 3)) < 0.03, 100.0, 1.0)
    b = n.Relu(n.Conv(a, n.const(weights(8, 8, 3, 3) * few)))
    c = n.Relu(n.Conv(b, n.const(weights(8, 8, 3, 3))))
    return n.save(path, n.Conv(c, n.const(weights(6, 8, 3, 3))))


def roots(path):
    """A normalisation between two products."""
    n = Net(x=(2, 6, 16))
    h = n.MatMul("x", n.weights(16, 16))
    mean = n.ReduceMean(h, axes=[-1])
    apart = n.Sub(h, mean)
    variance = n.Add(n.ReduceMean(n.Mul(apart, apart), axes=[-1]), n.const(1e-3))
    y = n.Div(apart, n.Sqrt(variance))
    return n.save(path, n.MatMul(y, n.weights(16, 8)))


def between(path):
    """Two convolutions in a row between normalisations."""
    rng = np.random.default_rng(13)
    n = Net(x=(1, 12, 10, 10))
    size = n.Sqrt(n.Add(n.ReduceMean(n.Mul("x", "x"), axes=[1]), n.const(1e-2)))
    a = n.Div("x", size)
    for channels in ((16, 12), (12, 16)):
        a = n.Relu(n.Conv(a, n.const(rng.normal(0, 0.2, (*channels, 3, 3)))))
    return n.save(path, n.Div(a, n.Sqrt(n.Add(n.ReduceMean(a, axes=[1]), n.const(1e-2)))))


@pytest.fixture(scope="module")
def child():
    with Child(engines=["litert", "onnxruntime"]) as own:
        yield own


def test_shares_are_measured_and_sum_to_one(tmp_path):
    path = residual(tmp_path / "m.onnx")
    asked = QuantizeRequest(calibration=data(path), sensitivity=2)
    near = quantize(path, None, asked).accuracy
    shares = [row.share for row in near.inside]
    assert all(share is not None and share >= 0 for share in shares)
    assert sum(shares) + sum(near.inputs.values()) == pytest.approx(1)
    assert near.causes(3)[0].share == max(shares)
    assert "2 samples" in near.shares_note
    assert sum(b.share for b in near.branches) == pytest.approx(sum(shares))
    assert {v for b in near.branches for v in b.values} == {row.name for row in near.inside}


def test_products_that_round_as_they_run_have_their_shares(tmp_path):
    path = roots(tmp_path / "m.onnx")
    found = quantize(path, None, QuantizeRequest(calibration=data(path), sensitivity=2))
    hybrids = {r.node for r in found.remarks if "rounds its operand as it runs" in r.text}
    near = found.accuracy
    shares = {row.node: row.share for row in near.inside if row.share}
    assert set(shares) == hybrids
    assert len(hybrids) == 2
    assert sum(shares.values()) == pytest.approx(1)
    # measured by two ways: each rounding alone, and the whole model on all samples
    (alone,) = re.findall(r"errors sum to ([0-9.]+) dB", near.shares_note)
    assert float(alone) == pytest.approx(near.outputs[0].sqnr_db, abs=3)


def test_without_being_asked_nothing_is_measured_alone(tmp_path):
    path = residual(tmp_path / "m.onnx")
    near = quantize(path, None, QuantizeRequest(calibration=data(path))).accuracy
    assert not near.shares_note
    assert not near.causes(3)


def test_the_node_that_loses_most_is_found(tmp_path):
    path = uneven(tmp_path / "m.onnx")
    options = {"sensitivity": 4, "method": "minmax", "fit": False}
    near = quantize(path, None, QuantizeRequest(calibration=data(path), **options)).accuracy
    worst = near.causes(1)[0]
    assert worst.op == "CONV_2D"
    assert worst.node == [row.node for row in near.inside if row.op == "CONV_2D"][1]
    assert worst.share > 0.3


@pytest.mark.parametrize("allowed", [0.2, 0.02, 0.004, 0.0])
def test_no_more_is_lost_than_allowed(tmp_path, child, allowed):
    path = uneven(tmp_path / "m.onnx")
    folder = data(path)
    plain = quantize(path, None, QuantizeRequest(calibration=folder))
    asked = QuantizeRequest(calibration=folder, max_loss=allowed)
    found = quantize(path, tmp_path / "q.onnx", asked)
    assert found.accuracy.loss <= allowed
    kept = [r for r in found.remarks if "allowed loss" in r.text]
    assert bool(kept) == (plain.accuracy.loss > allowed)
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,)))
    (tmp_path / "q.tflite").write_bytes(made.data)
    want, got = [], []
    for file in sorted(folder.iterdir()):
        x = np.load(file)["x"]
        want += child.call(ort.run(path, {"x": x})).values()
        got += child.call(litert.run(tmp_path / "q.tflite", [x])).outputs
    apart = np.square(np.subtract(want, got)).sum() / np.square(want).sum()
    assert np.sqrt(apart) <= 1.2 * allowed + 1e-5


def test_less_loss_costs_more_floats(tmp_path):
    path = uneven(tmp_path / "m.onnx")
    folder = data(path)
    kept = [
        len(quantize(path, None, QuantizeRequest(calibration=folder, max_loss=allowed)).floats)
        for allowed in (0.5, 0.02, 0.005, 0.0)
    ]
    assert kept == sorted(kept)
    assert kept[0] == 0 < kept[-1]
    assert SAMPLES > 1


CONVERSIONS = ("QUANTIZE", "DEQUANTIZE")


def conversions(file):
    """The QUANTIZE and DEQUANTIZE ops of a file, by index."""
    ops = describe(file).main.operators
    return {k: op.kind for k, op in enumerate(ops) if op.kind in CONVERSIONS}


@pytest.mark.parametrize(
    ("net", "allowed"),
    [("uneven", 0.02), ("residual", None), ("between", None), ("residual", 0.01)],
)
def test_the_conversions_left_are_those_that_the_plan_lists(tmp_path, child, net, allowed):
    path = {"uneven": uneven, "residual": residual, "between": between}[net](tmp_path / "m.onnx")
    asked = QuantizeRequest(calibration=data(path), max_loss=allowed)
    found = quantize(path, tmp_path / "q.onnx", asked)
    made = convert(tmp_path / "q.onnx", child=child, request=Request(seeds=(0,)))
    (tmp_path / "q.tflite").write_bytes(made.data)
    assert conversions(tmp_path / "q.tflite") == {b.operator: b.op for b in found.borders}
    assert [b.value for b in made.borders] == [b.value for b in found.borders]
    nodes = [n for n in made.translation.layout.graph.nodes if not is_op(n, *CONVERSIONS)]
    whole = {n.name for n in nodes if n.outputs and n.output.dtype != np.float32}
    assert whole.isdisjoint(found.floats)
    ends = [b for b in found.borders if "the model's" in b.cause]
    inside = [b for b in found.borders if b not in ends]
    if allowed is None:
        assert bool(inside) == (net == "between")
        assert bool(ends) == (net == "residual")
    assert all("computes with floats" in b.cause for b in inside)
    why = set(found.floats.values())
    assert all(any(reason in b.cause for reason in why) for b in inside)


def test_values_of_sixteen_bits_are_measured_alone_too(tmp_path):
    path = residual(tmp_path / "m.onnx")
    asked = QuantizeRequest(calibration=data(path), activations="int16", sensitivity=1)
    near = quantize(path, None, asked).accuracy
    assert near.outputs[0].sqnr_db > 20
    assert sum(row.share for row in near.inside) + sum(near.inputs.values()) == pytest.approx(1)


def test_what_is_asked_in_vain_is_said():
    with pytest.raises(InvalidRequest, match="from 0 on"):
        QuantizeRequest(random=1, sensitivity=-1)
    with pytest.raises(InvalidRequest, match="not negative"):
        QuantizeRequest(random=1, max_loss=-0.5)


def test_no_shorter_stretch_in_floats_would_do(tmp_path, monkeypatch):
    """Where one factor moves many nodes at once, only as many of them are taken as are needed."""
    path = uneven(tmp_path / "m.onnx")
    folder = data(path)
    many = QuantizeRequest(calibration=folder, max_loss=0.03)
    found = quantize(path, None, many)
    monkeypatch.setattr(mixed, "_between", lambda *_: [])
    whole = quantize(path, None, many)
    assert found.accuracy.loss <= 0.03
    assert len(found.floats) <= len(whole.floats)
