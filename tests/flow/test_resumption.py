"""Calibration that goes on where another run stopped, with the same result."""

import numpy as np
import pytest
from test_flow_quantize import Net

from straightway.errors import InvalidRequest
from straightway.flow import resumption
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest


class Stopped(Exception):
    """As if the machine had been switched off."""


@pytest.fixture
def model(tmp_path):
    n = Net(x=(1, 3, 8, 8))
    a = n.Relu(n.Conv("x", n.weights(4, 3, 3, 3)))
    return n.save(tmp_path / "m.onnx", n.Softmax(n.Conv(a, n.weights(2, 4, 1, 1)), axis=1))


@pytest.fixture
def samples(tmp_path):
    rng = np.random.default_rng(7)
    arrays = rng.normal(0, 1, (12, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=arrays)
    return tmp_path / "data.npz"


@pytest.fixture
def stops(monkeypatch):
    """Stops after so many samples; each is kept."""
    monkeypatch.setattr(resumption, "SAVED_EVERY_S", -1.0)
    left = [0]

    def advance(done, _total):
        if done == left[0]:
            raise Stopped

    def at(count):
        left[0] = count
        return advance

    return at


def counted(monkeypatch):
    """How many samples a model is run on."""
    ran = []
    own = resumption.Observer.add
    monkeypatch.setattr(
        resumption.Observer, "add", lambda self, inputs: (ran.append(1), own(self, inputs))[1]
    )
    return ran


def test_what_was_seen_before_is_not_run_again(model, samples, stops, tmp_path, monkeypatch):
    file = tmp_path / "seen.npz"
    asked = {"calibration": samples, "resume": file}
    with pytest.raises(Stopped):
        quantize(model, None, QuantizeRequest(**asked, advance=stops(5)))
    assert resumption.read(file).samples == 5
    ran = counted(monkeypatch)
    resumed = quantize(model, None, QuantizeRequest(**asked))
    assert len(ran) == 7
    whole = quantize(model, None, QuantizeRequest(calibration=samples))
    assert resumed.data == whole.data
    del ran[:]
    other = quantize(model, None, QuantizeRequest(**asked, method="entropy"))
    assert not ran
    assert other.data != whole.data


def test_other_data_and_other_models_are_told(model, samples, stops, tmp_path):
    file = tmp_path / "seen.npz"
    quantize(model, None, QuantizeRequest(calibration=samples, resume=file))
    arrays = np.load(samples)["x"].copy()
    np.savez(tmp_path / "fewer.npz", x=arrays[:6])
    arrays[2, 0, 0, 0] += 1
    np.savez(tmp_path / "other.npz", x=arrays)
    for name in ("fewer", "other"):
        with pytest.raises(InvalidRequest, match="samples are not those observed before"):
            quantize(
                model, None, QuantizeRequest(calibration=tmp_path / f"{name}.npz", resume=file)
            )
    n = Net(x=(1, 3, 8, 8))
    second = n.save(tmp_path / "n.onnx", n.Relu(n.Conv("x", n.weights(5, 3, 3, 3))))
    with pytest.raises(InvalidRequest, match="another model"):
        quantize(second, None, QuantizeRequest(calibration=samples, resume=file))


@pytest.mark.parametrize("content", [b"", b"nothing of ours", b"PK\x03\x04 no archive"])
def test_files_of_another_kind_are_told(model, samples, tmp_path, content):
    (file := tmp_path / "seen.npz").write_bytes(content)
    with pytest.raises(InvalidRequest, match="holds nothing that was observed"):
        quantize(model, None, QuantizeRequest(calibration=samples, resume=file))
    assert file.read_bytes() == content
