"""`verify` and `profile`: TFLite files from anywhere, against the model or alone."""

import numpy as np
import pytest

import straightway
from onnx_io.small_models import convolutions, dense, model, node, relu_model, save, tensor, weights
from straightway.errors import InvalidModel, InvalidRequest, Mismatch
from straightway.flow import pair
from straightway.flow.candidate import as_model_has


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The model, and files made of it: as it is, channels last, by another hand, spoilt."""
    found = tmp_path_factory.mktemp("pair")
    path = save(convolutions(), found / "net.onnx")
    own = straightway.convert(path, found / "own.tflite", verify=False)
    last = straightway.convert(path, found / "last.tflite", io="nhwc", verify=False)
    for name, made in (("foreign", own), ("foreign_last", last)):
        other = made.data.replace(b"straightway", b"another way")
        assert other != made.data
        (found / f"{name}.tflite").write_bytes(other)
    spoilt = own.data.replace(weights(8, 3, 3, 3)[3, 1, 2, :1].tobytes(), np.float32(9).tobytes())
    assert spoilt != own.data
    (found / "spoilt.tflite").write_bytes(spoilt)
    save(dense(), found / "dense.onnx")
    straightway.convert(found / "dense.onnx", found / "dense.tflite", verify=False)
    return found


@pytest.mark.parametrize("name", ["own", "last"])
def test_our_own_file_is_compared_inside_too(name, folder):
    found = straightway.verify(folder / "net.onnx", folder / f"{name}.tflite")
    assert found.equal
    assert len(found.outputs) == 3
    assert found.interior


@pytest.mark.parametrize("name", ["foreign", "foreign_last"])
def test_a_file_of_others_is_compared_at_its_outputs(name, folder):
    found = straightway.verify(folder / "net.onnx", folder / f"{name}.tflite")
    assert found.equal
    assert len(found.outputs) == 3
    assert not found.interior
    assert "outputs only: the file is not, byte for byte" in found.note


def test_a_spoilt_file_differs(folder):
    found = straightway.verify(folder / "net.onnx", folder / "spoilt.tflite", seeds=[0])
    assert not found.equal
    assert found.worst.name == "probabilities"
    assert "differs by" in found.worst.reason


def test_a_model_that_we_can_not_convert_can_still_be_compared(folder, monkeypatch):
    def fail(*_, **__):
        raise KeyError("x")

    monkeypatch.setattr(pair, "translate", fail)
    found = straightway.verify(folder / "dense.onnx", folder / "dense.tflite")
    assert found.equal
    assert not found.interior
    assert "outputs only: straightway does not convert the model" in found.note


def test_outputs_that_are_channels_last_are_turned():
    y = np.arange(2 * 3 * 5 * 7).reshape(2, 3, 5, 7)
    np.testing.assert_array_equal(as_model_has(y.transpose(0, 2, 3, 1), y.shape), y)
    np.testing.assert_array_equal(as_model_has(y, y.shape), y)
    assert as_model_has(y, (1, 2)).shape == y.shape


def test_another_number_of_inputs_is_another_model(folder, tmp_path):
    proto = model(
        [node("Add", "x z", "y")], [tensor("x", [2]), tensor("z", [2])], [tensor("y", [2])]
    )
    path = save(proto, tmp_path / "two.onnx")
    with pytest.raises(Mismatch, match=r"takes 1 input \('x'\), the model 2 inputs \('x', 'z'\)"):
        straightway.verify(path, folder / "dense.tflite")


def test_another_model_differs_in_shape(folder, tmp_path):
    path = save(relu_model(), tmp_path / "relu.onnx")
    straightway.convert(path, tmp_path / "relu.tflite", verify=False)
    with pytest.raises(Mismatch, match="is another model's file") as caught:
        straightway.verify(folder / "dense.onnx", tmp_path / "relu.tflite", seeds=[0])
    assert "'x': the file takes float32[2, 3], the model float32[2, 5]" in str(caught.value)


def test_results_of_another_shape_differ(folder, tmp_path):
    proto = model([node("Relu", "x", "y")], [tensor("x", [2, 5])], [tensor("y", [2, 5])])
    straightway.convert(save(proto, tmp_path / "relu.onnx"), tmp_path / "relu.tflite", verify=False)
    found = straightway.verify(folder / "dense.onnx", tmp_path / "relu.tflite", seeds=[0])
    assert not found.equal
    assert "is float32[2, 5], not float32[2, 4]" in found.worst.reason


def test_another_number_of_outputs_is_another_model(folder, tmp_path):
    nodes = [node("Relu", "x", "y"), node("Neg", "x", "z")]
    proto = model(nodes, [tensor("x", [2, 5])], [tensor("y", None), tensor("z", None)])
    with pytest.raises(Mismatch, match="outputs: the file gives 1, the model 2"):
        straightway.verify(save(proto, tmp_path / "two.onnx"), folder / "dense.tflite")


def test_every_input_that_does_not_fit_is_named(tmp_path):
    def made(name, element, size):
        proto = model(
            [node("Relu", "x", "y"), node("Abs", "z", "a")],
            [tensor("x", [2, size]), tensor("z", [3], element)],
            [tensor("y", None), tensor("a", None)],
        )
        return save(proto, tmp_path / f"{name}.onnx")

    straightway.convert(made("a", 1, 5), tmp_path / "a.tflite", verify=False)
    with pytest.raises(Mismatch) as caught:
        straightway.verify(made("b", 6, 7), tmp_path / "a.tflite")
    text = str(caught.value)
    assert "'x': the file takes float32[2, 5], the model float32[2, 7]" in text
    assert "'z': the file takes float32[3], the model int32[3]" in text


def test_arguments_in_the_wrong_order_are_seen(folder):
    with pytest.raises(InvalidRequest, match=r"swapped\? Type: straightway verify .*net\.onnx "):
        straightway.verify(folder / "own.tflite", folder / "net.onnx")
    with pytest.raises(InvalidRequest, match=r"is a TFLite file, like .*own\.tflite"):
        straightway.verify(folder / "own.tflite", folder / "own.tflite")


def open_convolution(folder):
    proto = model(
        [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")],
        [tensor("x", ["N", 3, "H", "W"])],
        [tensor("y", None)],
        {"w": weights(8, 3, 3, 3)},
    )
    return save(proto, folder / "open.onnx")


@pytest.mark.parametrize("layout", ["keep", "nhwc"])
@pytest.mark.parametrize("foreign", [False, True])
def test_open_sizes_are_those_of_the_file(layout, foreign, tmp_path):
    path, output = open_convolution(tmp_path), tmp_path / "m.tflite"
    made = straightway.convert(path, verify=False, io=layout, shapes={"x": [1, 3, 10, 14]})
    output.write_bytes(made.data.replace(b"straightway", b"another way") if foreign else made.data)
    found = straightway.verify(path, output)
    assert found.equal
    assert found.outputs[0].shape == (1, 8, 10, 14)
    assert ("outputs only" in found.note) == foreign


def test_open_sizes_are_those_of_the_users_arrays(tmp_path):
    path = open_convolution(tmp_path)
    straightway.convert(path, tmp_path / "m.tflite", verify=False)
    np.savez(tmp_path / "a.npz", x=np.ones((2, 3, 9, 11), np.float32))
    found = straightway.verify(path, tmp_path / "m.tflite", inputs=tmp_path / "a.npz")
    assert found.equal
    assert found.outputs[0].shape == (2, 8, 9, 11)


def test_our_own_file_with_open_sizes_is_compared_at_several(tmp_path):
    path = open_convolution(tmp_path)
    straightway.convert(path, tmp_path / "m.tflite", verify=False)
    found = straightway.verify(path, tmp_path / "m.tflite")
    assert found.equal
    assert len({check.shape for check in found.outputs}) > 3
    assert not found.note


@pytest.mark.parametrize("data", [b"", b"no flatbuffer", b"....TFL3", b"\0\0\0\0TFL3" + bytes(400)])
def test_what_is_no_tflite_file_is_an_invalid_model(data, folder, tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    with pytest.raises(InvalidModel):
        straightway.verify(folder / "dense.onnx", path)
    with pytest.raises(InvalidModel):
        straightway.profile(path)


def test_a_truncated_file_is_an_invalid_model(folder, tmp_path):
    data = (folder / "own.tflite").read_bytes()
    path = tmp_path / "m.tflite"
    for length in range(8, len(data) - 300, 400):
        path.write_bytes(data[:length])
        with pytest.raises(InvalidModel):
            straightway.verify(folder / "net.onnx", path)


def test_no_file_is_a_wrong_request(folder, tmp_path):
    with pytest.raises(InvalidRequest, match="there is no such file"):
        straightway.verify(folder / "dense.onnx", tmp_path / "none.tflite")
    for name in ("none.tflite", "none.onnx", "net.pb"):
        with pytest.raises(InvalidRequest):
            straightway.profile(tmp_path / name)


@pytest.mark.parametrize("name", ["own.tflite", "net.onnx"])
def test_a_profile_knows_the_operators(name, folder):
    trace = straightway.profile(folder / name, runs=3)
    assert trace.run.runs == 3
    assert trace.run.model == name
    assert trace.median_ns > 0
    if trace.run.operator_level:
        assert sum(event.kind.upper().startswith("CONV") for event in trace.events) >= 2


def test_a_profile_runs_on_the_users_arrays(folder, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 5), np.float32))
    for name in ("dense.tflite", "dense.onnx"):
        assert straightway.profile(folder / name, runs=1, inputs=tmp_path / "a.npz").total_ns
    np.savez(tmp_path / "b.npz", x=np.zeros((2, 6), np.float32))
    for name in ("dense.tflite", "dense.onnx"):
        with pytest.raises(InvalidRequest, match=r"2, 6"):
            straightway.profile(folder / name, runs=1, inputs=tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 0}, "one run"),
        ({"threads": 0}, "one thread"),
        ({"dims": {"N": 1}}, "names no dimensions"),
        ({"shapes": {"q": [1]}}, r"--shape q: the file's inputs are \['x'\]"),
    ],
)
def test_wrong_requests_for_a_profile_are_named(options, message, folder):
    with pytest.raises(InvalidRequest, match=message):
        straightway.profile(folder / "dense.tflite", **options)
