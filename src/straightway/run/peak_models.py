"""Child side: the small TFLite models whose speed is the machine's peak, run by XNNPACK."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from straightway.run.wire import Array

_VERSION = 3
_IDENTIFIER = b"TFL3"


def product(rows: int, depth: int, columns: int, dtype: str) -> bytes:
    """One matrix product by constant weights: rows × depth by depth × columns, float32 or int8."""
    file = _File()
    data = file.tensor("data", (rows, depth), dtype, scale=0.5)
    weights = file.tensor(
        "weights", (columns, depth), dtype, scale=0.5, data=np.ones((columns, depth), dtype)
    )
    result = file.tensor("result", (rows, columns), dtype, scale=512.0)
    options = schema.FullyConnectedOptionsT()
    code = file.code("FULLY_CONNECTED", 4 if dtype == "int8" else 1)
    file.op(code, [data, weights, -1], result, options)
    return file.finished([data], [result])


def negations(count: int, length: int) -> bytes:
    """`count` times NEG, one after the other, of `length` float32: each reads and writes once."""
    file = _File()
    first = last = file.tensor("x", (length,))
    code = file.code("NEG")
    for number in range(count):
        before, last = last, file.tensor(f"y{number}", (length,))
        file.op(code, [before], last, schema.NegOptionsT())
    return file.finished([first], [last])


def additions(count: int, length: int) -> bytes:
    """`count` times ADD of the same second operand, of `length` float32: two reads, one write."""
    file = _File()
    first = last = file.tensor("x", (length,))
    second = file.tensor("y", (length,))
    code = file.code("ADD")
    for number in range(count):
        before, last = last, file.tensor(f"z{number}", (length,))
        file.op(code, [before, second], last, schema.AddOptionsT())
    return file.finished([first, second], [last])


class _File:
    """A model of one subgraph while it is put together."""

    def __init__(self) -> None:
        self._model = schema.ModelT()
        self._model.version = _VERSION
        self._model.buffers = [schema.BufferT()]
        self._model.operatorCodes = []
        self._graph = schema.SubGraphT()
        self._graph.tensors, self._graph.operators = [], []

    def code(self, name: str, version: int = 1) -> int:
        """Declare an operator."""
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, name)
        code.version = version
        self._model.operatorCodes.append(code)
        return len(self._model.operatorCodes) - 1

    def tensor(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str = "float32",
        *,
        scale: float = 1.0,
        data: Array | None = None,
    ) -> int:
        """Add a tensor; `scale` counts for int8 only."""
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name, list(shape), 0
        tensor.type = getattr(schema.TensorType, dtype.upper())
        if dtype == "int8":
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [scale], [0]
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = data.reshape(-1).view(np.uint8)
            self._model.buffers.append(buffer)
            tensor.buffer = len(self._model.buffers) - 1
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def op(self, code: int, inputs: Sequence[int], output: int, options: Any) -> None:
        """Add an operator; `options` is an instance of the schema's class, which names the union."""
        op = schema.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = code, list(inputs), [output]
        kind = type(options).__name__.removesuffix("T")
        op.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        op.builtinOptions = options
        self._graph.operators.append(op)

    def finished(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file's bytes."""
        self._graph.inputs, self._graph.outputs = list(inputs), list(outputs)
        self._model.subgraphs = [self._graph]
        builder = schema.flatbuffers.Builder(4096)
        builder.Finish(self._model.Pack(builder), file_identifier=_IDENTIFIER)
        return bytes(builder.Output())
