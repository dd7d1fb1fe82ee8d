"""What all tests share."""

import gc
import os
import subprocess
import sys
import time

import pytest

from straightway.run.process import Child

ENDS_WITHIN_S = 10.0
# Some tests load onnxruntime themselves.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"


@pytest.fixture(scope="session", autouse=True)
def _child_processes_are_measured(pytestconfig):
    """While coverage is measured, engine processes measure theirs, and end by themselves to write it."""
    if not pytestconfig.getoption("cov_source", default=None):
        yield
        return
    end = Child._end

    def finish(child):
        process = child._process
        if process is not None and child._pending is None:
            process.stdin.close()
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
        end(child)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COVERAGE_PROCESS_START", str(pytestconfig.rootpath / "pyproject.toml"))
        patch.setenv("COVERAGE_FILE", str(pytestconfig.rootpath / ".coverage"))
        patch.setattr(Child, "_end", finish)
        yield


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item):
    """A test marked `timed` measures time: coverage would be what it measures."""
    trace = sys.gettrace()
    if item.get_closest_marker("timed") is None or trace is None:
        return (yield)
    sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(trace)


@pytest.fixture
def least_cpu_s():
    """The least CPU time of three calls, s: other work on a machine only adds to it.

    `call` takes what `make` returns, anew each time. For a test marked `timed`. As in a conversion (flow/convert.py), no search for cycles runs
    meanwhile: its time grows with what tests before have left in memory.
    """

    def measure(call, make):
        taken = []
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                made = make()
                start = time.process_time()
                call(made)
                taken.append(time.process_time() - start)
        finally:
            gc.enable()
        return min(taken)

    return measure
