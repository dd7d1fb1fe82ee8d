"""A command that is told to end, or hung up on, leaves nothing behind and says so by its exit code."""

import os
import signal
import subprocess
import sys

import pytest

from onnx_io.small_models import convolutions, save
from straightway.run import peak
from straightway.run.process import Child

# Send the signal at the moment when the engines are asked for `verb`: drafts are there by then.
DRIVER = """
import os, sys
from straightway.cli.main import main
from straightway.run.process import Child

verb, number, *sys.argv[1:] = sys.argv[1:]
start = Child.start

def told(child, call, **options):
    pending = start(child, call, **options)
    if call.verb == verb:
        print(*os.listdir(os.environ["TMPDIR"]), sep="\\n", flush=True)
        os.kill(os.getpid(), int(number))
    return pending

Child.start = told
main()
"""


@pytest.mark.parametrize(
    ("command", "verb", "number"),
    [("convert", "tflite.run", signal.SIGTERM), ("deploy", "race", signal.SIGTERM),
     ("deploy", "peak", signal.SIGTERM), ("profile", "onnx.profile", signal.SIGHUP)],
)  # fmt: skip
def test_nothing_is_left(tmp_path, command, verb, number):
    drafts, folder = tmp_path / "drafts", tmp_path / "work"
    drafts.mkdir()
    folder.mkdir()
    model = save(convolutions(), folder / "m.onnx")
    output = folder / ("out" if command == "deploy" else "out.file")
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, verb, str(int(number)), command, model, "-o", output],
        env={**os.environ, "TMPDIR": str(drafts)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + number, done.stderr
    assert done.stdout.strip(), "there was a draft to remove"
    assert done.stderr == ""
    assert list(drafts.iterdir()) == []
    assert list(folder.iterdir()) == [model]


def test_a_hang_up_that_is_ignored_stays_ignored(tmp_path):
    model = save(convolutions(), tmp_path / "m.onnx")
    output = tmp_path / "out.tflite"
    command = [sys.executable, "-c", DRIVER, "tflite.run", str(int(signal.SIGHUP)), "convert"]
    done = subprocess.run(
        ["nohup", *command, model, "-o", output],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert output.exists()


def test_engines_that_are_killed_leave_no_drafts(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Child() as child:
        assert len(list(tmp_path.iterdir())) == 1
        child.start(peak.measure())
    assert list(tmp_path.iterdir()) == []
