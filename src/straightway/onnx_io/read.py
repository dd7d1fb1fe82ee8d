"""ONNX files in. Nothing here trusts the file."""

import logging
from pathlib import Path
from typing import Any

import google.protobuf.message
import numpy as np
import onnx
import onnx_ir

from straightway.errors import InvalidModel, InvalidRequest, Unsupported
from straightway.onnx_io import check, weights

# It warns of what is refused here; without a handler, Python prints that to stderr.
logging.getLogger("onnx_ir").addHandler(logging.NullHandler())
LARGEST_PROTOBUF_BYTES = 2**31 - 1
# What people give instead: offset, first bytes, name.
OTHER_FORMATS = (
    (4, b"TFL3", "a TFLite file"),
    (0, b"PK\x03\x04", "a zip archive, as PyTorch and Keras save models"),
    (0, b"\x89HDF", "an HDF5 file, as Keras saves models"),
    (0, b"version https://git-lfs", "a pointer of Git LFS; fetch the file that it stands for"),
)


def read(path: Path) -> onnx_ir.Model:
    """Read a model file; tensors stay in the file's bytes until they are used.

    Raises InvalidModel for what is not a model: a directory, an empty or truncated file, text,
    external data outside the model's folder or shorter than declared.
    """
    path = Path(path)
    proto = parse(path)
    _check_frame(proto, path)
    check.check(proto, path)
    _forget_maps(proto.graph)
    try:
        model = onnx_ir.from_proto(proto)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as error:
        raise InvalidModel(f"{path}: the graph is damaged: {_first_line(error)}") from error
    _set_base(model, path.parent)
    return _inlined(model, path)


def _forget_maps(graph: onnx.GraphProto) -> None:
    """Leave out the types of maps, which onnx_ir does not read; the nodes that make them are refused."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        inner = value.type
        while inner.WhichOneof("value") in ("sequence_type", "optional_type"):
            inner = getattr(inner, inner.WhichOneof("value")).elem_type
        if inner.HasField("map_type"):
            value.ClearField("type")


def _first_line(error: BaseException) -> str:
    """What went wrong first: onnx_ir wraps an error once for each level of the file."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


def parse(path: Path) -> onnx.ModelProto:
    """Read the bytes of a model, without a look at what they say; large tensors stay in the file.

    Raises InvalidModel for a file that holds no model, InvalidRequest where no file can be read.
    """
    data = _file_bytes(path)
    try:
        return onnx.ModelProto.FromString(data)  # type: ignore[no-any-return]
    except (google.protobuf.message.DecodeError, ValueError, RuntimeError) as error:
        known = next((what for at, magic, what in OTHER_FORMATS if data[at:].startswith(magic)), "")
        found = (
            f"it is {known}" if known else f"or it is damaged or truncated ({len(data):,} bytes)"
        )
        raise InvalidModel(f"{path}: is not an ONNX model, {found}") from error


def _file_bytes(path: Path) -> bytes:
    try:
        if not path.exists():
            raise InvalidRequest(f"{path}: there is no such file")
        if path.is_dir():
            raise InvalidRequest(f"{path}: is a directory; an ONNX model is one file")
        size = path.stat().st_size
        if size == 0:
            raise InvalidModel(f"{path}: is empty")
        if size > LARGEST_PROTOBUF_BYTES:
            raise InvalidModel(
                f"{path}: {size:,} bytes; a protobuf file holds at most {LARGEST_PROTOBUF_BYTES:,}. "
                "Save the weights as external data"
            )
        found = weights.outlined(path) if size >= weights.LARGE_BYTES else None
        return path.read_bytes() if found is None else found
    except (OSError, ValueError) as error:  # no access, too long a name, a zero byte in it
        reason = getattr(error, "strerror", None) or error
        raise InvalidRequest(f"{path}: cannot be read: {reason}") from error


def _check_frame(proto: onnx.ModelProto, path: Path) -> None:
    if not proto.HasField("graph") or not (proto.opset_import or proto.functions):
        raise InvalidModel(f"{path}: is not an ONNX model: it has no graph or no opset")
    if not proto.graph.output:
        raise InvalidModel(f"{path}: the graph has no output")
    if proto.ir_version > onnx.IR_VERSION:
        raise Unsupported(
            f"{path}: IR version {proto.ir_version} is newer than the newest known, "
            f"{onnx.IR_VERSION}; export with an older one, or upgrade the package onnx"
        )


def _set_base(model: onnx_ir.Model, folder: Path) -> None:
    onnx_ir.external_data.set_base_dir(model.graph, str(folder.resolve()))


def _inlined(model: onnx_ir.Model, path: Path) -> onnx_ir.Model:
    """Put the bodies of the model's own functions in the place of their calls."""
    if not model.functions:
        return model
    from onnx_ir.passes.common import InlinePass  # noqa: PLC0415 - slow, and few models need it

    try:
        return InlinePass()(model).model
    except (ValueError, KeyError, RuntimeError, onnx_ir.passes.InvariantError) as error:
        raise InvalidModel(
            f"{path}: its functions can't be inlined: {_first_line(error)}"
        ) from error


# what onnx_ir raises for tensors whose data contradict what is declared of them
UNREADABLE = (ValueError, TypeError, RuntimeError, OSError, AttributeError, AssertionError)


def array(tensor: onnx_ir.TensorProtocol, files: weights.Mappings) -> np.ndarray:
    """Return a tensor's elements without a copy where the file allows it.

    Raises ValueError where the data do not fit the declared shape.
    """
    if tensor.dtype == onnx_ir.DataType.STRING:
        return np.array(tensor.numpy(), dtype=object)
    try:
        if isinstance(tensor, onnx_ir.ExternalTensor):
            return files.array(tensor)
        return np.asarray(tensor.numpy())
    except UNREADABLE as error:
        raise ValueError(_first_line(error)) from error


def attribute(attr: onnx_ir.Attr, files: weights.Mappings) -> Any:
    """Turn an attribute into plain Python, tensors into arrays; subgraphs stay onnx_ir's."""
    kind = onnx_ir.AttributeType
    if attr.type == kind.TENSOR:
        return array(attr.value, files)
    if attr.type in (kind.INTS, kind.FLOATS, kind.STRINGS, kind.GRAPHS):
        return tuple(attr.value)
    return attr.value
