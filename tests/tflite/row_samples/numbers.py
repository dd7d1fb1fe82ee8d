"""Small arrays whose values every element type can hold."""

import numpy as np


def whole(*shape: int, low: int = 1, high: int = 6, dtype: type = np.float32) -> np.ndarray:
    """Whole numbers from low to high - 1, always the same for a shape."""
    random = np.random.default_rng(sum(shape) + len(shape))
    return random.integers(low, high, shape).astype(dtype)


def truths(*shape: int) -> np.ndarray:
    """Truth values."""
    return whole(*shape, low=0, high=2).astype(bool)


def real(*shape: int, low: float = -3.0, high: float = 3.0) -> np.ndarray:
    """Real numbers between low and high."""
    random = np.random.default_rng(sum(shape) + 7 * len(shape))
    return random.uniform(low, high, shape).astype(np.float32)
