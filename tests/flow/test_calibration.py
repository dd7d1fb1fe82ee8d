"""Calibration data: every form of it, and what does not fit, told in one line."""

import io
import os
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image

from straightway.errors import InvalidRequest, ToolFailed
from straightway.flow.calibration import Pictures, open_data
from straightway.ir import Graph, Value, edit, tensor_type

F4 = np.float32


def graph_of(**inputs):
    graph = Graph(name="model")
    for name, (dtype, *shape) in inputs.items():
        edit.add_input(graph, Value(name, tensor_type(dtype, tuple(shape))))
    return graph


ONE = graph_of(x=(F4, 1, 3, 4, 6))
TWO = graph_of(a=(F4, 1, 5), ids=(np.int64, 1, 2))


def arrays_of(samples, name="x"):
    return [sample.inputs[name] for sample in samples]


@pytest.mark.parametrize("shape", [(1, 3, 4, 6), (3, 4, 6)], ids=["batch of one", "no batch"])
def test_a_folder_of_arrays(tmp_path, shape):
    for k in range(3):
        np.save(tmp_path / f"{k}.npy", np.full(shape, k, np.float64))
    data = open_data(tmp_path, ONE)
    assert (data.count, data.is_random) == (3, False)
    for _ in range(2):  # it can be read again
        found = arrays_of(data)
        assert [array.mean() for array in found] == [0, 1, 2]
        assert {(array.shape, array.dtype.name) for array in found} == {((1, 3, 4, 6), "float32")}


def test_a_folder_of_several_inputs(tmp_path):
    for k in range(2):
        np.savez(tmp_path / f"{k}.npz", a=np.full((1, 5), k, F4), ids=np.array([[k, 2]]))
    found = list(open_data(tmp_path, TWO))
    assert [sample.label for sample in found] == ["0.npz", "1.npz"]
    assert found[1].inputs["ids"].tolist() == [[1, 2]]


@pytest.mark.parametrize("shape", [(7, 5), (7, 1, 5)], ids=["as the batch", "before it"])
def test_one_archive_of_many_samples(tmp_path, shape):
    np.savez(
        tmp_path / "d.npz", a=np.arange(35).reshape(shape).astype(F4), ids=np.ones((7, 2), int)
    )
    data = open_data(str(tmp_path / "d.npz"), TWO)
    assert data.count == 7
    assert arrays_of(data, "a")[6].tolist() == [[30, 31, 32, 33, 34]]


@pytest.mark.parametrize(
    ("channels", "shape", "place"),
    [
        ("rgb", (1, 3, 4, 6), (0, 2, 1, 1)),
        ("bgr", (1, 3, 4, 6), (0, 0, 1, 1)),
        ("rgb", (1, 4, 6, 3), (0, 1, 1, 2)),
        ("rgb", (3, 4, 6), (2, 1, 1)),
    ],
)
def test_pictures(tmp_path, channels, shape, place):
    """A picture whose blue is 255 and whose rest is 51."""
    pixels = np.full((8, 12, 3), 51, np.uint8)
    pixels[..., 2] = 255
    Image.fromarray(pixels).save(tmp_path / "p.png")
    taken = Pictures(mean=(0.5,), std=(0.25,), channels=channels)
    (found,) = arrays_of(open_data(tmp_path, graph_of(x=(F4, *shape)), pictures=taken))
    assert found.shape == shape
    assert found[place] == pytest.approx(2.0)
    assert np.unique(found) == pytest.approx([-1.2, 2.0])


def test_gray_pictures_and_numbers_for_each_channel(tmp_path):
    Image.new("RGB", (9, 9), (10, 10, 10)).save(tmp_path / "p.jpg")
    gray = open_data(tmp_path, graph_of(x=(F4, 1, 1, 4, 4)), pictures=Pictures(channels="gray"))
    assert arrays_of(gray)[0] == pytest.approx(10 / 255, abs=0.01)
    each = Pictures(mean=(0, 1, 2), std=(1, 2, 1))
    (found,) = arrays_of(open_data(tmp_path, ONE, pictures=each))
    assert found[0, :, 0, 0] == pytest.approx([0.04, -0.48, -1.96], abs=0.01)


@pytest.mark.parametrize(
    "made",
    ["np.ones((1, 3, 4, 6))", "{'x': np.ones((3, 4, 6), 'f4')}", "(np.ones((3, 4, 6), 'f4'),)"],
)
def test_a_function_of_the_user(tmp_path, monkeypatch, made):
    (tmp_path / "my_data.py").write_text(
        f"import numpy as np\ndef samples():\n    for _ in range(2):\n        yield {made}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_data", raising=False)
    data = open_data("my_data:samples", ONE)
    assert [array.shape for array in arrays_of(data)] == [(1, 3, 4, 6)] * 2


def test_a_function_of_a_file_wherever_it_stands(tmp_path, monkeypatch):
    there = tmp_path / "data.v2"
    there.mkdir()
    (there / "shape.py").write_text("SHAPE = (1, 3, 4, 6)\n")
    file = there / "json.py"  # a module of that name is loaded, and is another one
    file.write_text(
        "import numpy as np\nfrom shape import SHAPE\ndef samples():\n    yield np.ones(SHAPE)\n"
    )
    monkeypatch.delitem(sys.modules, "shape", raising=False)
    data = open_data(f"{file}:samples", ONE)
    assert [array.shape for array in arrays_of(data)] == [(1, 3, 4, 6)]
    assert sys.modules["json"].__file__ != str(file)


def test_random_inputs_are_branded():
    data = open_data(None, TWO, random=4)
    assert (data.count, data.is_random, len(list(data))) == (4, True, 4)


def broken(folder, name):
    (folder / name).write_bytes(b"\x93NUMPY garbage")
    return folder


def script(folder):
    (folder / "a.py").write_text("")
    return folder / "a.py"


def pipe(folder):
    os.mkfifo(folder / "a.npy")
    return folder


def huge(folder):
    """An archive whose array claims to have 2^45 elements."""
    head = {"descr": "<f4", "fortran_order": False, "shape": (2**45,)}
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, head)
    with zipfile.ZipFile(folder / "a.npz", "w") as archive:
        archive.writestr("x.npy", data.getvalue())
    return folder / "a.npz"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda _: None, "no calibration data.*--calibration FOLDER"),
        (lambda folder: folder / "none.npz", "no such file or folder.*--random"),
        (lambda folder: folder, "holds no .npy"),
        (lambda folder: broken(folder, "a.npy"), "a.npy: is no array"),
        (lambda folder: broken(folder, "a.npz"), "a.npz"),
        (lambda folder: broken(folder, "a.png"), "pictures need their preprocessing: --mean"),
        (lambda _: "no_such_module:f", "no_such_module:f: can't be imported"),
        (lambda _: "json:nothing", "can't be imported"),
        (lambda folder: f"{folder / 'none.py'}:f", "no such file or folder.*FILE.py:FUNCTION"),
        (lambda folder: f"{script(folder)}:nothing", "can't be imported"),
        (lambda _: "json:decoder", "is no function"),
        (lambda _: lambda: 5, "gives int, not a series"),
        (lambda _: lambda: iter([np.ones(3)]), r"takes float32\[1, 3, 4, 6\]"),
        (lambda _: lambda: iter([np.ones((1, 3, 4, 6), int)]), "as the model's preprocessing"),
        (lambda _: lambda: iter([{"y": 1, "z": 2}]), r"lacks \['x'\]; it holds \['y', 'z'\]"),
        (lambda _: lambda: 1 / 0, "raises ZeroDivisionError"),
        (lambda _: lambda: (1 / k for k in range(2)), "raises ZeroDivisionError"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, make, text):
    with pytest.raises(InvalidRequest, match=f"(?s){text}"):
        list(open_data(make(tmp_path), ONE))


def test_pictures_that_do_not_fit_are_told(tmp_path):
    broken(tmp_path, "a.png")
    with pytest.raises(InvalidRequest, match=r"a\.png: is no picture"):
        list(open_data(tmp_path, ONE, pictures=Pictures()))
    with pytest.raises(InvalidRequest, match="no picture of 3 channels"):
        list(open_data(tmp_path, graph_of(x=(F4, 1, 2, 4, 6)), pictures=Pictures()))
    with pytest.raises(InvalidRequest, match="one input of 3 or 4 dimensions"):
        list(open_data(tmp_path, TWO, pictures=Pictures()))


@pytest.mark.parametrize(
    "wrong", [{"std": (0,)}, {"mean": (1, 2)}, {"channels": "cmyk"}, {"mean": (np.nan,)}]
)
def test_preprocessing_that_is_none_is_refused(wrong):
    with pytest.raises(InvalidRequest):
        Pictures(**wrong)


def test_without_pillow_the_line_to_type_is_named(tmp_path, monkeypatch):
    Image.new("RGB", (4, 4)).save(tmp_path / "p.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ToolFailed, match=r"pip install 'straightway\[images\]'"):
        list(open_data(tmp_path, ONE, pictures=Pictures()))
