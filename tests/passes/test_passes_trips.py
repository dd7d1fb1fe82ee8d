"""How often a Loop runs, as far as it can be known before it runs."""

from pathlib import Path

import onnx.parser
import pytest

from straightway.ingest.onnx import ingest
from straightway.passes import fold
from straightway.passes.trips import trip_count

MODEL = """
    <ir_version: 8, opset_import: ["" : 17]>
    m (float[2] x, int64 n, bool r) => (float[2] y) <
        int64 seven = {7}, int64 none = {0}, int64 less = {-3}, int64 one = {1},
        bool yes = {1}, bool no = {0}
    > {
        k, y = Loop(TRIPS, CONDITION, one, x) <
            body = b (int64 i, bool c, int64 a, float[2] p) => (bool d, int64 a1, float[2] q) {
                a1 = Add(a, i)
                BODY
                q = Add(p, p)
            }
        >
    }
"""
HOLDS = "d = Identity(c)"
COUNTS = "d = Less(a1, seven)"  # 1, 2, 4, 7
NEVER = "d = Not(c)"
UNKNOWN = "s = ReduceSum<keepdims = 0>(p) d = Less(s, s)"


@pytest.mark.parametrize(
    ("trips", "condition", "body", "wanted"),
    [
        ("seven", "yes", HOLDS, 7),
        ("seven", '""', HOLDS, 7),
        ("none", "yes", HOLDS, 0),
        ("less", "yes", HOLDS, 0),
        ("seven", "no", HOLDS, 0),
        ("seven", "yes", COUNTS, 4),
        ("one", "yes", COUNTS, 1),
        ('""', "yes", COUNTS, 4),
        ('""', "yes", NEVER, 1),
        ('""', "yes", HOLDS, None),
        ("n", "yes", HOLDS, None),
        ("seven", "r", HOLDS, None),
        ("seven", "yes", UNKNOWN, None),
    ],
)
def test_turns(tmp_path: Path, trips: str, condition: str, body: str, wanted: int | None) -> None:
    text = MODEL.replace("TRIPS", trips).replace("CONDITION", condition).replace("BODY", body)
    path = tmp_path / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    graph = ingest(path)
    node = next(node for node in graph.nodes if node.op.name == "Loop")
    assert trip_count(node, 20) == wanted
    assert trip_count(node, 3) == (wanted if wanted is not None and wanted <= 3 else None)
    fold.run(graph)
    assert trip_count(node, 20) == wanted
