"""ONNX files in. Nothing here trusts the file."""

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import google.protobuf.message
import numpy as np
import onnx
import onnx.checker
import onnx_ir

from straightway.errors import InvalidModel

LARGEST_PROTOBUF_BYTES = 2**31 - 1


def read(path: Path) -> onnx_ir.Model:
    """Read a model file; tensors stay in the file's bytes until they are used.

    Raises InvalidModel for what is not a model: a directory, an empty or truncated file, text,
    external data outside the model's folder or shorter than declared.
    """
    path = Path(path)
    proto = _parse(path)
    _check_frame(proto, path)
    for tensor in _tensors(proto.graph):
        _check_tensor(tensor, path)
    try:
        model = onnx_ir.from_proto(proto)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError) as error:
        raise InvalidModel(f"{path}: the graph is damaged: {_first_line(error)}") from error
    _set_base(model, path.parent)
    return _inlined(model, path)


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


def _parse(path: Path) -> onnx.ModelProto:
    if path.is_dir():
        raise InvalidModel(f"{path}: is a directory; an ONNX model is one file")
    try:
        size = path.stat().st_size
        if size == 0:
            raise InvalidModel(f"{path}: is empty")
        if size > LARGEST_PROTOBUF_BYTES:
            raise InvalidModel(
                f"{path}: {size:,} bytes; a protobuf file holds at most {LARGEST_PROTOBUF_BYTES:,}. "
                "Save the weights as external data"
            )
        return onnx.ModelProto.FromString(path.read_bytes())  # type: ignore[no-any-return]
    except OSError as error:
        raise InvalidModel(f"{path}: cannot be read: {error.strerror or error}") from error
    except (google.protobuf.message.DecodeError, ValueError, RuntimeError) as error:
        raise InvalidModel(
            f"{path}: is not an ONNX model, or is truncated ({size:,} bytes): {_first_line(error)}"
        ) from error


def _check_frame(proto: onnx.ModelProto, path: Path) -> None:
    if not proto.HasField("graph") or not (proto.opset_import or proto.functions):
        raise InvalidModel(f"{path}: is not an ONNX model: it has no graph or no opset")
    if not proto.graph.output:
        raise InvalidModel(f"{path}: the graph has no output")


def _tensors(graph: onnx.GraphProto) -> Iterable[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)
            for inner in attribute.graphs:
                yield from _tensors(inner)


def _check_tensor(tensor: onnx.TensorProto, path: Path) -> None:
    if any(dim < 0 for dim in tensor.dims):
        raise InvalidModel(f"{path}: tensor '{tensor.name}' has a negative dimension")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        _check_external(tensor, path)


def _check_external(tensor: onnx.TensorProto, path: Path) -> None:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    where = f"{path}: external data of tensor '{tensor.name}'"
    parts = PurePosixPath(location.replace("\\", "/"))
    if not location or parts.is_absolute() or ".." in parts.parts or ":" in parts.parts[0]:
        raise InvalidModel(f"{where} must lie beside the model; its location is '{location}'")
    folder = path.parent.resolve()
    target = (folder / location).resolve()
    if not target.is_relative_to(folder):
        raise InvalidModel(f"{where} leaves the model's folder: '{location}'")
    if not target.is_file():
        raise InvalidModel(f"{where} is missing: '{location}'")
    try:
        offset, length = int(entries.get("offset", 0)), entries.get("length")
        end = offset + int(length) if length is not None else offset
    except ValueError as error:
        raise InvalidModel(f"{where} has an offset or length that is no number") from error
    size = target.stat().st_size
    if offset < 0 or end < offset or end > size:
        raise InvalidModel(
            f"{where} needs bytes {offset:,} to {end:,} of '{location}'; it has {size:,}"
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
    except (ValueError, KeyError, RuntimeError) as error:
        raise InvalidModel(
            f"{path}: its functions can't be inlined: {_first_line(error)}"
        ) from error


def array(tensor: onnx_ir.TensorProtocol) -> np.ndarray:
    """Return a tensor's elements without a copy where the file allows it.

    Raises ValueError where the data do not fit the declared shape.
    """
    if tensor.dtype == onnx_ir.DataType.STRING:
        return np.array(tensor.numpy(), dtype=object)
    try:
        return np.asarray(tensor.numpy())
    except (ValueError, TypeError, RuntimeError, OSError, AttributeError) as error:
        raise ValueError(_first_line(error)) from error


def attribute(attr: onnx_ir.Attr) -> Any:
    """Turn an attribute into plain Python, tensors into arrays; subgraphs stay onnx_ir's."""
    kind = onnx_ir.AttributeType
    if attr.type == kind.TENSOR:
        return array(attr.value)
    if attr.type in (kind.INTS, kind.FLOATS, kind.STRINGS, kind.GRAPHS):
        return tuple(attr.value)
    return attr.value
