"""The child process: asynchronous calls, time limits, deaths, quiet terminals, light imports."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import tiny_models as tiny

from straightway.errors import InvalidRequest, ToolFailed
from straightway.run import litert, ort
from straightway.run.process import Call, Child
from straightway.run.wire import receive, send


def test_the_parent_imports_no_engine_and_quickly():
    code = (
        "import sys, straightway.run.process, straightway.run.litert, straightway.run.ort, "
        "straightway.run.race, straightway.run.peak\n"
        "heavy = {'onnxruntime', 'ai_edge_litert', 'onnx', 'ml_dtypes'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_parent_works_while_the_child_runs(tmp_path):
    path = tiny.onnx_net(tmp_path / "m.onnx")
    x = np.ones((2, 3), np.float32)
    with Child(engines=["onnxruntime"]) as child:
        first = child.start(ort.run(path, {"x": x}))
        second = child.start(ort.run(path, {"x": 2 * x}))  # collects the first meanwhile
        np.testing.assert_array_equal(second.result()["y"].shape, (2, 700))
        assert first.result()["y"] is not second.result()["y"]
        assert not np.array_equal(first.result()["y"], second.result()["y"])


def test_answers_larger_than_a_pipe_do_not_lock_up(tmp_path):
    path = tiny.onnx_net(tmp_path / "m.onnx")
    x = np.ones((5000, 3), np.float32)  # 14 MB come back
    with Child() as child:
        pending = [child.start(ort.run(path, {"x": x * i})) for i in range(3)]
        assert [one.result()["y"].shape for one in pending] == [(5000, 700)] * 3


def test_a_late_answer_is_an_error_and_the_next_call_works(tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite", size=2)
    x = np.ones(2, np.float32)
    with Child() as child:
        with pytest.raises(ToolFailed, match=r"m\.tflite: no answer in time"):
            child.call(litert.run(path, [x]), timeout_s=0.0)
        np.testing.assert_array_equal(child.call(litert.run(path, [x])).outputs[0], [-1, -2])


def test_a_killed_child_says_by_which_signal(tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite", size=2)
    with Child() as child:
        os.kill(child.pid, signal.SIGSEGV)
        with pytest.raises(ToolFailed, match="SIGSEGV"):
            child.call(litert.run(path, [np.ones(2, np.float32)]))


def test_an_unknown_verb_kills_the_child_with_its_traceback():
    with Child() as child, pytest.raises(ToolFailed, match=r"exit code 1(.|\n)*KeyError: 'dance'"):
        child.call(Call(verb="dance", subject="a dance", decode=lambda *_: None))


def test_closing_forgets_what_is_pending(tmp_path):
    path = tiny.onnx_net(tmp_path / "m.onnx")
    with Child() as child:
        pending = child.start(ort.run(path, {"x": np.ones((2, 3), np.float32)}))
        pid = child.pid
    with pytest.raises(ToolFailed, match="closed before it answered"):
        pending.result()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_engines_are_checked():
    with pytest.raises(
        InvalidRequest, match="engines are onnxruntime, litert, executorch; got tensorflow"
    ):
        Child(engines=["tensorflow"])


def test_nothing_reaches_the_terminal(tmp_path, capfd):
    path = tiny.conv_net(tmp_path / "m.tflite")
    with Child(measure=True) as child:
        litert.measure(child, path, [np.zeros((1, 10, 12, 3), np.float32)], runs=1)
    assert capfd.readouterr() == ("", "")


def test_a_call_is_plain_data(tmp_path):
    call = litert.run(tmp_path / "m.tflite", [np.ones(2, np.float32)])
    assert replace(call, subject="x").params == call.params


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3).T,
        np.float32(3.5).reshape(()),
        np.zeros((0, 4), np.float16),
        np.array([True, False]),
        np.array([["a", "ü"]], object),
        np.arange(20_000.0),
    ],
    ids=["strided", "scalar", "empty", "bool", "text", "larger-than-a-pipe"],
)
def test_arrays_cross_a_pipe_unchanged(array):
    reading, writing = os.pipe()
    writer = threading.Thread(target=send, args=(writing, {"k": 1}, [array]))
    writer.start()
    header, (got,) = receive(reading, time.monotonic() + 30)
    writer.join()
    os.close(writing)
    os.close(reading)
    assert header == {"k": 1}
    assert got.shape == array.shape
    np.testing.assert_array_equal(got, array)


def test_reading_ends_with_the_writer_and_with_the_deadline():
    reading, writing = os.pipe()
    with pytest.raises(TimeoutError):
        receive(reading, time.monotonic())
    os.close(writing)
    with pytest.raises(EOFError):
        receive(reading)
    os.close(reading)
