"""One child process for all tests that run engines."""

import pytest

from straightway.run.process import Child


@pytest.fixture(scope="session")
def child():
    with Child(engines=["litert", "onnxruntime"]) as one:
        yield one
