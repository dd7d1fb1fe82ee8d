"""Element types that a kernel lacks: bits that only move, and whole numbers at the ends of their types."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from case_models import build, computed, expected, lowered

from straightway.flow.tolerance import compare
from straightway.lower.declare import LOWERINGS, Case, case, run
from straightway.run.process import Child

TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


def numbers(dtype: str, *shape: int) -> np.ndarray:
    """The ends of a type and what lies between."""
    random = np.random.default_rng(5)
    if dtype == "bool":
        return random.random(shape) < 0.5
    limits = np.iinfo(dtype)
    ends = np.array([limits.min, limits.max, limits.max // 2 + 1, 0, 1, 7], dtype)
    return random.choice(ends, shape)


def moves(dtype: str) -> list[tuple[str, Case]]:
    """What only moves elements."""
    x = run(numbers(dtype, 2, 4, 6), dtype)
    image = run(numbers(dtype, 1, 4, 2, 2), dtype)
    places = run([[[0, 1, 1, 0, 3, 2]]], np.int64)
    return [
        ("Concat", case(inputs=[x, x], axis=1)),
        ("Split", case(input=x, axis=2, split=np.array([2, 4]), outputs=2)),
        ("Pad", case(data=x, pads=np.array([0, 1, 2, 0, 0, 1]))),
        ("Pad", case(data=x, pads=np.array([0, 1, 2, 0, 0, 1]), mode="edge")),
        ("Gather", case(data=x, indices=run([2, 0], np.int64), axis=1)),
        ("GatherElements", case(data=x, indices=places, axis=1)),
        ("GatherND", case(data=x, indices=run([[0, 2], [1, 3]], np.int64))),
        ("ScatterND", case(data=x, indices=run([[1]], np.int64), updates=run(x.array[:1], dtype))),
        ("DepthToSpace", case(input=image, blocksize=2)),
        ("SpaceToDepth", case(input=image, blocksize=2)),
        ("NonZero", case(x=x)),
        ("Compress", case(input=x, condition=run([True, False], bool), axis=0)),
    ]


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


@pytest.mark.parametrize(
    ("dtype", "op", "given"),
    [
        pytest.param(d, op, given, id=f"{op}-{d}-{k}")
        for d in TYPES
        for k, (op, given) in enumerate(moves(d))
    ],
)
def test_bits_move(dtype: str, op: str, given: Case, child: Child, tmp_path: Path) -> None:
    lowering = LOWERINGS["onnx", op]
    made = build(lowering, given)
    want = expected(child, lowering, given, tmp_path)
    found = lowered(made.with_outputs(want), tmp_path)
    assert not found.refusals
    got = computed(child, found, made.feeds, tmp_path)
    for (name, array), result in zip(want.items(), got, strict=True):
        check = compare(name, array, result)
        assert check.equal, check.reason
