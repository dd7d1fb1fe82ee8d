"""Bad input: one clear error, its exit code, nothing written, nothing touched."""

import json
import time
import tracemalloc

import pytest
from bad_external_data import EXTERNAL
from bad_models import FILES, GRAPHS, HUGE, REQUESTS, SHAPES, TYPES

import straightway
from onnx_io.external_models import beside
from onnx_io.small_models import convolutions, relu_model, save
from straightway.errors import InvalidModel, InvalidRequest

ALL = [*FILES, *GRAPHS, *SHAPES, *HUGE, *TYPES, *REQUESTS, *EXTERNAL]


@pytest.fixture
def work(tmp_path):
    """A folder for the model, and one in which a good file stands where the output goes."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "m.tflite").write_bytes(b"a good file from before")
    return tmp_path


@pytest.mark.parametrize("bad", ALL, ids=str)
def test_convert_says_what_is_wrong_and_leaves_everything_as_it_was(bad, work, run, snapshot):
    model, output = bad.make(work / "in"), work / "out" / "m.tflite"
    before = snapshot(work)
    result = run("convert", model, "-o", output, "--json", *bad.flags)
    assert result.exit_code == bad.error.exit_code, result.output
    assert "Traceback" not in result.output
    assert result.stderr.startswith(("error: ", "refused: "))
    for word in bad.words:
        assert word in result.stderr
    assert str(model)[:200] in result.stderr or result.exit_code == 2
    told = json.loads(result.stdout)
    assert told["error"] == bad.error.__name__
    assert told["refused"] == bad.error.refused
    with pytest.raises(bad.error) as caught:
        straightway.convert(model, output, **bad.options)
    for word in bad.words:
        assert word in str(caught.value).replace("\0", "\\u0000") or word.startswith("--")
    assert snapshot(work) == before


@pytest.mark.parametrize("bad", [FILES[0], GRAPHS[8], SHAPES[0], REQUESTS[0], EXTERNAL[0]], ids=str)
def test_deploy_does_not_even_make_its_folder(bad, work, run, snapshot):
    model = bad.make(work / "in")
    before = snapshot(work)
    result = run("deploy", model, "-o", work / "deep" / "folder", *bad.flags)
    assert result.exit_code == bad.error.exit_code
    with pytest.raises(bad.error):
        straightway.deploy(model, work / "deep" / "folder", **bad.options)
    assert snapshot(work) == before


@pytest.mark.parametrize("bad", HUGE, ids=str)
def test_huge_tensors_cost_neither_memory_nor_time(bad, tmp_path):
    model = bad.make(tmp_path)
    straightway.convert(save(relu_model(), tmp_path / "small.onnx"), verify=False)  # imports
    started = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(bad.error):
            straightway.convert(model, verify=False, **bad.options)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 20e6
    assert time.process_time() - started < 10


def test_a_model_cut_anywhere_is_no_model(tmp_path):
    data = convolutions().SerializeToString()
    path = tmp_path / "m.onnx"
    for length in range(1, len(data), 11):
        path.write_bytes(data[:length])
        with pytest.raises(InvalidModel):
            straightway.convert(path, verify=False)


def test_weights_beside_the_model_are_read(tmp_path):
    made = straightway.convert(beside(offset="0", length="24")(tmp_path))
    assert made.verification.equal


def test_every_refused_node_is_in_the_remarks(work):
    bad = next(b for b in GRAPHS if b.name == "unknown operators")
    with pytest.raises(straightway.Unsupported) as caught:
        straightway.convert(bad.make(work / "in"))
    assert caught.value.refused
    assert [(r.node, r.op) for r in caught.value.remarks] == [
        ("first", "com.acme.Fancy@1"),
        ("second", "com.acme.Fancier@1"),
        ("third", "Relulu@17"),
    ]
    assert all(r.remedy for r in caught.value.remarks)


@pytest.mark.parametrize("name", ["symbols", "symbols in part", "unnamed dimensions"])
def test_the_line_to_type_works(name, work, run):
    bad = next(b for b in REQUESTS if b.name == name)
    model, output = bad.make(work / "in"), work / "out" / "new.tflite"
    refusal = run("convert", model, "-o", output, *bad.flags).stderr
    line = refusal.rpartition("what works: ")[2].partition(", which")[0].split()
    words = [word.strip("'") for word in line]
    assert run("convert", model, "-o", output, *bad.flags, *words).exit_code == 0
    assert output.exists()


def test_an_input_without_a_shape_takes_one(work, run):
    bad = next(b for b in REQUESTS if b.name == "no shape")
    model, output = bad.make(work / "in"), work / "out" / "new.tflite"
    assert run("convert", model, "-o", output, "--shape", "x=2,5").exit_code == 0


def test_a_folder_given_for_a_model_leaves_the_model_in_it_alone(work):
    path = save(convolutions(), work / "in" / "m.onnx")
    good = path.read_bytes()
    with pytest.raises(InvalidRequest, match="is a directory"):
        straightway.convert(work / "in", work / "out" / "m.tflite")
    assert path.read_bytes() == good
