"""Child side: what this machine can do at most in one thread, measured through XNNPACK itself."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from straightway.run import tflite_engine
from straightway.run.wire import Array

# Large enough to reach the kernels' full rate, small enough for weights to stay in a 1 MiB cache.
_ROWS, _DEPTH, _COLUMNS = 512, 512, 512
_REPEATS = 9
# From a second-level cache to well beyond a last-level one; each copy reads and writes half of it.
_COPIES_BYTES = (256 << 10, 2 << 20, 16 << 20, 128 << 20)
_COPY_BUDGET_BYTES = 512 << 20
_VERSION = 3
_IDENTIFIER = b"TFL3"


def measure(
    _params: Mapping[str, Any], _arrays: Sequence[Array]
) -> tuple[dict[str, Any], list[Array]]:
    """10⁹ multiply-accumulates a second for float32 and int8, and copies in 10⁹ bytes a second."""
    macs = _ROWS * _DEPTH * _COLUMNS
    with tempfile.TemporaryDirectory() as folder:
        gmacs = {
            dtype: macs / _fastest_ns(_product(dtype, Path(folder)))
            for dtype in ("float32", "int8")
        }
    return {
        "gmacs": gmacs,
        "copies": [[size, _copy_gbs(size)] for size in _COPIES_BYTES],
        "method": f"FULLY_CONNECTED {_ROWS}×{_DEPTH}×{_COLUMNS} by XNNPACK; numpy copies; fastest "
        f"of {_REPEATS}, thread CPU time",
    }, []


def _fastest_ns(run: Callable[[], Any]) -> int:
    run()
    samples = []
    for _ in range(_REPEATS):
        start_ns = time.thread_time_ns()
        run()
        samples.append(time.thread_time_ns() - start_ns)
    return max(1, min(samples))


def _copy_gbs(touched_bytes: int) -> float:
    source = np.ones(touched_bytes // 2, np.uint8)
    target = np.zeros_like(source)
    turns = max(1, min(64, _COPY_BUDGET_BYTES // touched_bytes // _REPEATS))

    def run() -> None:
        for _ in range(turns):
            np.copyto(target, source)

    return touched_bytes * turns / _fastest_ns(run)


def _product(dtype: str, folder: Path) -> Callable[[], Any]:
    path = folder / f"{dtype}.tflite"
    path.write_bytes(product_model(dtype))
    data = np.ones((_ROWS, _DEPTH), dtype)
    return tflite_engine.prepare({"path": str(path), "inputs": None}, [data])


def product_model(dtype: str) -> bytes:
    """A .tflite file with one matrix product by constant weights."""
    weights = np.ones((_COLUMNS, _DEPTH), dtype)
    model = schema.ModelT()
    model.version = _VERSION
    model.buffers = [schema.BufferT(), schema.BufferT()]
    model.buffers[1].data = weights.reshape(-1).view(np.uint8)
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.FULLY_CONNECTED
    code.version = 4 if dtype == "int8" else 1
    model.operatorCodes = [code]
    graph = schema.SubGraphT()
    graph.tensors = [
        _tensor("data", (_ROWS, _DEPTH), dtype, 0),
        _tensor("weights", (_COLUMNS, _DEPTH), dtype, 1),
        _tensor("result", (_ROWS, _COLUMNS), dtype, 0),
    ]
    op = schema.OperatorT()
    op.inputs, op.outputs = [0, 1, -1], [2]
    op.builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
    op.builtinOptions = schema.FullyConnectedOptionsT()
    graph.operators, graph.inputs, graph.outputs = [op], [0], [2]
    model.subgraphs = [graph]
    builder = schema.flatbuffers.Builder(weights.nbytes + 4096)
    builder.Finish(model.Pack(builder), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())


def _tensor(name: str, shape: tuple[int, ...], dtype: str, buffer: int) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.buffer = name, list(shape), buffer
    tensor.type = schema.TensorType.INT8 if dtype == "int8" else schema.TensorType.FLOAT32
    if dtype == "int8":
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = [0.5 if name != "result" else 512.0]
        tensor.quantization.zeroPoint = [0]
    return tensor
