"""Child side: a model cut into files that can be timed one by one, where the profiler refuses it.

LiteRT's compiled model takes no variable tensors, and so no recurrent op. But each partition of the
delegate and each op outside can stand in a file of its own, fed with the values that it gets in the
whole: partitions go to the profiler, ops outside to the interpreter, with the same kernels.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from straightway.run.capi import Refused
from straightway.run.tflite_engine import feed, invoke, open_model
from straightway.run.wire import Array

_IDENTIFIER = b"TFL3"
_WITH_BODIES = frozenset(
    {schema.BuiltinOperator.IF, schema.BuiltinOperator.WHILE, schema.BuiltinOperator.CALL_ONCE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some ops of a model as a file: their indices, whether a delegate runs them, and its inputs."""

    ops: tuple[int, ...]
    delegated: bool
    path: Path
    inputs: Mapping[str, Array]


def pieces(
    params: Mapping[str, Any], arrays: Sequence[Array], placed: Mapping[str, Any], folder: Path
) -> Iterator[Piece]:
    """Cut the model at the borders of `placed` (a `Placement` as data), in execution order.

    Raises Refused for control flow, whose bodies are no ops of the main subgraph.
    """
    model = _read(params["path"])
    graph = model.subgraphs[0]
    if any(
        model.operatorCodes[op.opcodeIndex].builtinCode in _WITH_BODIES for op in graph.operators
    ):
        raise Refused("control flow can't be timed piece by piece")
    whole = open_model(params["path"], delegate=False, keep_all=True)
    feed(whole, params["inputs"], arrays)
    invoke(whole)
    for number, (ops, delegated) in enumerate(_in_execution_order(placed)):
        inputs, outputs = _borders(model, ops)
        if outputs:
            path = folder / f"{number}.tflite"
            path.write_bytes(_extract(model, ops, inputs, outputs))
            values = {f"t{index}": whole.get_tensor(index) for index in inputs}
            yield Piece(ops=ops, delegated=delegated, path=path, inputs=values)


def _read(path: str) -> Any:
    """The model's tables, each constant a view of the mapped file, wherever it stands."""
    data = np.memmap(path, np.uint8, "r")
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data))
    for buffer in model.buffers:
        if buffer.data is None and buffer.offset > 1:
            buffer.data = data[buffer.offset : buffer.offset + buffer.size]
            buffer.offset = buffer.size = 0
    return model


def _in_execution_order(placed: Mapping[str, Any]) -> list[tuple[tuple[int, ...], bool]]:
    """Partitions as they are numbered, each op outside before the first partition that ends later."""
    order: list[tuple[tuple[int, ...], bool]] = []
    outside = list(placed["outside"])
    for members in placed["partitions"]:
        while outside and outside[0] < max(members, default=0):
            order.append(((outside.pop(0),), False))
        order.append((tuple(members), True))
    return order + [((index,), False) for index in outside]


def _borders(model: Any, ops: Sequence[int]) -> tuple[list[int], list[int]]:
    """The tensors that come from outside, constants and variables apart, and those that go there."""
    graph = model.subgraphs[0]
    mine = set(ops)
    made = {t for index in ops for t in graph.operators[index].outputs}
    read = dict.fromkeys(t for index in ops for t in graph.operators[index].inputs if t >= 0)
    inputs = [t for t in read if t not in made and _is_fed(model, t)]
    elsewhere = {
        tensor
        for index, op in enumerate(graph.operators)
        if index not in mine
        for tensor in op.inputs
    }
    return inputs, [t for t in made if t in elsewhere or t in set(graph.outputs)]


def _is_fed(model: Any, index: int) -> bool:
    tensor = model.subgraphs[0].tensors[index]
    data = model.buffers[tensor.buffer].data
    return not tensor.isVariable and (data is None or len(data) == 0)


def _extract(model: Any, ops: Sequence[int], inputs: list[int], outputs: list[int]) -> bytes:
    """A file with these ops, their tensors (named by their index) and the buffers of those."""
    graph = model.subgraphs[0]
    operators = [copy.copy(graph.operators[index]) for index in ops]
    lists = [inputs, outputs]
    for op in operators:
        lists += [op.inputs, op.outputs, [] if op.intermediates is None else op.intermediates]
    used = list(dict.fromkeys(int(t) for tensors in lists for t in tensors if t >= 0))
    place = {-1: -1, **{tensor: number for number, tensor in enumerate(used)}}
    part = schema.ModelT()
    part.version, part.operatorCodes, part.buffers = model.version, model.operatorCodes, []
    part.buffers.append(schema.BufferT())
    cut = schema.SubGraphT()
    cut.tensors = []
    for index in used:
        tensor = copy.copy(graph.tensors[index])
        part.buffers.append(model.buffers[tensor.buffer])
        tensor.name, tensor.buffer = f"t{index}", len(part.buffers) - 1
        cut.tensors.append(tensor)
    for op in operators:
        op.inputs = [place[int(t)] for t in op.inputs]
        op.outputs = [place[int(t)] for t in op.outputs]
        if op.intermediates is not None:
            op.intermediates = [place[int(t)] for t in op.intermediates]
    cut.operators = operators
    cut.inputs, cut.outputs = [place[t] for t in inputs], [place[t] for t in outputs]
    part.subgraphs = [cut]
    builder = schema.flatbuffers.Builder(4096)
    builder.Finish(part.Pack(builder), file_identifier=_IDENTIFIER)
    return bytes(builder.Output())
