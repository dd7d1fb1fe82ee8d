"""The demo finds its model, or says that it makes one itself."""

import hashlib
import subprocess
import zipfile

import numpy as np
import onnx
import pytest

import demo
import mobile_network
from straightway.run import ort
from straightway.run.process import Child

CONTENT = b"not the published model"


@pytest.fixture
def wheel(monkeypatch):
    """Stands in for pip: puts a wheel with `CONTENT` into the folder asked for."""
    commands = []

    def download(command, **_):
        commands.append(command)
        folder = command[command.index("--dest") + 1]
        with zipfile.ZipFile(f"{folder}/some-1-py3-none-any.whl", "w") as archive:
            archive.writestr(demo.MEMBER, CONTENT)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(demo.subprocess, "run", download)
    return commands


def test_the_published_model_is_fetched_once(tmp_path, monkeypatch, wheel, capsys):
    monkeypatch.setattr(demo, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    assert demo.model(tmp_path / "cache").read_bytes() == CONTENT
    assert demo.model(tmp_path / "cache").read_bytes() == CONTENT
    assert len(wheel) == 1
    assert "kept in" in capsys.readouterr().out


def test_another_file_is_not_taken_for_the_published_one(tmp_path, wheel, capsys):
    assert demo.model(tmp_path).name == "mobile_network.onnx"
    assert len(wheel) == 1
    assert "is not the file that this demo knows" in capsys.readouterr().out


def test_without_a_network_it_says_that_it_builds_a_model(tmp_path, monkeypatch, capsys):
    def fail(command, **_):
        raise subprocess.CalledProcessError(1, command, stderr="WARNING: x\nERROR: no network\n")

    monkeypatch.setattr(demo.subprocess, "run", fail)
    built = demo.model(tmp_path / "cache")
    assert onnx.load(built).graph.name == "mobile_network"
    assert "(no network); a small seeded network takes its place" in capsys.readouterr().out


def test_the_built_network_is_the_same_every_time_and_tells_inputs_apart(tmp_path):
    first, second = mobile_network.build(), mobile_network.build()
    assert first.SerializeToString() == second.SerializeToString()
    path = tmp_path / "network.onnx"
    onnx.save(first, path)
    random = np.random.default_rng(1)
    inputs = [random.random(mobile_network.INPUT_SHAPE, np.float32) for _ in range(2)]
    with Child(engines=["onnxruntime"]) as child:
        (a,), (b,) = (child.call(ort.run(path, {"x": x})).values() for x in inputs)
    assert a.sum() == pytest.approx(1.0)
    assert np.abs(a - b).max() > 1e-3
