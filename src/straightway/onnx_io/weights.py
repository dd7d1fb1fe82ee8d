"""Weights as views of the mapped files that hold them: beside the model, or inside it.

A model's own bytes are not parsed with the weights in them: protobuf would copy them. What is large is
left out, and said to lie in another file, which is the model's own.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path

import google.protobuf.message
import numpy as np
import onnx
import onnx_ir

from straightway.errors import InvalidModel
from straightway.onnx_io.check import stored_bytes

# what is smaller is copied by the parser
LARGE_BYTES = 2**16
# a length-delimited field; onnx.proto has only these and numbers
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
# Where tensors stand in a model (onnx.proto at v1.19): for each message, its fields that lead there.
_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _TENSOR = "model", "graph", "node", "attribute", "tensor"
_INSIDE = {
    _MODEL: {7: _GRAPH},
    _GRAPH: {1: _NODE, 5: _TENSOR},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR},
}
_RAW_DATA = 9


class Mappings:
    """Files that hold tensors, each mapped once."""

    def __init__(self) -> None:
        self.files: dict[str, mmap.mmap] = {}

    def array(self, tensor: onnx_ir.ExternalTensor) -> np.ndarray:
        """The elements of a tensor, a view of its file; raises what numpy and files raise."""
        dtype = tensor.dtype
        if dtype.bitwidth % 8:  # packed
            return np.asarray(tensor.numpy())
        path = str(tensor.path)
        if path not in self.files:
            with Path(path).open("rb") as file:
                self.files[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        shape = tensor.shape.numpy()
        count = int(np.prod(shape, dtype=object))
        if not count:
            return np.zeros(shape, dtype.numpy())
        found = np.frombuffer(self.files[path], dtype.numpy(), count, tensor.offset or 0)
        return found.reshape(shape)


def outlined(path: Path) -> bytes | None:
    """The bytes of a model without its large tensors, which are said to lie in the file itself.

    None where the file is no such message, or where no name can say that it is its own neighbour.
    """
    if path.resolve() != path.parent.resolve() / path.name or {*path.name} & {"\\", ":"}:
        return None
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            return b"".join(_Outline(data, path.name).message(_MODEL, 0, len(data)))
        except (ValueError, IndexError, google.protobuf.message.DecodeError):
            return None


class _Outline:
    """Copies messages, field by field, without what is large."""

    def __init__(self, data: mmap.mmap, location: str) -> None:
        self.data = data
        self.location = location

    def message(self, kind: str, start: int, end: int) -> list[bytes]:
        """A message's fields, in pieces."""
        made = []
        for number, tag, first, last in self.fields(start, end):
            inner = _INSIDE[kind].get(number)
            if inner is None or last - first < LARGE_BYTES:
                made.append(self.data[tag:last])
                continue
            body = (
                self.tensor(first, last) if inner == _TENSOR else self.message(inner, first, last)
            )
            made += [_varint(number << 3 | _BYTES), _varint(sum(map(len, body))), *body]
        return made

    def tensor(self, start: int, end: int) -> list[bytes]:
        """A tensor, its data left out where they are exactly what its type and shape need."""
        rest, raw = [], []
        for number, tag, first, last in self.fields(start, end):
            if number == _RAW_DATA:
                raw.append((first, last))
            else:
                rest.append(self.data[tag:last])
        found = onnx.TensorProto.FromString(b"".join(rest))
        first, last = raw[0] if len(raw) == 1 else (start, end)
        if found.data_location or found.external_data or last - first != _needed_bytes(found):
            return [self.data[start:end]]
        found.data_location = onnx.TensorProto.EXTERNAL
        where = {"location": self.location, "offset": first, "length": last - first}
        for key, value in where.items():
            found.external_data.add(key=key, value=str(value))
        return [found.SerializeToString()]

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Number of each field; where its tag, its payload and the next field begin."""
        place = start
        while place < end:
            tag = place
            key, place = self.varint(place, end)
            wire, first = key & 7, place
            if wire == _VARINT:
                _, place = self.varint(place, end)
            elif wire == _BYTES:
                size, first = self.varint(place, end)
                place = first + size
            elif wire in (_FIXED32, _FIXED64):
                place += 4 if wire == _FIXED32 else 8
            else:
                raise ValueError(f"wire type {wire}")
            if place > end:
                raise ValueError("a field ends after its message")
            yield key >> 3, tag, first, place

    def varint(self, place: int, end: int) -> tuple[int, int]:
        """A number, and where it ends."""
        value = shift = 0
        while place < end and shift < 70:
            byte = self.data[place]
            value |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                return value, place
        raise ValueError("a number does not end")


def _needed_bytes(tensor: onnx.TensorProto) -> int | None:
    """What the data of a tensor take, None where several elements share a byte, or nobody knows."""
    try:
        needed = stored_bytes(tensor, tensor.name)
    except InvalidModel:  # who checks the tensor says so
        return None
    return None if onnx_ir.DataType(tensor.data_type).bitwidth % 8 else needed


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
