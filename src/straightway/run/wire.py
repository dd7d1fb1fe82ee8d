"""Messages between parent and child: a JSON header and raw arrays over a pipe.

One message is an 8-byte little-endian length, that many bytes of JSON, then the bytes of each array
that the header's "arrays" describes by shape and numpy type name, in C order. Strings travel in the
header.
"""

import json
import os
import select
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LENGTH = struct.Struct("<Q")
_TEXT = "str"


def send(pipe: int, header: Mapping[str, Any], arrays: Sequence[Array] = ()) -> None:
    """Write one message to a file descriptor; blocks until the other side has taken it.

    Raises BrokenPipeError if nobody reads any more.
    """
    packed = [np.ascontiguousarray(array).reshape(array.shape) for array in arrays]
    described = [_describe(array) for array in packed]
    text = json.dumps({**header, "arrays": described}).encode()
    _write(pipe, memoryview(_LENGTH.pack(len(text)) + text))
    for array in packed:
        if array.nbytes and not _is_text(array):
            _write(pipe, _bytes_of(array))


def receive(pipe: int, deadline_s: float | None = None) -> tuple[dict[str, Any], list[Array]]:
    """Read one message from a file descriptor.

    `deadline_s` is a time of `time.monotonic()`. Raises EOFError when the other side has closed,
    TimeoutError after the deadline.
    """
    length = bytearray(_LENGTH.size)
    _read(pipe, memoryview(length), deadline_s)
    text = bytearray(_LENGTH.unpack(length)[0])
    _read(pipe, memoryview(text), deadline_s)
    header: dict[str, Any] = json.loads(text)
    return header, [_array(pipe, one, deadline_s) for one in header.pop("arrays")]


def _is_text(array: Array) -> bool:
    return array.dtype.kind in "OUST"


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _describe(array: Array) -> dict[str, Any]:
    shape = list(array.shape)
    if _is_text(array):
        return {"shape": shape, "dtype": _TEXT, "text": [str(one) for one in array.reshape(-1)]}
    return {"shape": shape, "dtype": array.dtype.name}


def _array(pipe: int, described: Mapping[str, Any], deadline_s: float | None) -> Array:
    shape = tuple(described["shape"])
    if described["dtype"] == _TEXT:
        return np.array(described["text"], dtype=object).reshape(shape)
    array: Array = np.empty(shape, dtype_named(described["dtype"]))
    if array.nbytes:
        _read(pipe, _bytes_of(array), deadline_s)
    return array


def dtype_named(name: str) -> np.dtype[Any]:
    """The numpy type of that name, also those of `ml_dtypes` ("bfloat16", "int4")."""
    try:
        return np.dtype(name)
    except TypeError:
        # Rare, and 10 ms to import.
        import ml_dtypes  # noqa: PLC0415 - only models with such types pay for it

        special: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return special


def _write(pipe: int, data: memoryview) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _read(pipe: int, into: memoryview, deadline_s: float | None) -> None:
    while into:
        if deadline_s is not None:
            _wait(pipe, deadline_s)
        count = os.readv(pipe, [into])
        if count == 0:
            raise EOFError("the other side of the pipe has closed")
        into = into[count:]


def _wait(pipe: int, deadline_s: float) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    left_ms = max(0.0, deadline_s - time.monotonic()) * 1000
    if not poll.poll(left_ms):
        raise TimeoutError("no answer in time")
