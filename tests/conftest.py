"""What all tests share."""

import os
import subprocess

import pytest

from straightway.run.process import Child

ENDS_WITHIN_S = 10.0


@pytest.fixture(scope="session", autouse=True)
def _children_write_their_coverage():
    """Let engine processes end by themselves while coverage is measured: a killed one writes none."""
    if "COVERAGE_PROCESS_CONFIG" not in os.environ:
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
        patch.setattr(Child, "_end", finish)
        yield
