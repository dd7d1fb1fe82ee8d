"""Which dimensions stay open: those that differ between copies of a graph at several sizes.

%y: f32[2,8,30] = Relu(%x)    and    %y: f32[3,8,30] = Relu(%x)    →    dimension 0 of %y
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from straightway.errors import NotYet
from straightway.ir import Graph, Value
from straightway.passes import fold
from straightway.passes.arguments import is_onnx
from straightway.passes.types import Otherwise, unknown

# As many sizes as a shape has, and some to spare.
MOST_SIZES = 64


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


def note(graphs: Sequence[Graph], samples: Sequence[Graph], otherwise: Otherwise = unknown) -> None:
    """Note in graphs as they were ingested which constants differ, and which must not be folded.

    Those are data that depend on the sizes, as positions and masks do. Sizes themselves, vectors of
    whole numbers, are folded: what they shape is told by `mark`. `samples` are copies, used up.
    """
    if not any(is_onnx(node, "Shape", "Size", "Scan") for node in samples[0].nodes):
        return
    trails: list[list[fold.Trace]] = [[] for _ in samples]
    for sample, trail in zip(samples, trails, strict=True):
        fold.run(sample, trail, otherwise)
    if len({len(trail) for trail in trails}) > 1:
        return
    varying: dict[Value, fold.Trace] = {}
    data: dict[Value, fold.Trace] = {}
    for steps in zip(*trails, strict=True):
        arrays = [np.asarray(step.made.const) for step in steps]
        if not _alike(arrays):
            varying[steps[0].made] = steps[0]
            if not _are_sizes(arrays):
                data[steps[0].made] = steps[0]
    kept = _needed(data)
    names = {step.name for step in varying.values()} | _scans(samples)
    for graph in graphs:
        graph.varying = set(names)
        graph.kept = kept


def _scans(samples: Sequence[Graph]) -> set[str]:
    """The results of each Scan that goes over an open dimension."""
    found: set[str] = set()
    for nodes in zip(*(sample.nodes for sample in samples), strict=False):
        first = nodes[0]
        if not is_onnx(first, "Scan"):
            continue
        count = int(first.attrs.get("num_scan_inputs", 1))
        axes = first.attrs.get("scan_input_axes") or (0,) * count
        for operands in zip(*(node.inputs[-count:] for node in nodes), strict=True):
            axis = axes[list(first.inputs[-count:]).index(operands[0])]
            sizes = {v.type.shape[axis] for v in operands if v is not None and v.type is not None}
            if len(sizes) > 1:
                found.update(value.name for value in first.outputs)
    return found


def _needed(data: Mapping[Value, fold.Trace]) -> frozenset[str]:
    """Of data that depend on sizes, what is used by nodes that are left, and what that comes from."""
    waiting = [made for made in data if made.uses]
    found: dict[Value, str] = {}
    while waiting:
        step = data[waiting.pop()]
        found[step.made] = step.name
        waiting += [v for v in step.operands if v in data and v not in found]
    return frozenset(found.values())


def _alike(arrays: Sequence[np.ndarray]) -> bool:
    first, *others = arrays
    return all(np.array_equal(first, other) for other in others)


def _are_sizes(arrays: Sequence[np.ndarray]) -> bool:
    first = arrays[0]
    whole = first.dtype.kind != "f" or all((a == np.rint(a)).all() for a in arrays)
    small = first.ndim <= 1 and first.size <= MOST_SIZES
    return whole and small and all(a.shape == first.shape for a in arrays)
