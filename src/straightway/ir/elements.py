"""The elements of large constants: where they are held, and how they are read a few at a time.

A model's weights stay in the model's file, mapped into memory. What is computed from them may be as
large; it is mapped, too, from files without a name, so that the system can write it out and read it
again as it does with any file.
"""

import mmap
import os
import tempfile
from collections.abc import Iterator

import numpy as np

# what is smaller is not worth a file
LARGE_BYTES = 2**20
PIECE_BYTES = 16 * 2**20


def empty(shape: tuple[int, ...], dtype: "np.typing.DTypeLike") -> np.ndarray:
    """An array to be filled; a large one is mapped from a file, as far as there is room on the disk."""
    made = np.dtype(dtype)
    count = int(np.prod(shape, dtype=object))
    if count * made.itemsize < LARGE_BYTES or made.hasobject:
        return np.empty(shape, made)
    try:
        with tempfile.TemporaryFile(prefix="straightway-") as file:
            # reserved beforehand: a page that the disk has no room for ends the process
            os.posix_fallocate(file.fileno(), 0, count * made.itemsize)
            return np.frombuffer(mmap.mmap(file.fileno(), 0), made).reshape(shape)
    except (OSError, AttributeError):  # no room, no such folder; macOS can't reserve
        return np.empty(shape, made)


def held(array: np.ndarray) -> np.ndarray:
    """The same elements, mapped from a file if they are many and are not yet."""
    if array.nbytes < LARGE_BYTES or array.dtype.hasobject or 0 in array.strides:
        return array
    if is_mapped(array):
        return array
    made = empty(array.shape, array.dtype)
    np.copyto(made, array)
    return made


def is_mapped(array: np.ndarray) -> bool:
    """Whether an array is a view of a mapped file."""
    owner: object = array
    while owner is not None:
        if isinstance(owner, mmap.mmap):
            return True
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    return False


def converted(array: np.ndarray, dtype: "np.typing.DTypeLike") -> np.ndarray:
    """The elements in another type, as `astype` gives them."""
    made = empty(array.shape, dtype)
    np.copyto(made, array, casting="unsafe")
    return made


def parts(array: np.ndarray) -> Iterator[np.ndarray]:
    """Views of an array that are all of it, in C order, each of some megabytes at most."""
    if array.nbytes <= PIECE_BYTES:
        yield array
    elif array.nbytes > PIECE_BYTES * len(array):
        for part in array:
            yield from parts(part)
    else:
        step = PIECE_BYTES * len(array) // array.nbytes
        yield from (array[start : start + step] for start in range(0, len(array), step))


def pieces(array: np.ndarray) -> Iterator[memoryview]:
    """The bytes of an array in C order, some at a time: no array is copied whole."""
    for part in parts(array):
        yield np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
