"""Large constants: mapped from files, and read a few bytes at a time."""

import errno
import os
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from straightway.ir import elements
from straightway.ir.elements import converted, empty, held, is_mapped, parts, pieces

LARGE = np.arange(elements.LARGE_BYTES // 4 + 30, dtype=np.float32).reshape(2, -1)


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.0),
        np.zeros((3, 0, 2), np.int16),
        np.arange(24, dtype=np.int64),
        np.arange(24, dtype=np.int32).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(240, dtype=np.int32).reshape(2, 30, 4)[:, ::3],
        np.arange(240, dtype=np.int32).reshape(2, 30, 4)[:, ::-1],
        np.broadcast_to(np.float32(0.5), (7, 5, 3)),
        np.arange(12).astype(ml_dtypes.bfloat16).reshape(3, 4).T,
        np.array([True, False, True]),
    ],
    ids=["one", "none", "row", "turned", "picked", "mirrored", "spread", "bfloat16", "truth"],
)
@pytest.mark.parametrize("most_bytes", [16, 64, 1 << 20])
def test_pieces_are_the_bytes_in_order_and_each_is_small(array, most_bytes, monkeypatch):
    monkeypatch.setattr(elements, "PIECE_BYTES", most_bytes)
    found = [*pieces(array)]
    assert b"".join(found) == array.tobytes()
    assert all(len(piece) <= most_bytes for piece in found)
    assert all(np.shares_memory(part, array) for part in parts(array) if part.size)


def test_a_large_array_is_mapped_and_equal():
    for array in (LARGE, LARGE.T, LARGE[:, ::-1]):
        found = held(array)
        assert is_mapped(found)
        assert not is_mapped(array)
        assert not np.shares_memory(found, array)
        np.testing.assert_array_equal(found, array)
        assert held(found) is found
        view = found[1:].T
        assert held(view) is view


def test_small_arrays_texts_and_repeated_elements_stay_where_they_are():
    spread = np.broadcast_to(np.float32(1), (1000, 2000))
    texts = np.full(elements.LARGE_BYTES, "a", object)
    for array in (LARGE[:, :9], spread, texts):
        assert held(array) is array
    assert not is_mapped(empty((elements.LARGE_BYTES,), object))
    assert not is_mapped(empty((3, 0), np.float32))


@pytest.mark.parametrize("dtype", [np.float16, np.int32, ml_dtypes.bfloat16])
def test_conversion_gives_what_numpy_gives(dtype):
    for array in (LARGE / 100, LARGE[:, :5] / 100):
        np.testing.assert_array_equal(converted(array, dtype), array.astype(dtype))
    assert is_mapped(converted(LARGE, np.float64))


def test_without_room_on_the_disk_memory_is_used(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "posix_fallocate", full)
    found = held(LARGE)
    assert not is_mapped(found)
    np.testing.assert_array_equal(found, LARGE)


def test_without_a_folder_for_files_memory_is_used(monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    assert not is_mapped(empty(LARGE.shape, LARGE.dtype))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_array_holds_a_file_open_and_none_outlives_its_use():
    def mapped():  # other tests' models may be, too
        lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
        return sum(" (deleted)" in line for line in lines)

    before, mapped_before = len([*Path("/proc/self/fd").iterdir()]), mapped()
    found = [held(LARGE + k) for k in range(20)]
    assert len([*Path("/proc/self/fd").iterdir()]) == before
    views = [array[1:, ::7].T for array in found]
    del found
    for k, view in enumerate(views):
        np.testing.assert_array_equal(view, (LARGE + k)[1:, ::7].T)
    del views, view
    assert mapped() <= mapped_before


def test_a_process_without_room_for_more_mappings_uses_memory(monkeypatch):
    class Functions:
        """What ctypes gives for a library."""

        def __init__(self, *_, **__):
            self.mmap = type("mmap", (), {"__call__": lambda *_: elements.MAP_FAILED})()
            self.munmap = type("munmap", (), {})()

    monkeypatch.setattr(elements.ctypes, "CDLL", Functions)
    assert not is_mapped(held(LARGE))
