"""Equal constants, and equal nodes on equal operands, become one.

    before                      after
      %a = Shape(%x)              %a = Shape(%x)
      %b = Shape(%x)              %y = Concat(%a, %a)
      %y = Concat(%a, %b)

Random operators stay apart; so do two outputs of the graph. Constants are equal when type, shape and
every byte are.
"""

import hashlib
from collections.abc import Hashable, Iterator

import numpy as np

from straightway.ir import Graph, Node, Value, edit
from straightway.ir.elements import pieces
from straightway.passes.types import subgraphs
from straightway.remark import Remark

STEP = "passes.dedup"
RANDOM = frozenset(
    {
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
# Bytes that tell most constants of one type and shape apart.
SAMPLE_BYTES = 64


def run(graph: Graph) -> list[Remark]:
    """Merge constants, then nodes in order, so that equal chains merge as a whole."""
    merged = {"constants": _merge_constants(graph), "nodes": _merge_nodes(graph)}
    if not any(merged.values()):
        return []
    text = f"merged {merged['nodes']} nodes and {merged['constants']} constants with their equals"
    return [Remark(kind="done", step=STEP, text=text, numbers=merged)]


def _constants(graph: Graph) -> Iterator[Value]:
    """Every constant that nodes use, in this graph and those inside."""
    for node in graph.nodes:
        for value in node.operands():
            if value.const is not None:
                yield value
        for inner in subgraphs(node):
            yield from _constants(inner)


def _merge_constants(graph: Graph) -> int:
    alike: dict[Hashable, list[Value]] = {}
    for value in dict.fromkeys(_constants(graph)):
        array = value.const
        if array is None or array.dtype == object or value.quant is not None:
            continue
        if value.name in graph.varying:  # equal by chance
            continue
        if not graph.is_output(value):
            alike.setdefault((array.dtype, array.shape, _sample(array)), []).append(value)
    merged = 0
    for values in alike.values():
        kept: dict[bytes, Value] = {}
        for value in values if len(values) > 1 else ():
            first = kept.setdefault(_digest(value), value)
            if first is not value:
                edit.replace_uses(value, first)
                merged += 1
    return merged


def _sample(array: np.ndarray) -> bytes:
    step = max(1, array.nbytes // SAMPLE_BYTES)
    return array.flat[::step].tobytes()


def _digest(value: Value) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for piece in pieces(np.asarray(value.const)):
        made.update(piece)
    return made.digest()


def _merge_nodes(graph: Graph) -> int:
    seen: dict[Hashable, Node] = {}
    merged = 0
    for node in graph.nodes:
        key = _key(node)
        if key is None:
            merged += sum(_merge_nodes(inner) for inner in subgraphs(node))
            continue
        kept = seen.setdefault(key, node)
        if kept is not node and not _both_outputs(graph, kept, node):
            edit.replace(node, kept.outputs)
            merged += 1
    return merged


def _key(node: Node) -> Hashable | None:
    """What two nodes must share to be equal; None for a node that is equal to no other."""
    if node.op.name in RANDOM or subgraphs(node):
        return None
    attrs = tuple((name, _frozen(node.attrs[name])) for name in sorted(node.attrs))
    return (node.op, tuple(map(id, node.inputs)), len(node.outputs), attrs)


def _frozen(value: object) -> Hashable:
    if isinstance(value, np.ndarray):
        content = value.tobytes() if value.dtype != object else tuple(value.reshape(-1).tolist())
        return (value.dtype, value.shape, content)
    # repr tells 1 from 1.0 and 0.0 from -0.0, which compare equal
    return repr(value)


def _both_outputs(graph: Graph, kept: Node, node: Node) -> bool:
    pairs = zip(kept.outputs, node.outputs, strict=True)
    return any(graph.is_output(old) and graph.is_output(new) for new, old in pairs)
