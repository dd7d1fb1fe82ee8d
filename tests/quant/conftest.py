"""One child process for all tests of a run."""

import pytest

from straightway.run.process import Child


@pytest.fixture(scope="session")
def child():
    with Child(engines=["litert", "onnxruntime"]) as own:
        yield own
