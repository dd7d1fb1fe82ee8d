"""`diagnose` and `rules` as programs see them: text, JSON, exit codes, the report."""

import json
import re
import shutil

import pytest
from typer.testing import CliRunner

import straightway
from straightway.cli.main import app
from straightway.diagnosis.rules.catalogue import RULES
from straightway.ir.source import Source
from straightway.report.findings import render_findings
from straightway.report.snippet import snippet


def run(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done.stdout


def traced(programs, folder):
    """The path of a program and of its trace."""
    path, diagnosis = programs("old")
    trace = folder / "trace.json"
    trace.write_text(diagnosis.trace.to_json())
    return path, trace


def test_findings_are_printed_with_their_source(programs, tmp_path):
    path, trace = traced(programs, tmp_path)
    text = run("diagnose", path, "--trace", trace, "-o", tmp_path / "out")
    assert re.search(r"1\. batch-norm: .*: up to [\d.]+ [µm]s", text)
    assert re.search(r"> +\d+ \|  +return self.second\(self.first\(self.conv\(x\)\)\)", text)
    assert "what to do" in text
    page = (tmp_path / "out" / "report.html").read_text()
    assert "self.second(self.first(self.conv(x)))" in page
    assert not re.search(r"<script|src=|https?://", page)


def test_findings_as_data_and_the_threshold(programs, tmp_path):
    path, trace = traced(programs, tmp_path)
    data = json.loads(run("diagnose", path, "--trace", trace, "--json", "--max-overhead", "100%"))
    assert {"batch-norm", "channels-last-input"} == {one["rule"] for one in data["findings"]}
    assert 0 < data["overhead"] <= 1
    run("diagnose", path, "--trace", trace, "--max-overhead", "0", code=1)
    one = json.loads(run("diagnose", path, "--trace", trace, "--json", "--rule", "batch-norm"))
    assert [finding["rule"] for finding in one["findings"]] == ["batch-norm"]


def test_wrong_options_are_refused(programs, tmp_path):
    path, trace = traced(programs, tmp_path)
    run("diagnose", path, "--trace", trace, "--max-overhead", "much", code=2)
    run("diagnose", path, "--trace", trace, "--etdump", trace, code=2)
    run("diagnose", path, "--trace", tmp_path / "absent.json", code=2)
    run("diagnose", path, "--trace", trace, "--rule", "absent", code=2)
    run("diagnose", "gallery:small", "--trace", trace, code=2)
    run("diagnose", tmp_path / "absent.pte", code=2)


def test_a_model_is_exported_and_a_bare_file_told_by_its_kernels(programs, tmp_path):
    programs("old")
    data = json.loads(run("diagnose", "gallery:small", "-n", 2, "--json"))
    found = {one["rule"]: one for one in data["findings"]}
    assert {"layer-norm", "scalar"} <= set(found)
    assert found["layer-norm"]["cause"]["file"].endswith("gallery.py")


def test_a_file_from_elsewhere_is_told_by_its_kernels(programs, tmp_path):
    path, _ = programs("old")
    bare = tmp_path / "bare.pte"
    shutil.copy(path, bare)
    data = json.loads(run("diagnose", bare, "-n", 2, "--json"))
    norms = [one for one in data["findings"] if one["rule"] == "batch-norm"]
    assert len(norms) == 1
    assert not norms[0]["cause"]["file"]


def test_the_public_function_diagnoses(programs, tmp_path):
    path, trace = traced(programs, tmp_path)
    done = straightway.diagnose(path, trace=trace, rules=["batch-norm"])
    assert [one.rule for one in done.findings] == ["batch-norm"]


def test_rules_are_listed_and_told():
    assert all(rule.name in run("rules") for rule in RULES)
    assert "what to do" in run("rules", "layer-norm")
    data = json.loads(run("rules", "layer-norm", "--json"))
    assert data[0]["fix"] == "layer-norm"
    run("rules", "absent", code=2)


def test_a_line_that_has_changed_is_shown_as_it_was(tmp_path):
    file = tmp_path / "net.py"
    file.write_text("a = 1\nb = 2\nc = 3\n")
    shown = snippet(Source(file=str(file), line=2, code="b = 2"), around=1)
    assert [(line.number, line.text, line.is_cause) for line in shown] == [
        (1, "a = 1", False),
        (2, "b = 2", True),
        (3, "c = 3", False),
    ]
    changed = snippet(Source(file=str(file), line=2, code="old = 2"))
    assert [line.text for line in changed] == ["old = 2"]
    gone = snippet(Source(file=str(tmp_path / "gone.py"), line=9, code="x"))
    assert [line.text for line in gone] == ["x"]
    assert not snippet(Source(module="m"))


def test_a_page_escapes_what_it_shows(programs):
    _, diagnosis = programs("old")
    page = render_findings("<script>alert(1)</script>", diagnosis.trace, ())
    assert "<script>alert" not in page
    assert "No rule finds anything" in page


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_has_its_page(rule):
    import generate

    page = generate.rules_page()
    told = rule.documentation
    assert f"## {rule.name}" in page
    assert told.advice.split(".")[0].replace("|", "\\|") in page
