"""The commands as programs see them: exit codes, JSON on stdout, progress on stderr."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from onnx import helper
from typer.testing import CliRunner

import generate
import straightway
from onnx_io.small_models import convolutions, dense, model, node, save, tensor
from straightway.cli import app as cli_app
from straightway.cli.main import COMMANDS, app
from straightway.errors import (
    Bug,
    InvalidModel,
    InvalidRequest,
    Mismatch,
    NotYet,
    StraightwayError,
    ToolFailed,
    Unsupported,
)
from straightway.flow.support import support
from straightway.remark import Remark
from straightway.report.view import View
from straightway.tflite.rows import ROWS

# all operators' samples in all types, on a busy machine
WHOLE_TABLE_S = 600
NAMES = [
    "deploy",
    "inspect",
    "convert",
    "quantize",
    "compare",
    "export",
    "diagnose",
    "fix",
    "verify",
    "profile",
    "ops",
    "rules",
    "targets",
    "doctor",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("commands")
    save(dense(), found / "m.onnx")
    straightway.convert(found / "m.onnx", found / "m.tflite", verify=False)
    return found


def python(*arguments, **options):
    """Run `python -m straightway.cli.main`, as a program would."""
    return subprocess.run(
        [sys.executable, "-m", "straightway.cli.main", *map(str, arguments)],
        capture_output=True,
        check=False,
        **options,
    )


def test_every_command_explains_itself(run):
    assert len(COMMANDS) == len(NAMES)
    listed = run("--help")
    assert listed.exit_code == 0
    for name in NAMES:
        assert name in listed.stdout
        help_text = run(name, "--help")
        assert help_text.exit_code == 0
        assert "Usage" in help_text.stdout
        assert run(name, "-h").stdout == help_text.stdout
        assert not help_text.stderr


@pytest.mark.parametrize("arguments", [["nonsense"], ["convert"], ["convert", "m.onnx"], ["convert", "--nonsense"]])  # fmt: skip
def test_wrong_usage_exits_with_2(arguments, run):
    result = run(*arguments)
    assert result.exit_code == 2
    assert not result.stdout
    assert result.stderr


def test_the_module_runs_as_a_program(folder):
    done = python("convert", folder / "m.onnx", "-o", folder / "program.tflite", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    told = json.loads(done.stdout)
    assert told["verified"] is True
    assert told["bytes"] == (folder / "program.tflite").stat().st_size


def test_the_package_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "straightway", "--version"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split() == ["straightway", straightway.__version__]


def test_progress_goes_to_stderr_only(folder):
    quiet = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    loud = {**quiet, "FORCE_COLOR": "1", "TERM": "xterm"}
    done = python("convert", folder / "m.onnx", "-o", folder / "loud.tflite", "--json", env=loud)
    assert done.returncode == 0
    assert b"converting m.onnx" in done.stderr
    json.loads(done.stdout)


def test_convert_prints_what_was_done(run, folder, tmp_path):
    result = run("convert", folder / "m.onnx", "-o", tmp_path / "m.tflite")
    assert result.exit_code == 0
    assert "equal to onnxruntime: 1 output on 3 sets of inputs, 1 interior value" in result.stdout
    assert "3 nodes" in result.stdout
    assert "minimal" in result.stdout
    assert not result.stderr


def test_convert_says_which_dimensions_have_one_size_only(run, tmp_path):
    weights = {"w": np.ones((3, 2), np.float32)}
    one = model(
        [node("MatMul", "x w", "y")], [tensor("x", ["N", "K"])], [tensor("y", None)], weights
    )
    path = save(one, tmp_path / "m.onnx")
    printed = run("convert", path, "-o", tmp_path / "m.tflite").stdout.splitlines()
    assert "N stay open: each set has other sizes" in printed
    assert "K is 3: the model takes no other size" in printed


def test_convert_without_verification_says_so(run, folder, tmp_path):
    result = run("convert", folder / "m.onnx", "-o", tmp_path / "m.tflite", "--no-verify")
    assert "not verified" in result.stdout
    told = json.loads(
        run(
            "convert", folder / "m.onnx", "-o", tmp_path / "m.tflite", "--no-verify", "--json"
        ).stdout
    )
    assert told["verified"] is None


@pytest.mark.parametrize("layout", ["nhwc", "NHWC", "Keep"])
def test_a_layout_is_known_in_any_case(layout, run, folder, tmp_path):
    done = run("convert", folder / "m.onnx", "-o", tmp_path / "m.tflite", "--io", layout)
    assert done.exit_code == 0


def test_convert_takes_layout_and_arrays(run, tmp_path):
    path = save(convolutions(), tmp_path / "net.onnx")
    np.savez(tmp_path / "a.npz", image=np.ones((1, 3, 10, 14), np.float32))
    result = run(
        "convert", path, "-o", tmp_path / "m.tflite", "--io", "nhwc",
        "--inputs", tmp_path / "a.npz", "--json",
    )  # fmt: skip
    assert result.exit_code == 0
    assert json.loads(result.stdout)["layout"]["conversions"] == []


def test_deploy_ends_with_the_path_of_the_report(run, folder, tmp_path):
    result = run("deploy", folder / "m.onnx", "-o", tmp_path / "out")
    assert result.exit_code == 0
    assert "".join(result.stdout.split()).endswith(f"{tmp_path}/out/report.html")
    assert not result.stderr


def test_deploy_as_data_is_the_report_as_data(run, folder, tmp_path):
    result = run("deploy", folder / "m.onnx", "-o", tmp_path / "out", "--json")
    told = json.loads(result.stdout)
    assert told.pop("report") == str(tmp_path / "out" / "report.html")
    assert View.from_json(told).verdict.status == "equal"
    assert told == json.loads((tmp_path / "out" / "report.json").read_text())
    assert not result.stderr


def test_deploy_knows_one_runtime_so_far(run, folder, tmp_path):
    result = run("deploy", folder / "m.onnx", "-o", tmp_path / "out", "--to", "executorch")
    assert result.exit_code == 2
    assert "litert" in result.stderr
    assert not (tmp_path / "out").exists()


def test_verify_exits_with_0_or_1(run, folder, tmp_path):
    good = run("verify", folder / "m.onnx", folder / "m.tflite")
    assert good.exit_code == 0
    assert good.stdout.rstrip().endswith("equal")
    data = (folder / "m.tflite").read_bytes()
    place = data.index(next(iter(_weights(folder))).tobytes())
    spoilt = tmp_path / "spoilt.tflite"
    spoilt.write_bytes(data[:place] + np.float32(9).tobytes() + data[place + 4 :])
    bad = run("verify", folder / "m.onnx", spoilt)
    assert bad.exit_code == 1
    assert bad.stdout.rstrip().endswith("different")
    told = json.loads(run("verify", folder / "m.onnx", spoilt, "--json").stdout)
    assert told["equal"] is False
    assert any(not check["equal"] for check in told["checks"])


def _weights(folder):
    import onnx

    for one in onnx.load(folder / "m.onnx").graph.initializer:
        yield onnx.numpy_helper.to_array(one).reshape(-1)[:1]


def test_a_difference_in_shape_is_valid_json_too(run, folder, tmp_path):
    proto = model([node("Relu", "x", "y")], [tensor("x", [2, 5])], [tensor("y", [2, 5])])
    path = save(proto, tmp_path / "relu.onnx")
    result = run("verify", path, folder / "m.tflite", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout, parse_constant=pytest.fail)
    assert told["checks"][0]["max_error"] == "inf"


def test_profile_writes_a_trace_and_prints_a_table(run, folder, tmp_path):
    result = run("profile", folder / "m.tflite", "-n", "2", "-o", tmp_path / "t.json")
    assert result.exit_code == 0
    assert "FULLY_CONN" in result.stdout
    assert re.search(
        r"^whole model: .* of which operators account for [\d.]+ %$", result.stdout, re.MULTILINE
    )
    assert json.loads((tmp_path / "t.json").read_text())["run"]["runs"] == 2
    told = run("profile", folder / "m.onnx", "-n", "2", "--json")
    assert json.loads(told.stdout)["run"]["runtime"].startswith("onnxruntime")


@pytest.mark.parametrize("option", ["--top", "-n", "--threads"])
@pytest.mark.parametrize("number", ["0", "-1"])
def test_profile_refuses_numbers_below_one(run, folder, option, number):
    result = run("profile", folder / "m.tflite", option, number, "--json")
    assert result.exit_code == 2
    told = json.loads(result.stdout)
    assert told["error"] == "InvalidRequest"
    assert number in told["message"]


def test_a_profile_knows_a_file_by_what_is_in_it(run, folder, tmp_path):
    for name in ("m.TFLITE", "m.bin"):
        (tmp_path / name).write_bytes((folder / "m.tflite").read_bytes())
        assert run("profile", tmp_path / name, "-n", "1").exit_code == 0


def test_profile_refuses_more_threads_than_any_device_has(run, folder):
    result = run("profile", folder / "m.tflite", "-n", "1", "--threads", "100000")
    assert result.exit_code == 2
    assert "got 1, 100000" in result.stderr


@pytest.fixture
def wrong_files(folder, tmp_path, monkeypatch):
    """The folder in which a command runs: a model, its file, and what is neither."""
    for name in ("m.onnx", "m.tflite"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "cut.tflite").write_bytes((folder / "m.tflite").read_bytes()[:600])
    np.savez(tmp_path / "a.npz", q=np.ones(2))
    np.save(tmp_path / "a.npy", np.ones(2))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["verify", "m.onnx", "none.tflite"], "none.tflite: there is no such file"),
        (["verify", "m.onnx", "cut.tflite"], "cut.tflite: is damaged or truncated"),
        (["verify", "m.onnx", "m.onnx"], "m.onnx: is not a TFLite model"),
        (["verify", "m.tflite", "m.onnx"], "straightway verify m.onnx m.tflite"),
        (["verify", "m.onnx", "m.tflite", "--inputs", "a.npz"], "a.npz: lacks 'x'; it holds ['q']"),
        (["profile", "cut.tflite"], "cut.tflite: is damaged or truncated"),
        (["profile", "none.onnx"], "none.onnx: there is no such file"),
        (["profile", "m.tflite", "--inputs", "a.npz"], "a.npz: lacks 'x'; it holds ['q']"),
        (["profile", "m.tflite", "--inputs", "a.npy"], "a.npy: is no .npz file of arrays"),
        (["profile", "m.tflite", "--shape", "x=3,3"], "does not fit the file's float32[2, 5]"),
    ],
)
def test_a_wrong_file_is_told_in_our_own_words(flags, words, run, wrong_files):
    result = run(*flags)
    assert result.exit_code in {2, 3}
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_trace_never_goes_over_the_model(run, folder, tmp_path):
    before = (folder / "m.tflite").read_bytes()
    result = run("profile", folder / "m.tflite", "-n", "1", "-o", folder / "m.tflite")
    assert result.exit_code == 2
    assert "is the input" in result.stderr
    assert (folder / "m.tflite").read_bytes() == before
    result = run("profile", folder / "m.tflite", "-n", "1", "-o", tmp_path / "no" / "t.json")
    assert result.exit_code == 2


def test_inspect_tells_the_fate_of_every_node(run, folder):
    result = run("inspect", folder / "m.onnx")
    assert result.exit_code == 0
    assert "FULLY_CONN" in result.stdout
    assert "converts: 3 nodes" in result.stdout
    told = json.loads(run("inspect", folder / "m.onnx", "--json").stdout)
    assert [fate["node"] for fate in told["nodes"]] == ["n_h", "n_r", "n_y"]
    assert not told["refusals"]


def test_inspect_exits_with_3_and_names_everything_that_is_refused(run, tmp_path):
    nodes = [
        helper.make_node("Fancy", ["x"], ["a"], domain="com.acme", name="[red]first"),
        node("Relu", "a", "b"),
        helper.make_node("Fancier", ["b"], ["y"], domain="com.acme", name="second"),
    ]
    path = save(model(nodes, [tensor("x", [2])], [tensor("y", None)]), tmp_path / "m.onnx")
    result = run("inspect", path)
    assert result.exit_code == 3
    assert "refused: 2 of 3 nodes" in result.stdout
    assert "what works: export it as ONNX's operators" in result.stdout
    assert "not judged" in result.stdout
    assert "[red]first" in "".join(result.stdout.split())
    told = json.loads(run("inspect", path, "--json").stdout)
    assert [fate["refused"] != "" for fate in told["nodes"]] == [True, False, True]
    assert [remark["node"] for remark in told["refusals"]] == ["[red]first", "second"]


@pytest.mark.parametrize("command", ["inspect", "profile"])
def test_all_commands_refuse_what_is_no_model(command, run, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"no model")
    result = run(command, path, "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["error"] == "InvalidModel"
    assert result.stderr.startswith("refused: ")


@pytest.mark.timeout(WHOLE_TABLE_S)
def test_ops_lists_what_is_lowered(run):
    everything = json.loads(run("ops", "--json").stdout)
    assert {"Conv", "Relu", "MatMul"} <= {entry["op"] for entry in everything}
    assert "Conv" in run("ops", "Conv").stdout
    row = json.loads(run("ops", "CONV_2D", "--json").stdout)
    assert row[0]["row"] == "CONV_2D"
    assert row[0]["xnnpack"] is True
    assert "XNNPACK: taken" in run("ops", "CONV_2D").stdout
    assert "XNNPACK: taken" not in run("ops", "CUMSUM").stdout
    unknown = run("ops", "[/]")
    assert unknown.exit_code == 2
    assert "'[/]'" in unknown.stderr
    assert "did you mean" not in unknown.stderr


def test_ops_names_versions_types_kernels_and_limits(run):
    (told,) = json.loads(run("ops", "Conv", "--json").stdout)
    assert told["versions"] == [1, 11, 22]
    assert {"f16", "f32", "f64"} <= {*told["types"]["T"]}
    assert {"row": "CONV_2D", "kernel": ROWS["CONV_2D"].kernel} in told["rows"]
    text = run("ops", "Conv").stdout
    assert f"CONV_2D ({ROWS['CONV_2D'].kernel})" in text
    assert all(limit["text"] in text for limit in told["limits"])
    assert "kernels/gather.cc" in run("ops", "Gather").stdout


@pytest.mark.timeout(WHOLE_TABLE_S)
def test_ops_prints_what_the_page_has(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    table = run("ops").stdout
    page = generate.operators_page()
    for entry in support():
        assert entry.name in table
        assert all(limit.text in table for limit in entry.limits)
        assert all(generate.escaped(limit.text) in page for limit in entry.limits)


@pytest.mark.timeout(WHOLE_TABLE_S)
def test_ops_shows_no_templates(run):
    everything = json.loads(run("ops", "--json").stdout)
    limits = [limit["text"] for entry in everything for limit in entry["limits"]]
    assert limits
    assert not [limit for limit in limits if "{" in limit or "got " in limit]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("Convv", "Conv?"), ("relu", "Relu"), ("RMSNorm", "RMSNormalization?"), ("CONV2D", "CONV_2D")],
)
def test_ops_knows_what_was_meant(name, meant, run):
    unknown = run("ops", name)
    assert unknown.exit_code == 2
    assert f"'{name}'" in unknown.stderr
    assert meant in unknown.stderr.partition("did you mean ")[2]


def test_doctor_names_versions(run):
    told = {entry["name"]: entry["found"] for entry in json.loads(run("doctor", "--json").stdout)}
    assert told["straightway"] == straightway.__version__
    assert told["onnxruntime"]
    assert "onnxruntime" in run("doctor").stdout


def test_names_of_a_model_can_not_write_on_the_terminal(run, tmp_path):
    name = "\x1b[2J[red]x[/red] :smile: \u202e"
    proto = model(
        [helper.make_node("Relu", ["x"], [name], name=name)],
        [tensor("x", [2, 3])],
        [tensor(name, [2, 3])],
    )
    path = save(proto, tmp_path / "m.onnx")
    done = run("convert", path, "-o", tmp_path / "m.tflite")
    assert done.exit_code == 0
    table = run("verify", path, tmp_path / "m.tflite")
    assert table.exit_code == 0
    for text in (done.output, table.output):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "[red]x[/red] :smile:" in done.stdout
    proto.graph.node[0].op_type = "Fancy"
    refused = run("convert", save(proto, path), "-o", tmp_path / "m.tflite")
    assert "\\u001b[2J[red]x[/red] :smile: \\u202e" in refused.stderr


def test_an_endless_name_makes_no_endless_message(run, tmp_path):
    proto = model(
        [helper.make_node("Fancy", ["x"], ["y"], name="n" * 100_000)], [tensor("x", [2])], [tensor("y", None)]
    )  # fmt: skip
    result = run("convert", save(proto, tmp_path / "m.onnx"), "-o", tmp_path / "m.tflite")
    assert result.exit_code == 3
    assert len(result.stderr) < 3000


def test_a_terminal_that_knows_few_letters_gets_the_rest_spelled_out(tmp_path):
    proto = model(
        [helper.make_node("Relu", ["x"], ["größe"], name="größe")], [tensor("x", [2, 3])], [tensor("größe", [2, 3])]
    )  # fmt: skip
    path = save(proto, tmp_path / "m.onnx")
    done = python(
        "convert", path, "-o", tmp_path / "m.tflite", env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )  # fmt: skip
    assert done.returncode == 0
    assert b"gr\\xf6\\xdfe" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", [("ops", "Conv"), ("ops", "Conv", "--json"), ("--help",)])
def test_a_reader_that_goes_away_ends_the_command_quietly(command, unbuffered):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "straightway.cli.main", *command],
        stdout=write,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 128 + signal.SIGPIPE


def test_a_full_disk_is_no_bug():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "straightway.cli.main", "ops", "Conv"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 4
    assert done.stderr.startswith(b"error: the result can't be written: No space left")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidRequest("what"), 2),
        (InvalidModel("what"), 3),
        (Unsupported("what"), 3),
        (NotYet("what"), 3),
        (Mismatch("what"), 1),
        (ToolFailed("what", output="last lines"), 4),
        (Bug("what"), 5),
        (StraightwayError("what"), 5),
    ],
)
def test_every_error_has_its_exit_code(error, code, capsys):
    with pytest.raises(typer.Exit) as caught, cli_app.errors(as_json=True):
        raise error
    assert caught.value.exit_code == code
    printed = capsys.readouterr()
    assert "what" in printed.err
    told = json.loads(printed.out)
    assert told["error"] == type(error).__name__
    assert told["refused"] == (code == 3)


def test_the_remarks_of_a_refusal_are_data(capsys):
    remark = Remark(kind="missed", step="lower", node="n", op="Op", text="why", numbers={"a": 1.0})
    with pytest.raises(typer.Exit), cli_app.errors(as_json=True):
        raise Unsupported("what", [remark])
    told = json.loads(capsys.readouterr().out)
    assert told["remarks"][0]["node"] == "n"
    assert told["remarks"][0]["numbers"] == {"a": 1.0}


def test_a_bug_says_how_to_report_it(capsys):
    with pytest.raises(typer.Exit) as caught, cli_app.errors(as_json=True):
        {}["missing"]
    assert caught.value.exit_code == 5
    printed = capsys.readouterr()
    assert printed.err.startswith("bug: straightway failed; please report this")
    assert "KeyError: 'missing'" in printed.err
    assert json.loads(printed.out)["error"] == "Bug"


def test_an_interruption_is_no_bug(capsys):
    with pytest.raises(typer.Exit) as caught, cli_app.errors(as_json=False):
        raise KeyboardInterrupt
    assert caught.value.exit_code == 130
    assert capsys.readouterr().err == ""


def test_a_bug_before_a_command_exits_with_5(monkeypatch):
    from straightway.cli import main

    def fail():
        raise RuntimeError("broken install")

    monkeypatch.setattr(main, "app", fail)
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 5


@pytest.mark.parametrize(
    ("text", "found"),
    [("N=1", {"N": 1}), ("a=b=3", {"a=b": 3}), ("N=0", {"N": 0})],
)
def test_dimensions_are_read(text, found):
    assert cli_app.parse_dims([text]) == found


@pytest.mark.parametrize("text", ["N", "N=", "=1", "N=one", "N=-1", "N=1.0", "N=²", "N= 1", ""])
def test_what_is_no_dimension_is_named(text):
    with pytest.raises(InvalidRequest, match="--dim takes NAME=N"):
        cli_app.parse_dims([text])


def test_what_is_given_twice_is_named():
    assert cli_app.parse_dims(["N=1", "N=1"]) == {"N": 1}
    with pytest.raises(InvalidRequest, match="--dim N is given twice, as 1 and as 2"):
        cli_app.parse_dims(["N=1", "M=1", "N=2"])
    assert cli_app.parse_shapes(["x=1,3", "x=1, 3"]) == {"x": [1, 3]}
    with pytest.raises(InvalidRequest, match=r"--shape x is given twice, as \[1\] and as \[2\]"):
        cli_app.parse_shapes(["x=1", "x=2"])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x=1,3", {"x": [1, 3]}),
        ("x= 1, 3", {"x": [1, 3]}),
        ("x=", {"x": []}),
        ("a=b:0=2", {"a=b:0": [2]}),
    ],
)
def test_shapes_are_read(text, found):
    assert cli_app.parse_shapes([text]) == found


@pytest.mark.parametrize("text", ["x", "=1", "x=1x3", "x=1,,3", "x=-1,3", "x=1,", "x=²", ""])
def test_what_is_no_shape_is_named(text):
    with pytest.raises(InvalidRequest, match="--shape takes INPUT=1,3,320,320"):
        cli_app.parse_shapes([text])


def test_the_entry_point_is_installed():
    from importlib.metadata import entry_points

    (found,) = entry_points(group="console_scripts", name="straightway")
    assert found.value == "straightway.cli.main:main"
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 0


def test_quantize_says_what_causes_the_error_and_what_conversions_are_left(run, tmp_path):
    path = save(convolutions(), tmp_path / "net.onnx")
    asked = ["quantize", path, "--random", "2", "-o", tmp_path / "q.onnx", "--sensitivity", "1"]
    told = run(*asked).stdout
    assert "share of the end error:" in told
    assert "the model's input 'image' is floats" in told
    data = json.loads(run(*asked, "--json").stdout)
    assert data["borders"][0]["op"] == "QUANTIZE"
    assert sum(row["share"] for row in data["nodes"]) + sum(data["inputs"].values()) == (
        pytest.approx(1)
    )
    converted = run("convert", tmp_path / "q.onnx", "-o", tmp_path / "q.tflite")
    assert "the model's input 'image' is floats" in converted.stdout


@pytest.mark.parametrize(
    ("options", "bits", "is_empty"),
    [
        (["--max-loss", "0"], "0 values in 8 bits", True),
        (["--target", "tflite-micro", "--activations", "int16"], "values in 16 bits", False),
        ([], "values in 8 bits", False),
    ],
)
def test_quantize_says_how_wide_and_warns_of_nothing_rounded(
    options, bits, is_empty, run, tmp_path
):
    path = save(convolutions(), tmp_path / "net.onnx")
    told = run("quantize", path, "--random", "2", "-o", tmp_path / "q.onnx", *options).stdout
    assert bits in told.splitlines()[0]
    assert ("warning: no value between operators" in told) == is_empty


@pytest.mark.parametrize("loss", ["x", "3 apples", "", "-1", "nan"])
def test_a_loss_has_a_unit(loss, run, tmp_path):
    path = save(convolutions(), tmp_path / "net.onnx")
    done = run("quantize", path, "--random", "1", "-o", tmp_path / "q.onnx", f"--max-loss={loss}")
    assert done.exit_code == 2
    assert "30dB" in done.stderr


@pytest.mark.parametrize("loss", ["3%", "3", "30dB", "0.5 %", "30DB"])
def test_a_loss_is_a_share_or_a_distance(loss, run, tmp_path):
    path = save(convolutions(), tmp_path / "net.onnx")
    asked = ["--random", "1", "-o", tmp_path / "q.onnx", "--json"]
    done = run("quantize", path, *asked, "--max-loss", loss)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["loss"] <= 0.0317


def test_targets_are_listed_with_their_sources(run):
    listed = run("targets", "--json")
    assert listed.exit_code == 0
    found = {one["name"]: one for one in json.loads(listed.stdout)}
    assert found["neutron-n3-64"]["per_channel"] is False
    assert found["tflite-micro-2024"]["single_scale"] == ["FULLY_CONNECTED"]
    one = run("targets", "neutron-n3-64")
    assert "source: pytorch/executorch" in one.stdout
    assert "macs: 8 MAC/cycle" in one.stdout
    assert run("targets", "nothing").exit_code == 2


def test_compare_says_which_is_nearer_and_fails_beyond_a_drop(run, tmp_path):
    path = save(convolutions(), tmp_path / "net.onnx")
    wide = {"image": np.full((1, 3, 10, 14), 900, np.float32)}
    np.savez(tmp_path / "wide.npz", **wide)
    run("quantize", path, "--random", "3", "-o", tmp_path / "a.onnx")
    run("quantize", path, "--calibration", tmp_path / "wide.npz", "-o", tmp_path / "b.onnx")
    asked = ["compare", tmp_path / "a.onnx", tmp_path / "b.onnx", "--reference", path]
    told = run(*asked, "--random", "4")
    assert told.exit_code == 0
    assert "A, a.onnx, is nearer to the float model" in told.stdout
    assert re.search(
        r"\d+ inner values?: [1-9]\d* nearer in one of the files, \d+ without", told.stdout
    )
    itself = run(*asked[:2], tmp_path / "a.onnx", *asked[3:], "--random", "4")
    assert re.search(r"inner values?: 0 nearer in one of the files, [1-9]", itself.stdout)
    assert itself.stdout.count("+0.0") == 1  # the output
    failed = run(*asked, "--random", "4", "--max-drop", "1", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["verdict"] == "a"
    assert run(*asked[:3], "--random", "4").exit_code == 2
    assert run(*asked).exit_code == 2
