"""The elements of large constants: where they are held, and how they are read a few at a time.

A model's weights stay in the model's file, mapped into memory. What is computed from them may be as
large; it is mapped, too, from files without a name, so that the system can write it out and read it
again as it does with any file.
"""

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator

import numpy as np

# what is smaller is not worth a file
LARGE_BYTES = 2**20
PIECE_BYTES = 16 * 2**20
MAP_FAILED = ctypes.c_void_p(-1).value


def empty(shape: tuple[int, ...], dtype: "np.typing.DTypeLike") -> np.ndarray:
    """An array to be filled; a large one is mapped from a file, as far as there is room on the disk."""
    made = np.dtype(dtype)
    count = int(np.prod(shape, dtype=object))
    if count * made.itemsize < LARGE_BYTES or made.hasobject:
        return np.empty(shape, made)
    try:
        return np.frombuffer(_mapped(count * made.itemsize), made).reshape(shape)
    except (OSError, AttributeError):  # no room, no such folder; only POSIX can reserve it
        return np.empty(shape, made)


def _mapped(size_bytes: int) -> memoryview:
    """Memory mapped from a file that is gone with it.

    Python's own `mmap` keeps a descriptor for each, of which a process has a thousand.
    """
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    with tempfile.TemporaryFile(prefix="straightway-") as file:
        # reserved beforehand: a page that the disk has no room for ends the process
        os.posix_fallocate(file.fileno(), 0, size_bytes)
        how = (mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file.fileno(), 0)
        address = library.mmap(None, size_bytes, *how)
    if address == MAP_FAILED:
        raise OSError(ctypes.get_errno(), "cannot map a file")
    made = (ctypes.c_char * size_bytes).from_address(address)
    # not when Python ends: arrays may still be in use then
    weakref.finalize(made, library.munmap, address, size_bytes).atexit = False
    return memoryview(made)


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
        if isinstance(owner, (mmap.mmap, ctypes.Array)):
            return True
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    return False


def converted(array: np.ndarray, dtype: "np.typing.DTypeLike") -> np.ndarray:
    """The elements in another type, as `astype` gives them; what the type has not, ONNX leaves undefined."""
    made = empty(array.shape, dtype)
    with np.errstate(invalid="ignore", over="ignore"):
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
