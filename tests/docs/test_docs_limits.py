"""The table of published models on the page of limits holds, for those that this machine has."""

import os
import re
from pathlib import Path

import pytest

import generate
import straightway

FOLDER = os.environ.get("STRAIGHTWAY_CORPUS")
ROW = re.compile(r"^\| (\S+\.onnx) \| (\S+) \| (.*?) \| (.*) \|$", re.MULTILINE)
ROWS = ROW.findall((Path(generate.__file__).parent / "limits.md").read_text())


def sizes(text):
    pairs = (part.partition("=") for part in re.findall(r"`([^`]+)`", text))
    return {name: [int(size) for size in shape.split(",")] for name, _, shape in pairs}


def test_the_table_is_read():
    assert len(ROWS) > 15
    assert sizes("`x=1,2` `y=3`") == {"x": [1, 2], "y": [3]}
    for name, types, _, outcome in ROWS:
        assert outcome == "equal" or outcome.startswith("refused: "), name
        assert outcome == "equal" or types.startswith("int8"), name


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("name", "types", "shapes", "outcome"), ROWS, ids=[r[0] for r in ROWS])
def test_a_published_model_ends_as_the_table_says(name, types, shapes, outcome):
    path = Path(FOLDER or "") / name
    if not FOLDER or not path.exists():
        pytest.skip("STRAIGHTWAY_CORPUS names no folder with this model")
    if outcome == "equal":
        done = straightway.convert(path, shapes=sizes(shapes))
        assert done.verification is not None
        assert done.verification.equal
    else:
        with pytest.raises(
            straightway.Unsupported, match=re.escape(outcome.removeprefix("refused: "))
        ):
            straightway.convert(path, shapes=sizes(shapes))
