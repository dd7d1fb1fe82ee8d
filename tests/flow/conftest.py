"""One child process for all tests that run engines, and the same numbers for each test."""

import numpy as np
import pytest

from straightway.run.process import Child


@pytest.fixture(scope="session")
def child():
    with Child(engines=["litert", "onnxruntime"]) as one:
        yield one


# by module: its generator as it was made
_FIRST = {}


def pytest_collection_modifyitems(items):
    """Remember what every module's generator would draw first."""
    for module in {item.module for item in items if hasattr(item, "module")}:
        generator = getattr(module, "RNG", None)
        if isinstance(generator, np.random.Generator):
            _FIRST[module.__name__] = (generator, generator.bit_generator.state)


@pytest.fixture(scope="module", autouse=True)
def _first_numbers():
    _restart()


@pytest.fixture(autouse=True)
def _same_numbers():
    _restart()


def _restart():
    """Every test draws the same, whatever ran before."""
    for generator, state in _FIRST.values():
        generator.bit_generator.state = state
