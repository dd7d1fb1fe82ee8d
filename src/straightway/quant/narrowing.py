"""Whole numbers as int32, where the engine's kernels have no int64.

    before                                  after
      input %i int64                          input %i int32
      %n = CAST(LESS(%i, 0)) int64            %n = CAST(LESS(%i, 0)) int32
      %p = ADD(%i, MUL(%n, const 50))         %p = ADD(%i, MUL(%n, const 50))
      %y = GATHER(const, %p)                  %y = GATHER(const, %p)

All int64 values that ops tie together change, where one of these ops has no kernel; what goes in or out
has another type then, and is named. Numbers beyond int32 would not fit: constants that don't, and what
is made of uint32 or by ops that the engine lacks, stay.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from straightway.errors import Bug, InvalidRequest
from straightway.ir import Graph, Node, Value, edit
from straightway.quant.edges import is_op
from straightway.remark import Remark
from straightway.targets.engine import Engine
from straightway.tflite.rows import ROWS

STEP = "quant.narrowing"
WIDE, NARROW = np.dtype(np.int64), np.dtype(np.int32)
LIMITS = np.iinfo(np.int32)


def run(graph: Graph, engine: Engine) -> list[Remark]:
    """Let whole numbers be int32 where that is what the engine computes with."""
    nodes = [node for node in graph.nodes if _wide(node)]
    changed: list[Value] = []
    count = 0
    for part in _parts(nodes):
        values = list(dict.fromkeys(value for node in part for value in _wide(node)))
        runs = all(not engine.fault(node, written=False) for node in part)
        if runs or not all(map(_fits, values)) or any(_keeps(n, engine) for n in part):
            continue
        count += len(part)
        for value in values:
            _narrow(value)
        for node in part:
            _settle(node)
        changed += values
    return [*_told(count), *_ends(graph, changed)]


def stored(name: str, dtype: np.dtype, array: np.ndarray) -> np.ndarray:
    """Whole numbers as an input takes them; raises InvalidRequest where they don't fit."""
    if (array.dtype, dtype) != (WIDE, NARROW):
        return array
    if not _within(array):
        raise InvalidRequest(
            f"input '{name}' is int32 for this target; got numbers from {array.min()} to "
            f"{array.max()}"
        )
    return array.astype(NARROW)


def _wide(node: Node) -> list[Value]:
    return [v for v in (*node.operands(), *node.outputs) if v.dtype == WIDE]


def _parts(nodes: list[Node]) -> Iterator[list[Node]]:
    """Nodes that share values of int64, together."""
    left = dict.fromkeys(nodes)
    while left:
        part, waiting = [], [next(iter(left))]
        while waiting:
            node = waiting.pop()
            if node not in left:
                continue
            del left[node]
            part.append(node)
            for value in _wide(node):
                waiting += [*value.users(), *([value.producer] if value.producer else [])]
        yield part


def _keeps(node: Node, engine: Engine) -> bool:
    """Whether a node needs int64: one that runs others, that reads uint32, or that the engine lacks."""
    wider = any(v.dtype == np.uint32 for v in node.operands())
    return wider or any(node.graphs()) or node.op.name not in engine.kernels


def _fits(value: Value) -> bool:
    return value.const is None or _within(np.asarray(value.const))


def _within(array: np.ndarray) -> bool:
    return not array.size or bool(array.min() >= LIMITS.min and array.max() <= LIMITS.max)


def _narrow(value: Value) -> None:
    value.type = replace(value.known_type, dtype=NARROW)
    if value.const is not None:
        value.const = np.asarray(value.const).astype(NARROW)


def _settle(node: Node) -> None:
    """Give an op's attributes the type; a CAST between the same types goes."""
    for name, given in node.attrs.items():
        if isinstance(given, np.dtype) and given == WIDE:
            node.attrs[name] = NARROW
        elif given == WIDE.name.upper() and ROWS[node.op.name].attrs[name].enum == "TensorType":
            node.attrs[name] = NARROW.name.upper()
    for kind, value in zip(ROWS[node.op.name].infer(node), node.outputs, strict=True):
        if kind.dtype != value.dtype:
            raise Bug(f"{node.op.name} '{node.name}' gives {kind.dtype}, not {value.dtype}")
    if is_op(node, "CAST") and node.operands()[0].dtype == node.output.dtype:
        edit.replace(node, node.operands())


def _told(count: int) -> list[Remark]:
    if not count:
        return []
    text = (
        f"{count} ops of int64 compute with int32, which is what the target's engine has: numbers beyond "
        "would not fit"
    )
    return [Remark(kind="done", step=STEP, text=text, numbers={"nodes": count})]


def _ends(graph: Graph, changed: list[Value]) -> list[Remark]:
    """The inputs and outputs that have another type than the model's."""
    names = graph.output_names or [value.name for value in graph.outputs]
    outputs = zip(names, graph.outputs, strict=True)
    ends = [("input", v.name) for v in graph.inputs if v in changed]
    ends += [("output", name) for name, v in outputs if v in changed]
    return [
        Remark(
            kind="done", step=STEP, text=f"{what} '{name}' is int32 in the file, int64 in the model"
        )
        for what, name in ends
    ]
