"""At which sizes of its open dimensions a model is possible, and the same as at others."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from straightway.flow import counted
from straightway.flow.samples import (
    CONTRADICTIONS,
    Shapes,
    Symbols,
    checked,
    filled,
    is_batch,
    ladders,
)
from straightway.flow.translate import UNFORESEEN, Translation, fitting, prepare
from straightway.ingest.derived import size_of
from straightway.ingest.shapes import open_dims
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


def lowers(graph: Graph, *, converts: bool = False) -> bool:
    """Whether no lowering finds a contradiction; with `converts`, nor refuses anything."""
    try:
        found = lower_graph(graph)
    except (*CONTRADICTIONS, *UNFORESEEN):
        return False
    return not (converts and found.refusals)


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
    sizes = _sizes(symbols, shapes)

    def changes(*names: str) -> bool:
        others = ({s: change(sizes[s]) for s in names} for change in CHANGES)
        return any(_possible(declared, filled(declared, symbols, sizes | o)) for o in others)

    alone = frozenset(symbol for symbol in symbols if not changes(symbol))
    together = {alone, *(alone - {s} for s in alone), *map(frozenset, combinations(alone, 2))}
    free = [group for group in together if len(group) > 1 and changes(*group)]
    return {s: sizes[s] for s in symbols if s in alone.difference(*free)}


def related(declared: Graph, *, converts: bool) -> tuple[Graph, str, str] | None:
    """The model with one open dimension named after others, where it takes no other size.

    The mask of a decoder is as long as what came before and what comes together. With it, the name
    before and the name now; None where no such sum makes the model possible, or, asked so, one that
    `converts`, of those sums that hold at sizes at which it does.
    """
    symbols = open_dims(declared)
    trials = [{s: row[k] for k, s in enumerate(symbols)} for row in RELATED_SIZES]
    holds = _known(declared, symbols) if converts and len(symbols) <= MOST_RELATED else None
    started = time.process_time()
    for symbol, named in sums(symbols):
        if time.process_time() - started > BUDGET_S:
            break
        if holds is not None and size_of(named, holds) != holds[symbol]:
            continue
        found = [{**sizes, symbol: size_of(named, sizes) or 0} for sizes in trials]
        shapes = [filled(declared, symbols, sizes) for sizes in found]
        if all(_possible(declared, one, converts=converts) for one in shapes):
            return _renamed(declared, symbols[symbol], named), symbol, named
    return None


def _known(declared: Graph, symbols: Symbols) -> dict[str, int]:
    """Sizes at which the model converts, if any were found."""
    for samples in ladders(symbols):
        sizes = checked(symbols, samples)
        if _possible(declared, filled(declared, symbols, sizes), converts=True):
            return sizes
    return _sizes(symbols, fitting(declared))


def _sizes(symbols: Symbols, shapes: Shapes) -> dict[str, int]:
    return {s: shapes[uses[0][0]][uses[0][1]] for s, uses in symbols.items()}


def sums(symbols: Symbols) -> Iterator[tuple[str, str]]:
    """Each dimension with each sum of others that it may be, batches last; none where there are many."""
    if len(symbols) > MOST_RELATED:
        return
    known = dict.fromkeys(symbols, 1)
    free = [symbol for symbol in symbols if size_of(symbol, known) is None]
    inner = [symbol for symbol in free if not is_batch(symbols[symbol])]
    for chosen in (inner, free):
        for symbol in reversed(chosen):
            others = [name for name in chosen if name != symbol and name.isidentifier()]
            yield from ((symbol, f"{a} + {b}") for a, b in combinations(others, 2))
            yield from ((symbol, f"{name} + 1") for name in others)


def _renamed(declared: Graph, uses: Sequence[tuple[str, int]], named: str) -> Graph:
    graph = counted.copied(declared)
    for value in graph.inputs:
        shape = [
            named if (value.name, d) in uses else size
            for d, size in enumerate(value.known_type.shape)
        ]
        value.type = replace(value.known_type, shape=tuple(shape))
    return graph


# Open dimensions of which one may be the sum of others, and sizes at which no sum is another one.
MOST_RELATED = 5
BUDGET_S = 5.0
RELATED_SIZES = ((3, 7, 19, 47, 101), (5, 11, 23, 59, 131))
CHANGES: tuple[Callable[[int], int], ...] = (lambda n: n + 1, lambda n: 2 * n, lambda n: 3 * n)


def _possible(declared: Graph, shapes: Shapes, *, converts: bool = False) -> bool:
    graph = prepared(declared, shapes)
    return graph is not None and lowers(graph, converts=converts)
