"""Graphs whose results have as many elements as the run tells: translated with three assumed sizes."""

from collections.abc import Iterator, Sequence

from straightway.ir import Graph, Value
from straightway.passes.control import copy_graph
from straightway.passes.types import nested

# Smaller than what models ask of such results, larger than what they keep of them.
ASSUMED_COUNTS = (1008, 1512, 2004)


def samples(graphs: Sequence[Graph]) -> Iterator[Graph]:
    """Copies of graphs as they were ingested, each with another assumed size."""
    for graph, count in zip(graphs, ASSUMED_COUNTS, strict=False):
        copy = copied(graph)
        copy.assumed_count = count
        yield copy


def copied(graph: Graph) -> Graph:
    """A copy that shares nothing but the elements of constants."""
    constants = {}
    for inner in nested(graph):
        for value in inner.values():
            if value.const is not None and value not in constants:
                constants[value] = Value(value.name, value.type, value.const)
                constants[value].quant = value.quant
    result = copy_graph(graph, constants)
    result.output_names = list(graph.output_names)
    result.assumed_count = graph.assumed_count
    for value in constants.values():
        result.taken.setdefault(value.name, 0)
    return result
