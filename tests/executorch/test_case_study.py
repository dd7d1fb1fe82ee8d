"""The case study in little: one partition is left, and few changes of layout."""

import pytest

torch = pytest.importorskip("torch")

import squeeze_sam  # noqa: E402
from straightway.executorch.exported import Recipe, export  # noqa: E402
from straightway.executorch.model import made  # noqa: E402
from straightway.executorch.rewrites.catalogue import REWRITES  # noqa: E402
from straightway.flow.export import compared  # noqa: E402
from straightway.run.process import Child  # noqa: E402


def test_one_partition_is_left():
    model = made("small", squeeze_sam.small)
    before = export(model, Recipe()).lowered.map
    after = export(model, Recipe(rewrites=REWRITES))
    found = after.lowered.map
    assert len(before.delegates) > 5
    assert len(found.delegates) == 1
    assert all(op.partition is not None for op in found.ops)
    assert found.inserted_transposes < before.inserted_transposes / 2
    with Child() as child:
        numbers = compared(child, after, "fp32")
    assert numbers.equal
    assert numbers.model_db > 120
