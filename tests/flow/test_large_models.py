"""Weights that no flatbuffer holds stand behind it; a lower limit stands for the real one here."""

import json
import shutil

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from typer.testing import CliRunner

import straightway
from onnx_io.small_models import model, node, save, tensor, weights
from straightway.cli.main import app
from straightway.errors import InvalidModel
from straightway.ir import elements
from straightway.run import litert
from straightway.tflite import write
from straightway.tflite.read import read


def products(dtype):
    """Gather, MatMul as stored and transposed, Gemm, Conv with a normalisation, weights converted."""
    nodes = [
        node("Gather", "table ids", "rows"),
        node("MatMul", "rows m", "a"),
        node("Gemm", "a g bias", "b", transB=1),
        node("Relu", "b", "c"),
        node("Transpose", "table", "turned", perm=[1, 0]),
        node("MatMul", "c turned", "logits"),
        node("Reshape", "c sizes", "image"),
        node("Conv", "image w", "d", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "d scale offset mean variance", "image_out"),
    ]
    constants = {
        "table": weights(301, 96, seed=1),
        "m": weights(96, 70, seed=2),
        "g": weights(96, 70, seed=3),
        "bias": weights(96, seed=4),
        "w": weights(24, 12, 3, 3, seed=5),
        **{name: weights(24, seed=k) for k, name in enumerate(("scale", "offset", "mean"))},
        "variance": np.linspace(0.5, 2, 24, dtype=np.float32),
    }
    constants = {name: array.astype(dtype) for name, array in constants.items()}
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return model(
        nodes,
        [tensor("ids", [8], onnx.TensorProto.INT64)],
        [tensor("logits", [8, 301], element), tensor("image_out", [2, 24, 4, 8], element)],
        {**constants, "sizes": np.array([2, 12, 4, 8])},
    )


@pytest.fixture
def low(monkeypatch):
    """A limit that the weights pass, and small arrays are mapped and read in pieces."""
    monkeypatch.setattr(write, "LARGEST_FLATBUFFER_BYTES", 100_000)
    monkeypatch.setattr(elements, "LARGE_BYTES", 1_000)
    monkeypatch.setattr(elements, "PIECE_BYTES", 4_000)


@pytest.fixture(params=[np.float32, np.float16])
def path(request, tmp_path):
    """A model with external data."""
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(
        products(request.param),
        folder / "m.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=1000,
    )
    return folder / "m.onnx"


@pytest.mark.usefixtures("low")
def test_the_file_computes_the_same_with_and_without_the_delegate(path, tmp_path, child):
    file = tmp_path / "m.tflite"
    made = straightway.convert(path, file, verify=True, child=child)
    assert made.verification.equal
    assert made.verification.interior
    assert made.verification.ran.placement.partitions
    table = schema.Model.GetRootAs(file.read_bytes(), 0)
    offsets = [table.Buffers(k).Offset() for k in range(table.BuffersLength())]
    assert sum(offset > 1 for offset in offsets) > 5
    inputs = {"ids": np.array([0, 300, 7, 8, 9, 150, 2, 2])}
    fast, plain = (child.call(litert.run(file, inputs, delegate=d)) for d in (True, False))
    for name in fast.named():
        np.testing.assert_allclose(fast.named()[name], plain.named()[name], rtol=1e-2, atol=1e-3)


@pytest.mark.usefixtures("low")
def test_it_is_compared_on_request_and_the_answer_says_how(path, tmp_path):
    file = tmp_path / "m.tflite"
    made = straightway.convert(path, file)
    assert made.verification is None
    (remark,) = [r for r in made.remarks if r.step == "flow.limits"]
    assert f"straightway verify {path} {file}" in remark.text
    assert remark.numbers["bytes"] == file.stat().st_size
    found = straightway.verify(path, file)
    assert found.equal
    assert found.interior, "the file is ours, byte for byte"


def test_smaller_weights_stay_in_the_flatbuffer_and_are_compared(path, child, tmp_path):
    made = straightway.convert(path, tmp_path / "m.tflite", child=child)
    assert made.verification.equal
    table = schema.Model.GetRootAs(made.data, 0)
    assert not any(table.Buffers(k).Offset() for k in range(table.BuffersLength()))


@pytest.mark.usefixtures("low")
def test_no_weight_is_held_in_memory(path):
    made = straightway.convert(path, verify=False)
    arrays = [part for part in made.translation.written.behind if isinstance(part, np.ndarray)]
    large = [array for array in arrays if array.nbytes >= elements.LARGE_BYTES]
    assert len(large) >= 4
    assert all(map(elements.is_mapped, large))


@pytest.mark.usefixtures("low")
def test_a_file_that_was_cut_is_refused(path, tmp_path):
    file = tmp_path / "m.tflite"
    straightway.convert(path, file, verify=False)
    file.write_bytes(file.read_bytes()[:-20_000])
    with pytest.raises(InvalidModel, match="a buffer ends at byte"):
        read(file)


@pytest.mark.usefixtures("low")
def test_recurrent_ops_are_profiled_piece_by_piece_from_behind_the_flatbuffer(tmp_path):
    constants = {
        "w": weights(1, 4 * 64, 50, seed=1),
        "r": weights(1, 4 * 64, 64, seed=2),
        "p": weights(64, 64, seed=3),
    }
    proto = model(
        [
            node("LSTM", "x w r", "y h", hidden_size=64),
            node("Squeeze", "h zero", "last"),
            node("MatMul", "last p", "z"),
        ],
        [tensor("x", [30, 1, 50])],
        [tensor("z", [1, 64])],
        {**constants, "zero": np.array([0])},
    )
    file = tmp_path / "m.tflite"
    made = straightway.convert(save(proto, tmp_path / "m.onnx"), file, verify=True)
    assert made.verification.equal
    trace = straightway.profile(file, runs=2)
    assert trace.events


@pytest.mark.usefixtures("low")
def test_the_command_says_that_nothing_was_compared(path, tmp_path):
    file = tmp_path / "m.tflite"

    def run(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    done = run("convert", path, "-o", file)
    assert done.exit_code == 0
    assert "not verified: " in done.stdout
    assert "straightway verify" in done.stdout
    assert json.loads(run("convert", path, "-o", file, "--verify", "--json").stdout)["verified"]


@pytest.mark.parametrize("fault", ["missing", "short"])
@pytest.mark.usefixtures("low")
def test_external_data_that_are_not_there_are_named(fault, path, tmp_path):
    data = path.with_name("w.bin")
    if fault == "missing":
        shutil.move(data, tmp_path / "elsewhere.bin")
    else:
        data.write_bytes(data.read_bytes()[:-8_000])
    with pytest.raises(
        InvalidModel, match=r"external data of tensor '.*' (is missing|needs bytes)"
    ):
        straightway.convert(path, tmp_path / "m.tflite")
    assert not (tmp_path / "m.tflite").exists()
