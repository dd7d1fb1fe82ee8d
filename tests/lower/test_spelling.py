"""Lowered ops in ONNX's words: every sample of every declaration, lowered and spelled again."""

from pathlib import Path

import onnx
import pytest
from case_models import build, expected
from test_declarations import cases, child  # noqa: F401 - a fixture

from straightway.flow.tolerance import compare
from straightway.ingest.onnx import ingest
from straightway.lower.declare import Case, Lowering
from straightway.lower.lowering import lower_graph
from straightway.onnx_io.write import to_bytes
from straightway.quant.rounded_model import floats_of
from straightway.quant.spelling import OPSET
from straightway.run import ort
from straightway.run.process import Child


@pytest.mark.parametrize(("lowering", "case"), cases("samples"))
def test_spelled_again(lowering: Lowering, case: Case, child: Child, tmp_path: Path) -> None:  # noqa: F811
    made = build(lowering, case)
    want = expected(child, lowering, case, tmp_path)
    path = tmp_path / "model.onnx"
    onnx.save(made.with_outputs(want), path)
    source = ingest(path)
    found = lower_graph(source)
    if found.refusals or any(node.graphs() for node in source.nodes):
        pytest.skip("not lowered, or control flow")
    model = floats_of(source, found)
    if any(node.op is kept.op for node in model.graph.nodes for kept in source.nodes):
        pytest.skip("stays as it is")
    path.write_bytes(to_bytes(model.graph, OPSET, {}))
    got = child.call(ort.run(path, made.feeds, optimise=False))
    for name, array in want.items():
        check = compare(name, array, got[name])
        assert check.equal, check.reason
