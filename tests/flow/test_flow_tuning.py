"""Ranges and weights are chosen by what they give on samples held out."""

import numpy as np
import pytest
from test_flow_quantize import Net

from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest

MADE_BY = "flow.tuning"


@pytest.fixture
def perceptron(tmp_path):
    """A model of two layers whose inputs move together, and a few stray ones."""
    rng = np.random.default_rng(4)
    mixing = rng.normal(0, 1, (3, 24))
    x = rng.normal(0, 1, (200, 3)) @ mixing + 0.1 * rng.normal(0, 1, (200, 24))
    n = Net(x=(1, 24))
    first = n.MatMul("x", n.const(0.1 * rng.standard_t(2, (24, 40))))
    hidden = n.Relu(n.Add(first, n.const(rng.normal(0, 0.2, 40))))
    y = n.Gemm(hidden, n.const(0.1 * rng.standard_t(2, (40, 6))), n.const(rng.normal(0, 0.2, 6)))
    path = n.save(tmp_path / "m.onnx", y)
    return path, x.astype(np.float32)


def made(path, x, **options):
    return quantize(path, None, QuantizeRequest(calibration=lambda: iter(x[:, None]), **options))


def sqnr_db(found):
    return found.accuracy.outputs[0].sqnr_db


def test_weights_fitted_to_the_data_lose_less(perceptron):
    path, x = perceptron
    nearest = made(path, x, method="minmax", fit=False)
    fitted = made(path, x, method="minmax")
    assert sqnr_db(fitted) > sqnr_db(nearest) + 3
    (told,) = [r for r in fitted.remarks if r.step == MADE_BY]
    assert "on 50 samples" in told.text
    assert told.numbers["gain_db"] > 1
    assert not [r for r in nearest.remarks if r.step == MADE_BY]


def test_ranges_are_those_that_serve_best(perceptron):
    path, x = perceptron
    x[100, 2], x[151, 5] = 300, -280
    by_method = {m: sqnr_db(made(path, x, method=m)) for m in ("minmax", "percentile", "mse")}
    found = made(path, x)
    assert by_method["minmax"] < max(by_method.values()) - 6
    assert sqnr_db(found) > max(by_method.values()) - 1
    (told,) = [r for r in found.remarks if r.step == MADE_BY]
    assert told.text.startswith("ranges by")
    assert "minmax" in told.text


def test_two_samples_are_enough_to_choose(perceptron):
    path, x = perceptron
    found = made(path, x[:2])
    (told,) = [r for r in found.remarks if r.step == MADE_BY]
    assert "on 2 samples" in told.text
    assert sqnr_db(found) > 20
