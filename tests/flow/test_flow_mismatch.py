"""A file that computes other numbers: found, bisected to the node, kept under another name."""

import json
import re

import numpy as np
import pytest
from faults import abort_the_engine, one_channel_off, spoil_constant, write_garbage
from onnx import load
from typer.testing import CliRunner

import straightway
from onnx_io.small_models import convolutions, model, node, save, tensor, tokens, weights
from straightway.cli.main import app
from straightway.errors import Bug, Mismatch
from straightway.flow.convert import Request, attempt
from straightway.flow.twin import needs_twin
from straightway.onnx_io.vary import varied
from straightway.report.view import View

SECOND_WEIGHTS = 6 * 8 * 1 * 3
FIRST_WEIGHTS = 8 * 3 * 3 * 3


@pytest.fixture
def path(tmp_path):
    return save(convolutions(), tmp_path / "net.onnx")


def test_the_first_differing_node_is_named_with_both_values(path, tmp_path, child, monkeypatch):
    spoil_constant(monkeypatch, SECOND_WEIGHTS, one_channel_off)
    output = tmp_path / "net.tflite"
    output.write_bytes(b"a good file from before")
    with pytest.raises(Mismatch) as caught:
        straightway.convert(path, output, child=child)
    text = str(caught.value)
    assert "this is a fault of straightway" in text
    assert "first differing node: Conv@17 'n_d': 'd' at [0, 4, " in text
    assert f"the file is kept as {tmp_path / 'net.mismatch.tflite'}" in text
    got, want = re.search(r"is (\S+), should be (\S+)", text).groups()
    assert float(got) - float(want) > 1e-2
    assert not caught.value.refused
    assert caught.value.exit_code == 1
    assert {r.kind for r in caught.value.remarks} == {"missed"}
    assert all(r.node == "n_d" for r in caught.value.remarks)
    assert output.read_bytes() == b"a good file from before"
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "net.mismatch.tflite", "net.onnx", "net.tflite",
    ]  # fmt: skip


def test_both_values_are_those_of_the_engines(path, monkeypatch):
    import onnxruntime
    from onnx import helper, load

    spoil_constant(monkeypatch, SECOND_WEIGHTS, one_channel_off)
    made = attempt(path, Request(seeds=[0]))
    found = made.verification.difference
    proto = load(path)
    proto.graph.output.append(helper.make_empty_tensor_value_info("d"))
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (want,) = session.run(["d"], made.arrays)
    assert found.check.want == pytest.approx(want[found.check.place], rel=1e-5)
    assert found.check.name == "d"
    assert found.node == "n_d"


def test_a_fault_in_the_first_node_is_found_there(path, monkeypatch):
    spoil_constant(monkeypatch, FIRST_WEIGHTS, one_channel_off)
    found = attempt(path, Request(seeds=[0])).verification
    assert not found.equal
    # the convolution carries its Relu, and stands for both
    assert found.difference.check.name == "r"
    assert found.difference.node in {"n_c", "n_r"}
    assert found.difference.check.place[1] == 4


def test_in_memory_there_is_nothing_to_keep(path, child, monkeypatch):
    spoil_constant(monkeypatch, SECOND_WEIGHTS, one_channel_off)
    with pytest.raises(Mismatch) as caught:
        straightway.convert(path, child=child)
    assert "kept" not in str(caught.value)


def test_without_verification_the_file_is_written_as_it_is(path, tmp_path, monkeypatch):
    spoil_constant(monkeypatch, SECOND_WEIGHTS, one_channel_off)
    made = straightway.convert(path, tmp_path / "net.tflite", verify=False)
    assert made.verification is None
    assert (tmp_path / "net.tflite").read_bytes() == made.data


def test_the_command_exits_with_1_and_says_so_as_data(path, tmp_path, monkeypatch):
    spoil_constant(monkeypatch, SECOND_WEIGHTS, one_channel_off)
    result = CliRunner().invoke(
        app, ["convert", str(path), "-o", str(tmp_path / "net.tflite"), "--json"]
    )
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["error"], told["refused"]) == ("Mismatch", False)
    assert told["remarks"][0]["node"] == "n_d"
    assert "first differing node" in result.stderr


def test_deploy_reports_a_mismatch_and_measures_nothing(path, tmp_path, monkeypatch):
    spoil_constant(monkeypatch, SECOND_WEIGHTS, one_channel_off)
    with pytest.raises(Mismatch, match=r"report: .*report\.html"):
        straightway.deploy(path, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "net.mismatch.tflite", "report.html", "report.json",
    ]  # fmt: skip
    view = View.from_json(json.loads((tmp_path / "out" / "report.json").read_text()))
    assert view.verdict.status == "different"
    assert view.verdict.first_difference.node == "n_d"
    assert view.verdict.first_difference.element.startswith("d[0, 4, ")
    assert view.latency is None
    assert "n_d" in (tmp_path / "out" / "report.html").read_text()


def test_a_fault_that_saturates_is_seen_inside(tmp_path, child, monkeypatch):
    """The outputs hide it: a Sigmoid far out gives one whatever comes in."""
    proto = model(
        [
            node("MatMul", "x w", "h"),
            node("Relu", "h", "r"),
            node("Add", "r far", "a"),
            node("Sigmoid", "a", "y"),
        ],
        [tensor("x", [2, 5])],
        [tensor("y", [2, 7])],
        {"w": weights(5, 7), "far": np.full(7, 80, np.float32)},
    )
    spoil_constant(monkeypatch, 35, lambda w: -w)
    with pytest.raises(Mismatch, match=r"first differing node: (MatMul|Relu)@17 'n_[hr]'"):
        straightway.convert(save(proto, tmp_path / "m.onnx"), child=child)


def test_tokens_that_are_looked_up_in_another_row_differ(tmp_path, child, monkeypatch):
    spoil_constant(monkeypatch, 44, lambda table: table[::-1])
    with pytest.raises(Mismatch, match="Gather@17 'n_e'"):
        straightway.convert(save(tokens(), tmp_path / "m.onnx"), child=child)


@pytest.mark.parametrize(
    "spoil",
    [lambda w: w[::-1], lambda w: w[:, ::-1], lambda w: w[..., ::-1], lambda w: w.swapaxes(2, 3)],
    ids=["outputs", "inputs", "width", "transposed"],
)
def test_uniform_weights_hide_a_permutation_but_the_twin_does_not(spoil, tmp_path, monkeypatch):
    path = save(convolutions(uniform=True), tmp_path / "m.onnx")
    spoil_constant(monkeypatch, FIRST_WEIGHTS, spoil)
    found = attempt(path, Request(seeds=[0])).verification
    assert all(check.equal for check in found.outputs)
    assert all(c.equal for c in found.interior if "weights varied" not in c.name)
    assert not found.equal
    assert found.worst.name == "r (weights varied)" or not found.worst.equal
    assert found.difference.check.name == "r"
    with pytest.raises(Mismatch, match="weights varied"):
        straightway.convert(path, seeds=[0])


def test_only_weights_of_one_value_need_a_twin(tmp_path, child):
    plain = straightway.convert(save(convolutions(), tmp_path / "a.onnx"), child=child)
    uniform = straightway.convert(
        save(convolutions(uniform=True), tmp_path / "b.onnx"), child=child
    )
    assert not needs_twin(plain.translation)
    assert needs_twin(uniform.translation)
    assert not any("varied" in check.name for check in plain.verification.interior)
    assert any("varied" in check.name for check in uniform.verification.interior)


def test_the_twin_is_the_same_every_time_and_leaves_the_file_alone(tmp_path):
    path = save(convolutions(uniform=True), tmp_path / "m.onnx")
    before = path.read_bytes()
    weights = []
    for number, seed in enumerate([0, 0, 1]):
        (folder := tmp_path / str(number)).mkdir()
        assert varied(path, seed, folder).read_bytes() != before
        weights.append((folder / "twin.weights").read_bytes())
    assert weights[0] == weights[1] != weights[2]
    assert path.read_bytes() == before


def test_the_twin_fills_no_endless_tensor(tmp_path):
    proto = model(
        [
            node("ConstantOfShape", "huge", "unused"),
            node("ConstantOfShape", "shape", "w"),
            node("MatMul", "x w", "y"),
        ],
        [tensor("x", [2, 5])],
        [tensor("y", None)],
        {"huge": np.array([10**6, 10**6]), "shape": np.array([5, 7])},
    )
    path = save(proto, tmp_path / "m.onnx")
    made = load(varied(path, 0, tmp_path))
    assert [n.op_type for n in made.graph.node] == ["ConstantOfShape", "MatMul"]
    assert made.graph.node[0].output[0] == "unused"


def test_a_file_that_does_not_load_is_our_fault_and_leaves_nothing(
    path, tmp_path, child, monkeypatch
):
    write_garbage(monkeypatch)
    with pytest.raises(Bug, match="fault of straightway") as caught:
        straightway.convert(path, tmp_path / "net.tflite", child=child)
    assert caught.value.exit_code == 5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx"]


def test_an_engine_that_dies_is_an_error_and_the_next_model_is_fine(
    path, tmp_path, child, monkeypatch
):
    with monkeypatch.context() as patch:
        abort_the_engine(patch)
        with pytest.raises(Bug, match="the child process ended"):
            straightway.convert(path, tmp_path / "net.tflite", child=child)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.onnx"]
    assert straightway.convert(path, child=child).verification.equal
