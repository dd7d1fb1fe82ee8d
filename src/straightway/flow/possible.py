"""At which sizes of its open dimensions a model is possible, and the same as at others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

from straightway.flow import counted
from straightway.flow.samples import CONTRADICTIONS, Shapes, Symbols, filled
from straightway.flow.translate import UNFORESEEN, Translation, fitting, prepare
from straightway.ir import Graph
from straightway.lower.lowering import lower_graph

# whether a file may be run with the sizes of a prepared model
Fits = Callable[[Graph], bool]


def prepared(declared: Graph, shapes: Shapes) -> Graph | None:
    """The model at these sizes, simplified; None where it contradicts itself."""
    graph = counted.copied(declared)
    for value in graph.inputs:
        value.type = replace(value.known_type, shape=shapes[value.name])
    try:
        return prepare(graph).source
    except (*CONTRADICTIONS, *UNFORESEEN):
        return None


def like(made: Translation) -> Fits:
    """Whether a model has results of the sizes that do not change, and nothing empty that was not.

    Runtimes differ in what they make of slices that hold nothing, and ONNX's shape functions in what
    they make of windows that do not fit: that is for their lowerings to say.
    """
    empty = 0 in elements(made.source)
    signatures = made.layout.graph.signatures
    results = [
        (signatures.get(value, (value.shape, value.shape))[1], made.layout.io_dims(logical))
        for value, logical in zip(
            made.layout.graph.outputs, made.lowered.graph.outputs, strict=True
        )
    ]

    def fits(graph: Graph) -> bool:
        if not empty and 0 in elements(graph):
            return False
        return all(
            value.type is None or _agree([value.type.shape[k] for k in dims], stored)
            for value, (stored, dims) in zip(graph.outputs, results, strict=True)
        ) and lowers(graph)

    return fits


def lowers(graph: Graph) -> bool:
    """Whether no lowering finds a contradiction."""
    try:
        lower_graph(graph)
    except (*CONTRADICTIONS, *UNFORESEEN):
        return False
    return True


def _agree(shape: Sequence[int | str], stored: Sequence[int]) -> bool:
    pairs = zip(shape, stored, strict=True)
    return all(isinstance(size, str) or kept in (-1, size) for size, kept in pairs)


def elements(graph: Graph) -> list[int]:
    """How many elements its tensors have, of which that is known."""
    types = [v.type for v in graph.values() if v.type is not None]
    return [kind.size for kind in types if kind.is_static]


def forced(declared: Graph, symbols: Symbols) -> dict[str, int]:
    """The dimensions for which the model takes one size alone: channels of constant filters.

    Those that change together, or that need only be multiples, are none.
    """
    shapes = fitting(declared)
    if not _possible(declared, shapes):
        return {}
    sizes = {s: shapes[uses[0][0]][uses[0][1]] for s, uses in symbols.items()}

    def changes(*names: str) -> bool:
        others = ({s: change(sizes[s]) for s in names} for change in CHANGES)
        return any(_possible(declared, filled(declared, symbols, sizes | o)) for o in others)

    alone = frozenset(symbol for symbol in symbols if not changes(symbol))
    together = {alone, *(alone - {s} for s in alone), *map(frozenset, combinations(alone, 2))}
    free = [group for group in together if len(group) > 1 and changes(*group)]
    return {s: sizes[s] for s in symbols if s in alone.difference(*free)}


CHANGES: tuple[Callable[[int], int], ...] = (lambda n: n + 1, lambda n: 2 * n, lambda n: 3 * n)


def _possible(declared: Graph, shapes: Shapes) -> bool:
    graph = prepared(declared, shapes)
    return graph is not None and lowers(graph)
