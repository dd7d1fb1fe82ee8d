"""The graph of written ops as a TFLite flatbuffer: one writer for all ops."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from straightway.errors import Unsupported
from straightway.ir import Graph, Node, Value
from straightway.tflite.rows import ROWS

SCHEMA_VERSION = 3
LARGEST_BUFFER_BYTES = 2**31 - 1
ALIGNMENT_BYTES = 16
# what a tensor and its operator take beside the weights, about
SPARE_BYTES = 512

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
    """A flatbuffer, and where each value and node of the main graph stands in it."""

    data: memoryview
    tensors: dict[Value, int]
    operators: dict[Node, int]


def write(
    graph: Graph, *, extra_outputs: Sequence[Value] = (), description: str = "straightway"
) -> Written:
    """Serialise a graph of written nodes (physical tensors, option fields as attributes).

    `extra_outputs` are returned as well, after the graph's own: to look inside. The same graph gives the same bytes. Raises Unsupported where the weights pass 2 GB, before
    anything is built.
    """
    total = sum(v.const.nbytes for g in _nested(graph) for v in g.values() if v.const is not None)
    if total > LARGEST_BUFFER_BYTES:
        raise Unsupported(
            f"a flatbuffer holds at most {LARGEST_BUFFER_BYTES:,} bytes; the weights take {total:,}"
        )
    return _Writer(graph, description).finish([*graph.outputs, *extra_outputs])


class _AlignedBuffer:
    """A buffer that starts at a multiple of 16 bytes, as the schema's `force_align` asks.

    Python's flatbuffers builder does not know the attribute; microcontrollers fault without it.
    """

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.from_end = 0

    def Pack(self, builder: Any) -> int:  # noqa: N802 - the object API's own name
        """Write the elements as one block."""
        data = np.ascontiguousarray(self.array).reshape(-1).view(np.uint8)
        builder.StartVector(1, data.size, ALIGNMENT_BYTES)
        builder.head -= data.size
        builder.Bytes[builder.head : builder.head + data.size] = data.data
        self.from_end = len(builder.Bytes) - builder.head  # the bytes may still move, the end stays
        vector = builder.EndVector()
        schema.BufferStart(builder)
        schema.BufferAddData(builder, vector)
        return int(schema.BufferEnd(builder))


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
        # one allocation: a builder that grows doubles its bytes and copies them
        weights = sum(b.array.nbytes for b in self.model.buffers[1:])
        tensors = sum(len(graph.tensors) for graph in self.model.subgraphs)
        builder = flatbuffers.Builder(weights + SPARE_BYTES * (1 + tensors))
        builder.Finish(self.model.Pack(builder), b"TFL3")
        data = memoryview(builder.Bytes)[builder.Head() :]
        self.share(main, data)
        return Written(data=data, tensors=main.tensors, operators=main.operators)

    def share(self, main: _Body, data: memoryview) -> None:
        """Let the graph's constants be views of the file: nobody need hold them twice."""
        for value, index in main.tensors.items():
            buffer = self.model.buffers[main.table.tensors[index].buffer]
            if value.const is not None and value.const.nbytes:
                start = len(data) - buffer.from_end
                stored = np.frombuffer(data[start : start + value.const.nbytes], value.dtype)
                stored.flags.writeable = False
                value.const = stored.reshape(value.const.shape)

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
            made.buffer = 0 if value.const is None else self.buffer(value.const)
            made.quantization = _quantization(value)
            body.tensors[value] = len(body.table.tensors)
            body.table.tensors.append(made)
        return body.tensors[value]

    def buffer(self, array: np.ndarray) -> int:
        """Write the elements of a constant; equal bytes are written once."""
        alike = self.sizes.setdefault(array.nbytes, {})
        if len(alike) == 1 and "" in alike:
            first = alike.pop("")
            alike[_digest(self.model.buffers[first].array)] = first
        key = _digest(array) if alike else ""
        if key not in alike:
            alike[key] = len(self.model.buffers)
            self.model.buffers.append(_AlignedBuffer(array))
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


def _nested(graph: Graph) -> list[Graph]:
    """A graph and those that its operators run."""
    inner = [one for node in graph.nodes for one in node.graphs()]
    return [graph, *(found for one in inner for found in _nested(one))]


def _tensor_map(body: _Body, value: Value) -> Any:
    """One name of the signature."""
    made = schema.TensorMapT()
    made.name = value.name.encode()
    made.tensorIndex = body.tensors[value]
    return made


def _digest(array: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(array).tobytes()).hexdigest()


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
