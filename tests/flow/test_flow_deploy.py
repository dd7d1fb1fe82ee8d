"""`deploy`: the report, its data, the trace, and how they hang together."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from onnx import helper
from rich.console import Console
from traced_model import traced, traced_model

import straightway
from onnx_io.small_models import model, node, save, tensor
from straightway.errors import InvalidRequest, Unsupported
from straightway.flow.view import verdict_of, view_of
from straightway.report.html import render_html
from straightway.report.text import print_summary
from straightway.report.view import View
from straightway.trace.schema import Trace

NODES = {"n_c", "n_r", "n_s", "n_y"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("deploy")


@pytest.fixture(scope="module")
def done(folder):
    told = []
    path = save(traced_model(), folder / "net.onnx")
    before = path.read_bytes()
    found = straightway.deploy(path, folder / "new" / "out", seeds=[0], step=told.append)
    assert path.read_bytes() == before
    assert told[0] == "reading"
    assert told[-1] == "writing the report"
    return found


def test_all_files_are_there_and_nothing_else(done, folder):
    assert done.report == folder / "new" / "out" / "report.html"
    assert sorted(p.name for p in done.report.parent.iterdir()) == [
        "net.tflite", "report.html", "report.json", "trace.json",
    ]  # fmt: skip
    assert (folder / "new" / "out" / "net.tflite").read_bytes() == done.conversion.data


def test_the_data_of_the_report_can_be_read_back(done):
    text = (done.report.parent / "report.json").read_text()
    assert View.from_json(json.loads(text)) == done.view
    trace = Trace.from_json((done.report.parent / "trace.json").read_text())
    assert trace == done.measurement.trace
    assert trace.run.model == "net.tflite"


def test_the_verdict_counts_what_was_compared(done):
    verdict = done.view.verdict
    assert verdict.status == "equal"
    assert verdict.seeds == 1
    assert len(verdict.outputs) == 1
    assert verdict.interior_count == len(verdict.interior) == 2
    assert "1 output on 1 set of inputs and 2 interior values" in verdict.text


def test_every_op_knows_its_node_and_its_line(done):
    rows = [row for row in done.view.operators if row.origins]
    assert {name for row in rows for name in row.origins} == NODES
    first = next(row for row in rows if row.kind == "CONV_2D")
    assert first.source == "/home/user/net.py:21 x = self.conv(x)"
    assert set(first.origins) == {"n_c", "n_r"}
    assert first.op_types == ("Conv", "Relu")
    text = done.report.read_text()
    assert "net.py:23" in text
    assert "x.cumsum(2)" in text


def test_partitions_say_what_cuts_them(done):
    view = done.view
    cut = next(row for row in view.operators if row.kind == "CUMSUM")
    assert cut.place == "builtin"
    assert cut.partition is None
    assert cut.remarks[0]
    assert len(view.partitions) == 2
    assert "CUMSUM" in view.partitions[0].cut_by
    assert view.partitions[0].reason == cut.remarks[0]
    assert view.partitions[1].cut_by == ""
    inside = [row for row in view.operators if row.partition is not None]
    assert len(inside) == sum(p.ops for p in view.partitions)
    assert all(row.place == f"xnnpack #{row.partition}" for row in inside)


def test_times_add_up_to_the_whole(done):
    if not done.measurement.trace.run.operator_level:
        pytest.skip("this profiler times no operators")
    view = done.view
    assert all(row.time_ns is not None for row in view.operators if row.origins)
    shares = [category.share for category in view.categories]
    assert sum(shares) == pytest.approx(1, abs=0.02)
    # operators are timed in other runs than the whole: of some tens of µs they may seem to take more
    trace = done.measurement.trace
    names = {category.name for category in view.categories}
    rest = trace.median_ns - sum(row.time_ns or 0 for row in view.operators)
    assert ("unaccounted" in names) == (abs(rest) > 1e-5 * trace.median_ns)
    named = sum(row.time_ns for row in view.operators if row.origins and row.time_ns)
    assert named > 0.8 * trace.operator_ns


def test_the_plan_names_every_conversion_with_its_op(done):
    plan = done.view.plan
    kinds = {row.index: row.kind for row in done.view.operators}
    assert plan.conversions
    assert all(kinds[c.operator] == "TRANSPOSE" for c in plan.conversions)
    transposes = [row for row in done.view.operators if row.kind == "TRANSPOSE"]
    assert len(transposes) == len(plan.conversions)
    for conversion in plan.conversions:
        assert conversion.bytes == 4 * 12 * 10 * conversion.shape[1]
        assert conversion.cause
        assert conversion.demanded_by


def test_both_engines_are_timed(done):
    latency = done.view.latency
    assert latency.ours.engine.startswith("LiteRT")
    assert latency.reference.engine == "onnxruntime"
    for timing in (latency.ours, latency.reference):
        assert 0 < timing.p10_ns <= timing.median_ns <= timing.p90_ns
        assert timing.runs >= 7
    assert done.view.machine.cpu
    assert done.view.machine.threads == 1


def test_the_model_and_the_file_are_described(done, folder):
    view = done.view
    assert view.title == view.model.name == "net.onnx"
    assert view.model.bytes == (folder / "net.onnx").stat().st_size
    assert (view.model.opset, view.model.nodes) == ("17", 4)
    assert view.result.name == "net.tflite"
    assert view.result.bytes == done.conversion.size_bytes
    assert view.result.ops == len([r for r in view.operators if r.origins])
    assert view.conversion_ns == pytest.approx(sum(step.time_ns for step in view.steps))
    assert set(view.versions) >= {"straightway", "onnxruntime", "ai-edge-litert"}


def test_again_into_the_same_folder_replaces_the_report(done, folder, tmp_path):
    out = Path(shutil.copytree(done.report.parent, tmp_path / "out"))
    (out / "notes.txt").write_text("mine")
    (out / "report.json").write_text("of another model")
    straightway.deploy(folder / "net.onnx", out, seeds=[0])
    assert (out / "notes.txt").read_text() == "mine"
    assert View.from_json(json.loads((out / "report.json").read_text())).title == "net.onnx"
    assert len(list(out.iterdir())) == 5


def test_a_file_where_the_folder_should_be_is_a_wrong_request(folder, tmp_path):
    save(traced_model(), tmp_path / "m.onnx")
    (tmp_path / "out").write_text("mine")
    with pytest.raises(InvalidRequest, match="is a file; give a folder"):
        straightway.deploy(tmp_path / "m.onnx", tmp_path / "out")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.parametrize("name", ["report.html", "report.json", "trace.json", "m.tflite"])
def test_a_model_with_the_name_of_a_report_is_not_overwritten(name, tmp_path):
    path = save(traced_model(), tmp_path / name)
    before = path.read_bytes()
    if name == "m.tflite":
        path = path.rename(tmp_path / "m.tflite")
    with pytest.raises(InvalidRequest, match="is the input"):
        straightway.deploy(path, tmp_path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_refusal_names_the_line_of_the_model(tmp_path):
    unknown = helper.make_node("Fancy", ["x"], ["y"], domain="com.acme", name="n_y")
    proto = model(
        [traced(unknown, 31, "x = acme.fancy(x)", "fancy")], [tensor("x", [2])], [tensor("y", None)]
    )
    with pytest.raises(Unsupported) as caught:
        straightway.deploy(save(proto, tmp_path / "m.onnx"), tmp_path / "out")
    assert "from /home/user/net.py:31 x = acme.fancy(x)" in str(caught.value)
    assert caught.value.remarks[0].source == "/home/user/net.py:31 x = acme.fancy(x)"
    assert not (tmp_path / "out").exists()


def test_the_module_stands_for_the_line_where_there_is_none(tmp_path):
    relu = node("Fancy", "x", "y", domain="com.acme")
    relu.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'encoder.0', 'fancy']")
    proto = model([relu], [tensor("x", [2])], [tensor("y", None)])
    with pytest.raises(Unsupported, match=r"from encoder\.0"):
        straightway.convert(save(proto, tmp_path / "m.onnx"))


def test_the_profilers_doubts_are_told_everywhere(done):
    found = done.conversion.verification
    run = replace(done.measurement.trace.run, reason="the operators sum to 9 ns")
    doubtful = replace(done.measurement, trace=replace(done.measurement.trace, run=run))
    view = view_of(done.conversion, found, doubtful, created="now")
    assert view.notes == ("operators by LiteRT's profiler: the operators sum to 9 ns",)
    console = Console(file=io.StringIO(), width=80)
    print_summary(view, console)
    for text in (console.file.getvalue(), json.dumps(view.to_json()), render_html(view)):
        assert "the operators sum to 9 ns" in text
    whole = replace(run, operator_level=False)
    view = view_of(
        done.conversion,
        found,
        replace(doubtful, trace=replace(doubtful.trace, run=whole)),
        created="now",
    )
    assert view.notes == ()
    assert "no time per operator: the operators sum to 9 ns" in view.latency.notes


def test_an_output_counts_once_with_its_sets_of_inputs_inside(done):
    check = done.conversion.verification.outputs[0]
    errors = (1e-7, 3e-7, 2e-7, 5e-7, 4e-7, 6e-7)  # outputs y, z on three sets
    checks = tuple(
        replace(check, name="yz"[place % 2], max_error=error) for place, error in enumerate(errors)
    )
    found = replace(done.conversion.verification, outputs=checks, seeds=3)
    shown = verdict_of(found).outputs
    assert [(one.name, one.max_error) for one in shown] == [("y", 4e-7), ("z", 6e-7)]
    assert [one.max_error for one in shown[0].sets] == [1e-7, 2e-7, 4e-7]
    unequal = (*checks[:2], replace(checks[2], reason="differs"), *checks[3:])
    first = verdict_of(replace(found, outputs=unequal, difference=None)).outputs[0]
    assert (first.equal, first.max_error) == (False, 2e-7)
