"""The commands of the PyTorch route, from the command line to the file."""

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import torch_models  # noqa: E402

from straightway.cli import main as _main  # noqa: E402, F401 - registers the commands
from straightway.cli.app import app  # noqa: E402
from straightway.errors import InvalidRequest  # noqa: E402
from straightway.executorch import installed  # noqa: E402
from straightway.executorch.rewrites.catalogue import named  # noqa: E402
from straightway.trace.schema import Trace  # noqa: E402

HERE = torch_models.__file__


def run(*arguments, code=0):
    done = CliRunner().invoke(app, [str(one) for one in arguments])
    assert done.exit_code == code, done.output
    return done.output


def test_export_tells_what_is_left_and_why(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    out = run("export", f"{HERE}:parts", "-o", tmp_path / "parts.pte")
    assert "not delegated" in out
    assert out.count("│ select_copy") == 1
    assert "torch_models.py:" in out
    assert "dB signal to error" in out
    assert {path.name for path in tmp_path.iterdir()} == {"parts.pte", "parts.pte.json"}


def test_what_is_wrong_in_the_command_is_told_without_torch(tmp_path, monkeypatch):
    monkeypatch.setattr("straightway.executorch.installed.require", lambda: pytest.fail("slow"))
    for model, said in (("w.pth", "checkpoint"), ("absent.py:f", "no such file"), ("f", "neither")):
        assert said in run("export", model, "-o", tmp_path / "x.pte", code=2)
    assert "at a time" in run("fix", "m:f", "-o", "x.pte", "--int8", "--int4", code=2)


def test_fix_tells_promise_and_result_and_compare_takes_its_traces(tmp_path):
    path = tmp_path / "fixed.pte"
    said = json.loads(run("fix", f"{HERE}:attention", "-o", path, "--rule", "attention", "--json"))
    (only,) = said["fixes"]
    assert only["name"] == "attention"
    assert only["promise_ns"] > 0
    assert only["low"] <= only["ratio"] <= only["high"]
    assert only["kept"] is (only["high"] < 1)
    assert said["after"]["partitions"] <= said["before"]["partitions"]
    assert said["model_db"] > 100
    traces = [tmp_path / "a.json", tmp_path / "b.json"]
    for trace in traces:
        run("profile", path, "-n", "3", "-o", trace, "--what-if", "4")
    compared = json.loads(run("compare", *traces, "--json"))
    assert compared["whole"]["low"] <= compared["whole"]["high"]
    assert compared["operators"]


def test_a_record_tells_the_lines_of_a_program_from_elsewhere(tmp_path):
    program, record, trace = (tmp_path / name for name in ("net.pte", "net.etrecord", "t.json"))
    run("export", f"{HERE}:small", "-o", program, "--etrecord", record, "--no-verify")
    (tmp_path / "net.pte.json").unlink()
    run("profile", program, "-n", "3", "--etrecord", record, "-o", trace)
    found = json.loads(trace.read_text())
    lined = {op["name"] for op in found["ops"] if op["file"].endswith("torch_models.py")}
    assert {"aten_native_layer_norm_default", "aten_mul_tensor"} <= lined
    timed = [one for one in found["events"] if one["op_index"] is not None]
    assert any(found["ops"][one["op_index"]]["name"] in lined for one in timed)
    record.write_bytes(record.read_bytes()[:2000])
    assert "damaged" in run("profile", program, "--etrecord", record, code=3)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="cpuinfo's flags are x86's")
def test_a_feature_of_the_cpu_is_measured_on_and_off(tmp_path):
    program, trace = tmp_path / "net.pte", tmp_path / "net.json"
    run("export", f"{HERE}:attention", "-o", program, "--no-verify")
    arguments = ("profile", program, "-n", "3", "--cap", "avx512*", "--cap", "fma3")
    said = run(*arguments, "-o", trace)
    assert "off: without avx512*, fma3" in said
    for title in ("category", "in the model", "operator", "whole, in 3 pairs of runs in turns"):
        assert title in said
    names = {"net.pte", "net.pte.json", "net.json", "net.off.json"}
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.mark.skipif(
    platform.machine() != "x86_64" or "avx2" not in Path("/proc/cpuinfo").read_text("utf-8"),
    reason="cpuinfo's flags are x86's",
)
def test_a_product_takes_longer_without_wide_vectors(tmp_path):
    program, trace = tmp_path / "net.pte", tmp_path / "net.json"
    run("export", f"{HERE}:large_product", "-o", program, "--no-verify")
    run("profile", program, "-n", "5", "--cap", "avx*", "--cap", "fma3", "-o", trace)
    on, off = (
        Trace.from_json(path.read_text("utf-8")) for path in (trace, tmp_path / "net.off.json")
    )
    assert off.median_ns > 1.5 * on.median_ns


def test_a_model_goes_both_ways():
    said = json.loads(run("compare", f"{HERE}:parts", "--json"))
    assert float(said["apart_db"]) > 100
    assert said["ratio"]["pairs"] >= 7
    assert any("torch_models.py" in row["name"] for row in said["difference"]["places"])


def test_what_one_way_folds_is_one_line_on_both():
    said = json.loads(run("compare", f"{HERE}:folded", "--json"))
    rows = {row["name"].partition(" torch_models")[0]: row for row in said["difference"]["places"]}
    # the convolution's line and its norm's, which alone torch.onnx keeps; of both of its calls
    for name in ("conv + norm", "last.0 + last.1 + last.2"):
        assert min(rows[name]["a_ns"], rows[name]["b_ns"]) > 0
    assert min(said["shared"].values()) > 0.9
    operators = {row["name"]: row for row in said["difference"]["operators"]}
    assert operators["Convolution"]["ratio"] is not None
    assert not any("." in name or name.isupper() for name in operators)


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [
        (("export", "x:y", "-o", "x.pte", "--int8", "--int4"), "at a time", 2),
        (("export", "x:y", "-o", "x.pte", "--dtype", "fp8"), "fp32 or fp16", 2),
        (("profile", HERE, "--cap", "avx2"), "are for ExecuTorch", 2),
        (("profile", "x.pte"), "there is no such file", 2),
        (("profile", HERE, "-n", "-3"), "--runs takes a number of 1 or more", 2),
        (("diagnose", "x.pte", "--runs", "0"), "--runs takes a number of 1 or more", 2),
        (("compare", "x:y", "--reference", "x.onnx"), "for two files", 2),
        (("profile", "x.pte", "--cap", "avx2", "--etdump", "x"), "at a time", 2),
        (("profile", "absent.pte"), "no such file", 2),
        (("profile", "x.pte", "--what-if", "0"), "above 0", 2),
    ],
)
def test_wrong_options_are_told(arguments, said, code):
    assert said in run(*arguments, code=code)


NET = f"{HERE}:small"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("export", NET, "-o", "net.bin"), "is a .pte file"),
        (("export", NET, "-o", "absent/net.pte"), "no folder"),
        (("export", NET, "-o", "net.pte", "--random", "2"), "is for --int8"),
        (("export", NET, "-o", "net.pte", "--int8"), "no calibration data"),
        (("fix", NET, "-o", "net.bin"), "is a .pte file"),
        (("fix", NET, "-o", "net.pte", "--rule", "atention"), "there are constants"),
        (("fix", NET, "-o", "net.pte", "--int8", "--calibration", "absent"), "no such file"),
        (("diagnose", NET, "--rule", "atention"), "there are attention"),
        (("diagnose", NET, "--max-overhead", "x"), "takes a share"),
        (("diagnose", NET, "--int8"), "no calibration data"),
        (("diagnose", NET, "--etdump", "x"), "belongs to a file"),
        (("diagnose", "absent.pte"), "no such file"),
        (("diagnose", Path(HERE).parent), "neither a .pt2 file nor MODULE:FACTORY"),
        (("diagnose", NET, "-o", f"{HERE}/inside"), "no folder can be made"),
        (("compare", Path(HERE).parent), "neither a .pt2 file nor MODULE:FACTORY"),
        (("profile", Path(HERE).parent), "is a directory"),
        (("profile", HERE, "--etdump", "absent"), "no such file"),
    ],
)
def test_mistakes_are_told_before_torch_is_loaded(arguments, said, monkeypatch):
    def loads():
        raise RuntimeError("torch would be loaded")

    monkeypatch.setattr(installed, "require", loads)
    assert said in run(*arguments, code=2)


def test_rules_and_requests_are_known_without_torch():
    code = (
        "import sys; import straightway.flow.diagnose_request, straightway.executorch.rewrites.order; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'executorch')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_rewrites_are_named():
    with pytest.raises(InvalidRequest, match="attention"):
        named(["atention"])
    assert [one.name for one in named(["split", "attention"])] == ["attention", "split"]
