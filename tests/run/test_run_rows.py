"""Rows that weights are multiplied with, drawn in the child."""

import numpy as np
import pytest
from test_run_observe import child, path  # noqa: F401 - fixtures

from straightway.errors import ToolFailed
from straightway.run import ort
from straightway.run.rows import RowDrawer

SPEC = {"value": "r", "most": 4, "share": 3, "axis": 1}


def ones(k=1.0):
    return {"x": np.full((2, 3), k, np.float32)}


def test_rows_of_all_samples_are_drawn(child, path):  # noqa: F811
    drawer = RowDrawer(child, path, [SPEC, SPEC | {"value": "y", "most": 100}])
    assert drawer.result() == {}
    for k in range(3):
        drawer.add(ones(k))
    found = drawer.result()
    assert found[0].shape == (1, 4, 3)
    assert sorted(found[1][0, :, 0]) == [0, 0, 2, 2, 4, 4]


def test_what_another_model_interrupts_is_not_continued(child, path):  # noqa: F811
    drawer = RowDrawer(child, path, [SPEC])
    drawer.add(ones())
    child.call(ort.run(path, ones()))
    with pytest.raises(ToolFailed, match="lost"):
        drawer.add(ones())


def test_where_nothing_weighs_nothing_runs(child, path):  # noqa: F811
    drawer = RowDrawer(child, path, [])
    drawer.add(ones())
    assert drawer.result() == {}
