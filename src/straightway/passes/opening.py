"""Which dimensions stay open: those that differ between copies of a graph at several sizes.

%y: f32[2,8,30] = Relu(%x)    and    %y: f32[3,8,30] = Relu(%x)    →    dimension 0 of %y
"""

from collections.abc import Iterator, Sequence

from straightway.errors import NotYet
from straightway.ir import Graph, Value


def mark(graphs: Sequence[Graph]) -> None:
    """Note in each of the graphs, prepared alike, which dimensions of its values are open.

    Raises NotYet where they are not the same nodes.
    """
    for values in _aligned(graphs):
        if any(value.type is None or not value.type.is_static for value in values):
            continue
        sizes = zip(*(value.shape for value in values), strict=True)
        found = frozenset(dim for dim, size in enumerate(sizes) if len(set(size)) > 1)
        for graph, value in zip(graphs, values, strict=True):
            graph.open_dims[value] = found


def _aligned(graphs: Sequence[Graph]) -> Iterator[tuple[Value, ...]]:
    """Inputs and results of nodes, each with those that it corresponds to in the other graphs."""
    yield from zip(*(graph.inputs for graph in graphs), strict=True)
    lists = [list(graph.nodes) for graph in graphs]
    for nodes in zip(*lists, strict=False):
        if len({node.op for node in nodes}) > 1:
            ops = " or ".join(dict.fromkeys(str(node.op) for node in nodes))
            raise NotYet(f"the size decides what follows: {ops} '{nodes[0].name}'")
        yield from zip(*(node.outputs for node in nodes), strict=True)
    if len({len(nodes) for nodes in lists}) > 1:
        raise NotYet("the size decides how many nodes the model has")
