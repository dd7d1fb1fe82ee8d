"""A graph inside a node made to stand for itself: what it reads of the graph around it comes in."""

from collections.abc import Sequence

import numpy as np

from straightway.ir import Graph, Node, TensorType, Value, edit
from straightway.passes.control import copy_graph
from straightway.passes.types import nested


def isolated(graph: Graph, given: Sequence[TensorType | np.ndarray]) -> tuple[Graph, list[Value]]:
    """Copy a graph; `given` are the types of its inputs, or the constants that take their place.

    Returns the copy, and the values of the graph around it that are its further inputs.
    """
    read = outer_values([graph])
    inner = {value: Value(f"{graph.name}/{value.name}", value.type) for value in read}
    copy = copy_graph(graph, dict(inner))
    own, copy.inputs = copy.inputs, []
    for value, what in zip(own, given, strict=True):
        if isinstance(what, np.ndarray):
            edit.replace_uses(value, edit.constant(copy, what, value.name))
        else:
            value.type = what
            edit.add_input(copy, value)
    for value in inner.values():
        edit.add_input(copy, value)
    copy.output_names = [value.name for value in copy.outputs]
    return copy, read


def outer_values(graphs: Sequence[Graph]) -> list[Value]:
    """What graphs, and those inside them, read of the graph around them."""
    all_graphs = [inner for graph in graphs for inner in nested(graph)]
    made: set[Value] = set()
    read: dict[Value, None] = {}
    for graph in all_graphs:
        made.update(graph.inputs)
        for node in graph.nodes:
            made.update(node.outputs)
            read.update(dict.fromkeys(node.operands()))
        read.update(dict.fromkeys(graph.outputs))
    return [value for value in read if value.const is None and value not in made]


def reads(node: Node) -> list[Value]:
    """What a node reads, the graphs inside it too."""
    inner = node.graphs()
    return [*node.operands(), *outer_values(inner)] if inner else node.operands()
