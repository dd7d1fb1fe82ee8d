"""The graph of written ops as a TFLite flatbuffer: one writer for all ops."""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from straightway.ir import Graph, Node, TensorType, Value
from straightway.ir.elements import pieces
from straightway.tflite.rows import ROWS

SCHEMA_VERSION = 3
# Offsets in a flatbuffer are signed 32-bit numbers where it is checked (flatbuffers, `base.h`,
# FLATBUFFERS_MAX_BUFFER_SIZE).
LARGEST_FLATBUFFER_BYTES = 2**31 - 1
ALIGNMENT_BYTES = 16
LENGTH_BYTES = 4
# what a tensor and its operator take beside the weights, about
SPARE_BYTES = 512
# The mark that constants lie behind the flatbuffer: who has no more than that must not run it
# (LiteRT v2.2.0, tflite/converter/core/model_builder_base.h:671).
OUTSIDE = (b"buffer_location", b"outside flatbuffers")

ELEMENT_TYPES = {
    "float32": "FLOAT32",
    "float16": "FLOAT16",
    "bfloat16": "BFLOAT16",
    "float64": "FLOAT64",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "bool": "BOOL",
    "int4": "INT4",
    "complex64": "COMPLEX64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file: its tables, the constants that follow them, and where each value and node stands in it.

    `behind` has the constants in order, and the bytes between them. No constant is copied until it
    is written.
    """

    tables: bytes
    behind: tuple[bytes | np.ndarray, ...]
    tensors: dict[Value, int]
    operators: dict[Node, int]

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return len(self.tables) + sum(map(_size_bytes, self.behind))

    def pieces(self) -> Iterator[bytes | memoryview]:
        """The file's bytes in order, some at a time."""
        yield self.tables
        for part in self.behind:
            yield from (part,) if isinstance(part, bytes) else pieces(part)

    @property
    def data(self) -> memoryview:
        """The whole file."""
        return memoryview(b"".join(self.pieces()))


def write(
    graph: Graph, *, extra_outputs: Sequence[Value] = (), description: str = "straightway"
) -> Written:
    """Serialise a graph of written nodes (physical tensors, option fields as attributes).

    `extra_outputs` are returned as well, after the graph's own: to look inside. The same graph gives
    the same bytes. Constants of more than 2 GB in all stand behind the flatbuffer, which has 64-bit
    places for that; LiteRT reads them there (v2.2.0, tflite/core/interpreter_builder.cc:762), and
    hands them to XNNPACK as it does others.
    """
    return _Writer(graph, description).finish([*graph.outputs, *extra_outputs])


class _Constant:
    """A buffer whose elements follow the tables, where place and alignment are known.

    In the flatbuffer they are a vector; a flatbuffer's vectors may stand anywhere after the table that
    refers to them. They start at a multiple of 16 bytes, as the schema's `force_align` asks:
    microcontrollers fault without it.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.outside = False
        self.from_end = 0

    def Pack(self, builder: Any) -> int:  # noqa: N802 - the object API's own name
        """Write the table, its reference still open."""
        schema.BufferStart(builder)
        if self.outside:
            schema.BufferAddSize(builder, self.array.nbytes)
            schema.BufferAddOffset(builder, 1)
        else:
            builder.PrependUint32(0)
            builder.Slot(0)
        self.from_end = builder.Offset()  # the bytes may still move, the end stays
        return int(schema.BufferEnd(builder))

    @property
    def length(self) -> bytes:
        """What stands directly before the elements: how many bytes a flatbuffer's vector has."""
        return b"" if self.outside else struct.pack("<I", self.array.nbytes)

    def refer(self, tables: bytearray, start: int) -> None:
        """Let the table refer to elements that start there."""
        place = len(tables) - self.from_end
        if self.outside:
            struct.pack_into("<Q", tables, place, start)
        else:
            struct.pack_into("<I", tables, place, start - LENGTH_BYTES - place)


class _Body:
    """One graph of the file while it is written: its tensors and operators in the order met."""

    def __init__(self, name: str) -> None:
        self.tensors: dict[Value, int] = {}
        self.operators: dict[Node, int] = {}
        self.table = schema.SubGraphT()
        self.table.name = name.encode()
        self.table.tensors = []
        self.table.operators = []


class _Writer:
    """Collects graphs, buffers and operator codes in the order in which they are met."""

    def __init__(self, graph: Graph, description: str) -> None:
        self.graph = graph
        self.signatures = graph.signatures
        self.codes: dict[tuple[str, int], int] = {}
        # for each size in bytes the buffers, by digest; the first of a size has none until needed
        self.sizes: dict[int, dict[str, int]] = {}
        self.model = schema.ModelT()
        self.model.version = SCHEMA_VERSION
        self.model.description = description.encode()
        self.model.buffers = [schema.BufferT()]
        self.model.operatorCodes = []
        self.model.subgraphs = []

    def finish(self, outputs: list[Value]) -> Written:
        """Write all graphs, the main one first, and one signature that names its ends."""
        main = self.body(self.graph, outputs)
        self.model.signatureDefs = [self.signature(main, outputs)]
        total = sum(constant.array.nbytes for constant in self.constants)
        if total <= LARGEST_FLATBUFFER_BYTES:
            made = self.packed(main)
            if made.size_bytes <= LARGEST_FLATBUFFER_BYTES:
                return made
        self.move_outside()
        return self.packed(main)

    def packed(self, main: _Body) -> Written:
        """Write the tables, and place the constants behind them."""
        tensors = sum(len(graph.tensors) for graph in self.model.subgraphs)
        builder = flatbuffers.Builder(SPARE_BYTES * (1 + tensors))
        builder.Finish(self.model.Pack(builder), b"TFL3")
        tables = builder.Output()
        behind: list[bytes | np.ndarray] = []
        end = len(tables)
        for constant in self.constants:
            array, length = constant.array, constant.length
            start = -(-(end + len(length)) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
            constant.refer(tables, start)
            behind += [bytes(start - end - len(length)) + length, array]
            end = start + array.nbytes
        return Written(
            tables=bytes(tables),
            behind=tuple(behind),
            tensors=main.tensors,
            operators=main.operators,
        )

    def move_outside(self) -> None:
        """Let the constants no longer be part of the flatbuffer."""
        for constant in self.constants:
            constant.outside = True
        name, text = OUTSIDE
        mark = schema.MetadataT()
        mark.name, mark.buffer = name, len(self.model.buffers)
        self.model.metadata = [mark]
        self.model.buffers.append(schema.BufferT())
        self.model.buffers[-1].data = np.frombuffer(text, np.uint8)

    @property
    def constants(self) -> list[_Constant]:
        """The buffers that hold constants, in order."""
        return [buffer for buffer in self.model.buffers if isinstance(buffer, _Constant)]

    def body(self, graph: Graph, outputs: Sequence[Value]) -> _Body:
        """Write inputs, operators, outputs of one graph."""
        body = _Body(graph.name or "main")
        self.model.subgraphs.append(body.table)
        body.table.inputs = self.indices(body, graph.inputs)
        for node in graph.nodes:
            body.operators[node] = len(body.table.operators)
            body.table.operators.append(self.operator(body, node))
        body.table.outputs = self.indices(body, outputs)
        return body

    def inner(self, graph: Graph) -> int:
        """Write a graph that an operator runs; return its number."""
        number = len(self.model.subgraphs)
        self.body(graph, graph.outputs)
        return number

    def signature(self, main: _Body, outputs: list[Value]) -> Any:
        """Name inputs and outputs as the model does."""
        made = schema.SignatureDefT()
        made.signatureKey = b"serving_default"
        made.subgraphIndex = 0
        made.inputs = [_tensor_map(main, v) for v in self.graph.inputs]
        made.outputs = [_tensor_map(main, v) for v in outputs]
        return made

    def indices(self, body: _Body, values: "Sequence[Value | None]") -> np.ndarray:
        """Tensor indices; −1 stands for an absent operand."""
        return np.array([-1 if v is None else self.tensor(body, v) for v in values], np.int32)

    def tensor(self, body: _Body, value: Value) -> int:
        """Return the index of a tensor, writing it when it is met first."""
        if value not in body.tensors:
            made = schema.TensorT()
            made.name = value.name.encode()
            shown, signature = self.signatures.get(value, (value.shape, ()))
            made.shape = np.array(shown, np.int32)
            if signature:
                made.shapeSignature = np.array(signature, np.int32)
            made.hasRank = True
            made.type = getattr(schema.TensorType, ELEMENT_TYPES[value.dtype.name])
            made.buffer = 0 if value.const is None else self.buffer(packed(value.const))
            made.quantization = self.quantization(body, value)
            body.tensors[value] = len(body.table.tensors)
            body.table.tensors.append(made)
        return body.tensors[value]

    def quantization(self, body: _Body, value: Value) -> Any:
        """Scales and zero points; scales of blocks are a tensor of their own."""
        if value.quant is None or not value.quant.block:
            return _quantization(value)
        scale = value.quant.scale
        kind = TensorType(dtype=scale.dtype, shape=scale.shape)
        details = schema.BlockwiseQuantizationT()
        details.scales = self.tensor(body, Value(f"{value.name}/scales", kind, scale))
        details.zeroPoints = -1
        details.blockSize = value.quant.block
        made = schema.QuantizationParametersT()
        made.detailsType = schema.QuantizationDetails.BlockwiseQuantization
        made.details = details
        return made

    def buffer(self, array: np.ndarray) -> int:
        """Write the elements of a constant; equal bytes are written once."""
        alike = self.sizes.setdefault(array.nbytes, {})
        if len(alike) == 1 and "" in alike:
            first = alike.pop("")
            alike[_digest(self.model.buffers[first].array)] = first
        key = _digest(array) if alike else ""
        if key not in alike:
            alike[key] = len(self.model.buffers)
            self.model.buffers.append(_Constant(array))
        return alike[key]

    def operator(self, body: _Body, node: Node) -> Any:
        """Write one operator with its options."""
        row = ROWS[node.op.name]
        key = (row.name, row.version(node))
        if key not in self.codes:
            self.codes[key] = len(self.model.operatorCodes)
            self.model.operatorCodes.append(_code(*key))
        made = schema.OperatorT()
        made.opcodeIndex = self.codes[key]
        made.inputs = self.indices(body, node.inputs)
        made.outputs = self.indices(body, list(node.outputs))
        if row.options:
            made.builtinOptionsType = getattr(schema.BuiltinOptions, row.options)
            made.builtinOptions = getattr(schema, f"{row.options}T")()
            enums = {attr.fields[0]: attr.enum for attr in row.attrs.values() if attr.enum}
            for name, value in node.attrs.items():
                if not hasattr(made.builtinOptions, name):
                    raise AttributeError(f"{row.name} has no option {name}")
                setattr(made.builtinOptions, name, self.option(value, enums.get(name, "")))
        return made

    def option(self, value: Any, enum: str) -> Any:
        """Return an option as the schema stores it: a number for a name, or for a graph."""
        if isinstance(value, Graph):
            return self.inner(value)
        return getattr(getattr(schema, enum), value) if isinstance(value, str) and enum else value


def _tensor_map(body: _Body, value: Value) -> Any:
    """One name of the signature."""
    made = schema.TensorMapT()
    made.name = value.name.encode()
    made.tensorIndex = body.tensors[value]
    return made


def _size_bytes(part: bytes | np.ndarray) -> int:
    return len(part) if isinstance(part, bytes) else part.nbytes


def _digest(array: np.ndarray) -> str:
    made = hashlib.blake2b()
    for piece in pieces(array):
        made.update(piece)
    return made.hexdigest()


def _code(name: str, version: int) -> Any:
    made = schema.OperatorCodeT()
    made.builtinCode = getattr(schema.BuiltinOperator, name)
    # readers older than the 32-bit code look at the 8-bit one; 127 tells them to give up
    made.deprecatedBuiltinCode = min(made.builtinCode, 127)
    made.version = version
    return made


def _quantization(value: Value) -> Any:
    if value.quant is None:
        return None
    made = schema.QuantizationParametersT()
    made.scale = np.atleast_1d(np.asarray(value.quant.scale, np.float32))
    made.zeroPoint = np.atleast_1d(np.asarray(value.quant.zero_point, np.int64))
    made.quantizedDimension = value.quant.axis or 0
    return made


def packed(array: np.ndarray) -> np.ndarray:
    """The bytes of a constant: of int4, two elements share one, the first its lower half."""
    if array.dtype.name != "int4":
        return array
    halves = np.pad(array.astype(np.int8).reshape(-1).view(np.uint8) & 15, (0, array.size % 2))
    return np.asarray(halves[0::2] | (halves[1::2] << 4), np.uint8)
