"""Whole numbers: quotients and remainders that TFLite has no kernel for are exact over all int64."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from case_models import build, computed, lowered

from straightway.lower.declare import LOWERINGS, case, run
from straightway.run.process import Child

LIMITS = np.iinfo(np.int64)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["litert"]) as made:
        yield made


def numbers(seed: int) -> np.ndarray:
    """Numbers of every size, and the extremes."""
    random = np.random.default_rng(seed)
    bits = random.integers(1, 64, 4000)
    found = random.integers(LIMITS.min, LIMITS.max, 4000) >> (63 - bits)
    extremes = [LIMITS.min, LIMITS.min + 1, LIMITS.max, 1, -1, 2, -2, 3]
    return np.concatenate([found, np.repeat(extremes, 8), np.tile(extremes, 8)])


def towards_zero(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    floor = a // b
    return floor + ((a % b != 0) & ((a < 0) != (b < 0)))


@pytest.mark.parametrize(
    ("op", "attrs", "oracle"),
    [
        ("Div", {}, towards_zero),
        ("Mod", {}, np.mod),
        ("Mod", {"fmod": 1}, np.fmod),
    ],
    ids=["Div", "Mod", "Mod-fmod"],
)
def test_int64(op: str, attrs: dict, oracle: object, child: Child, tmp_path: Path) -> None:
    a, b = numbers(1), numbers(2)
    b[b == 0] = 7
    kept = ~((a == LIMITS.min) & (b == -1))  # overflows in any language
    a, b = a[kept], b[kept]
    made = build(LOWERINGS["onnx", op], case(a=run(a, np.int64), b=run(b, np.int64), **attrs))
    want = oracle(a, b)
    (got,) = computed(
        child, lowered(made.with_outputs({"y0": want}), tmp_path), made.feeds, tmp_path
    )
    wrong = np.flatnonzero(got != want)
    assert not wrong.size, [(int(a[k]), int(b[k]), int(want[k]), int(got[k])) for k in wrong[:5]]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize(
    "product",
    [
        ("MatMul", ((2, 3, 4), (4, 5)), {}),
        ("MatMul", ((4,), (2, 4, 3)), {}),
        ("Gemm", ((3, 4), (5, 4)), {"transB": 1, "alpha": 3.0}),
        ("Einsum", ((2, 3, 4), (2, 4)), {"equation": "bij,bj->i"}),
    ],
)
def test_products_wrap_around(product: tuple, dtype: str, child: Child, tmp_path: Path) -> None:
    op, shapes, attrs = product
    random = np.random.default_rng(3)
    limits = np.iinfo(dtype)
    a, b = (random.integers(limits.min, limits.max, s, dtype, endpoint=True) for s in shapes)
    given = {"inputs": [run(a, dtype), run(b, dtype)]}
    if op != "Einsum":
        given = {"a": run(a, dtype), "b": run(b, dtype)}
    made = build(LOWERINGS["onnx", op], case(**given, **attrs))
    want = {
        "MatMul": lambda: np.matmul(a, b),
        "Gemm": lambda: np.matmul(a, b.T) * np.dtype(dtype).type(3),
        "Einsum": lambda: np.einsum("bij,bj->i", a, b),
    }[op]()
    (got,) = computed(
        child, lowered(made.with_outputs({"y0": want}), tmp_path), made.feeds, tmp_path
    )
    np.testing.assert_array_equal(got, want)
