"""Everything that changes a graph. Uses, producers and origins are kept true here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from straightway.ir.elements import held
from straightway.ir.graph import Graph, Node, Op, Value
from straightway.ir.source import Origins, merge
from straightway.ir.types import TensorType


def constant(graph: Graph, array: np.ndarray, name: str = "const") -> Value:
    """Make a constant value; it belongs to no node."""
    kind = TensorType(dtype=array.dtype, shape=tuple(array.shape))
    return Value(graph.fresh(name), kind, held(np.asarray(array)))


def add_input(graph: Graph, value: Value) -> Value:
    """Append a graph input."""
    graph.taken.setdefault(value.name, 0)
    graph.inputs.append(value)
    return value


def set_outputs(graph: Graph, values: Iterable[Value]) -> None:
    """Say what the graph returns."""
    for index, old in enumerate(graph.exit.inputs):
        if old is not None:
            old.uses.pop((graph.exit, index), None)
    graph.exit.inputs = list(values)
    for index, value in enumerate(graph.exit.operands()):
        value.uses[graph.exit, index] = None


def insert(graph: Graph, node: Node, before: Node | None = None) -> Node:
    """Link `node` into the list before another, or at the end, and record its edges."""
    node.graph = graph
    node.next = before
    node.previous = graph.last if before is None else before.previous
    if node.previous is None:
        graph.first = node
    else:
        node.previous.next = node
    if before is None:
        graph.last = node
    else:
        before.previous = node
    for index, value in enumerate(node.inputs):
        if value is not None:
            value.uses[node, index] = None
    for value in node.outputs:
        value.producer = node
        graph.taken.setdefault(value.name, 0)
    return node


def before(
    node: Node, op: Op, inputs: Sequence[Value | None], attrs: Mapping[str, Any], count: int = 1
) -> list[Value]:
    """Write an op that does a part of what `node` stands for, ahead of it; its results have no type yet."""
    graph = node.graph
    if graph is None:
        raise ValueError(f"node '{node.name}' is in no graph")
    stem = node.outputs[0].name if node.outputs else node.name
    made = [Value(graph.fresh(f"{stem}/{op.name.lower()}"), None) for _ in range(count)]
    insert(graph, Node(op, inputs, made, dict(attrs), name=node.name, origins=node.origins), node)
    return made


def append(graph: Graph, node: Node) -> Node:
    """Add `node` at the end."""
    return insert(graph, node)


def set_input(node: Node, index: int, value: Value | None) -> None:
    """Let operand `index` of `node` be another value."""
    old = node.inputs[index]
    if old is not None:
        old.uses.pop((node, index), None)
    node.inputs[index] = value
    if value is not None:
        value.uses[node, index] = None


def remove(node: Node) -> None:
    """Unlink a node whose results nobody uses."""
    graph = node.graph
    if graph is None or any(value.uses for value in node.outputs):
        raise ValueError(f"{node} is not in a graph, or its results are still used")
    for index in range(len(node.inputs)):
        set_input(node, index, None)
    if node.previous is None:
        graph.first = node.next
    else:
        node.previous.next = node.next
    if node.next is None:
        graph.last = node.previous
    else:
        node.next.previous = node.previous
    for value in node.outputs:
        value.producer = None
    node.graph = None


def replace_uses(old: Value, new: Value) -> None:
    """Let every user of `old` read `new`."""
    for node, index in list(old.uses):
        set_input(node, index, new)


def replace(old: Node, values: Sequence[Value], origins: Origins = frozenset()) -> None:
    """Let the results of `old` be `values`, and drop the node.

    The nodes that make `values` take over what `old` stands for, so that no origin is lost, and the
    values take over the names of those that they replace: a name always means the same tensor of
    the user's model, though folding may have changed what its node computed before.
    """
    graph = old.graph
    for before, after in zip(old.outputs, values, strict=True):
        producer = after.producer
        if producer is not None:
            producer.origins = merge(producer.origins, old.origins, origins)
        if graph is not None and may_rename(graph, after):
            before.name, after.name = after.name, before.name
        replace_uses(before, after)
    remove(old)


def absorb(producer: Node, node: Node) -> None:
    """Let `producer` compute what `node` computed from its only result; that result vanishes."""
    (between,), (result,) = producer.outputs, node.outputs
    producer.origins = merge(producer.origins, node.origins)
    for index, value in enumerate(node.inputs):
        if value is between:
            set_input(node, index, None)
    node.outputs = []
    remove(node)
    between.producer = None
    producer.outputs = [result]
    result.producer = producer


def may_rename(graph: Graph, value: Value) -> bool:
    """Whether no one outside knows this value by its name."""
    producer = value.producer
    return producer is not None and producer.graph is graph and not graph.is_output(value)
