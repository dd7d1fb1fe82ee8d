"""Outputs: whole or not at all, and never over what is read."""

import errno
import os
import stat
import subprocess

import pytest

import straightway
from onnx_io.external_models import beside
from onnx_io.small_models import dense, relu_model, save
from straightway.errors import InvalidModel, InvalidRequest, ToolFailed
from straightway.flow import files


@pytest.fixture
def model(tmp_path):
    return save(relu_model(), tmp_path / "m.onnx")


def test_an_existing_file_is_replaced_as_a_whole(model, tmp_path):
    output = tmp_path / "m.tflite"
    output.write_bytes(b"old" * 1000)
    made = straightway.convert(model, output, verify=False)
    assert output.read_bytes() == made.data
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.tflite"]


def test_a_file_has_the_permissions_that_the_user_asks_for(model, tmp_path):
    old = os.umask(0o027)
    try:
        straightway.convert(model, tmp_path / "m.tflite", verify=False)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "m.tflite").stat().st_mode) == 0o640


@pytest.mark.parametrize("how", ["same", "link", "hard link", "detour"])
def test_the_input_is_no_output(how, model, tmp_path):
    output = tmp_path / "alias"
    if how == "link":
        output.symlink_to(model)
    elif how == "hard link":
        output.hardlink_to(model)
    elif how == "detour":
        (tmp_path / "sub").mkdir()
        output = tmp_path / "sub" / ".." / "m.onnx"
    else:
        output = model
    before = model.read_bytes()
    with pytest.raises(InvalidRequest, match="is the input"):
        straightway.convert(model, output, verify=False)
    assert model.read_bytes() == before


def test_the_weights_of_the_model_are_no_output(tmp_path):
    model = beside()(tmp_path)
    before = (tmp_path / "w.bin").read_bytes()
    with pytest.raises(InvalidRequest, match=r"w\.bin: is the input"):
        straightway.convert(model, tmp_path / "w.bin", verify=False)
    assert (tmp_path / "w.bin").read_bytes() == before


def test_the_arrays_to_compare_on_are_no_output(model, tmp_path):
    arrays = tmp_path / "arrays.npz"
    arrays.write_bytes(b"arrays")
    with pytest.raises(InvalidRequest, match="is the input"):
        straightway.convert(model, arrays, verify=False, inputs=arrays)
    assert arrays.read_bytes() == b"arrays"


def _directory(folder):
    (folder / "d").mkdir()
    return folder / "d"


def _pipe(folder):
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (_directory, "is a directory"),
        (_pipe, "is no regular file"),
        (lambda folder: folder / "nowhere" / "m.tflite", "there is no folder"),
        (lambda folder: folder / "m.onnx" / "m.tflite", "there is no folder"),
        (lambda folder: folder / ("m" * 300), "cannot be written"),
        (lambda folder: folder / "m\0.tflite", "zero byte"),
    ],
)
def test_what_can_be_no_output_is_a_wrong_request(place, message, model, tmp_path):
    output = place(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidRequest, match=message):
        straightway.convert(model, output, verify=False)
    assert sorted(tmp_path.iterdir()) == before


def test_a_folder_that_takes_no_files_is_a_failure_of_the_machine(model, tmp_path):
    # even the superuser can make no file there
    with pytest.raises(ToolFailed, match="cannot be written"):
        straightway.convert(model, "/proc/self/m.tflite", verify=False)


def _full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_old_file_and_no_part_of_the_new_one(model, tmp_path, monkeypatch):
    output = tmp_path / "m.tflite"
    output.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", _full)
    with pytest.raises(ToolFailed, match=r"m\.tflite: no space left .* nothing was written"):
        straightway.convert(model, output, verify=False)
    assert output.read_bytes() == b"old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.tflite"]


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 48 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this user may mount nothing")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_really_full(tiny_disk, tmp_path):
    model = save(dense(), tmp_path / "m.onnx")
    made = straightway.convert(model, tiny_disk / "m.tflite", verify=False)
    (tiny_disk / "filler").write_bytes(bytes(44_000))
    with pytest.raises(ToolFailed, match="no space left"):
        straightway.convert(model, tiny_disk / "again.tflite", verify=False)
    with pytest.raises(ToolFailed, match="no space left"):
        straightway.deploy(model, tiny_disk / "report")
    assert (tiny_disk / "m.tflite").read_bytes() == made.data
    assert sorted(p.name for p in tiny_disk.iterdir()) == ["filler", "m.tflite"]


def test_a_full_disk_for_scratch_files_is_reported_too(monkeypatch, child, model, tiny_disk):
    (tiny_disk / "filler").write_bytes(bytes(48_000))
    monkeypatch.setattr("tempfile.tempdir", str(tiny_disk))
    with pytest.raises(ToolFailed, match="no space left"):
        straightway.convert(model, child=child)


def test_a_staged_folder_appears_with_all_its_files(tmp_path):
    with files.staged(tmp_path / "a" / "b") as stage:
        files.write(stage / "one", b"1")
        files.write(stage / "two", b"2")
        assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == [stage.name]
    assert {p.name: p.read_bytes() for p in (tmp_path / "a" / "b").iterdir()} == {
        "one": b"1",
        "two": b"2",
    }


def _stage_and_fail(folder):
    with files.staged(folder) as stage:
        files.write(stage / "report.html", b"new")
        raise InvalidModel("after all")


def test_a_staged_folder_that_fails_was_never_there(tmp_path):
    with pytest.raises(InvalidModel):
        _stage_and_fail(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())


def test_a_staged_folder_leaves_older_files_alone_when_it_fails(tmp_path):
    (tmp_path / "report.html").write_text("old")
    with pytest.raises(InvalidModel):
        _stage_and_fail(tmp_path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("report.html", "old")]


def test_a_staged_folder_says_where_it_can_not_be(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(ToolFailed, match="cannot be written"),
        files.staged(tmp_path / "file" / "d"),
    ):
        pass
