"""Sizes to try for the open dimensions of a model, and the model at those sizes."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from straightway.domains.sizes import POINTS, are_independent
from straightway.errors import Bug, InvalidModel, NotYet, Unsupported
from straightway.flow import counted
from straightway.flow.translate import PLAIN, Form, Translation, joined
from straightway.ingest.derived import with_derived
from straightway.ingest.shapes import open_dims
from straightway.ir import Graph, Node
from straightway.lower.results import result_types
from straightway.passes import counts, fold
from straightway.passes.arguments import is_onnx
from straightway.passes.types import nested

# Sizes to try, of batches and of other dimensions: first such as any model takes, then multiples of
# what it halves. All are above 1, since a dimension of size 1 broadcasts and moves freely, which
# other sizes don't.
BATCHES = range(2, 14)
LADDERS = (
    range(7, 48),
    range(65, 160),
    range(64, 257, 32),
    range(224, 513, 32),
    range(1280, 3000, 160),
)
# Choosing sizes of which none is a function of others takes some tries, of fixed outcome: among a few
# small ones first.
MOST_TRIES = 1000
FACTORS = (5, 7, 6)
FEW = 5

# What sizes that contradict the model lead to: ONNX's own inference lets some of them pass.
CONTRADICTIONS = (InvalidModel, Unsupported, Bug, ValueError)

Symbols = Mapping[str, Sequence[tuple[str, int]]]
Sizes = Mapping[str, int]
Shapes = dict[str, tuple[int, ...]]


def groupings(declared: Graph) -> list[Symbols]:
    """The open dimensions by symbol: unnamed ones apart, then, if any can be, tied."""
    apart = open_dims(declared)
    together = _tied(declared, apart)
    return [apart, together] if len(together) < len(apart) else [apart]


def _tied(declared: Graph, symbols: Symbols) -> Symbols:
    """Unnamed dimensions are one with those that stand at the same place of other inputs.

    Of the first dimensions, or of inputs with as many dimensions: tokens and the mask beside them.
    """
    named = {size for value in declared.inputs for size in value.known_type.shape}
    ranks = {value.name: value.known_type.rank for value in declared.inputs}
    found: dict[str, list[tuple[str, int]]] = {s: list(u) for s, u in symbols.items() if s in named}
    for symbol, uses in symbols.items():
        if symbol not in named:
            (one,) = uses
            others = (s for s, known in found.items() if any(_alike(ranks, one, u) for u in known))
            found.setdefault(next(others, symbol), []).append(one)
    return found


def _alike(ranks: Mapping[str, int], one: tuple[str, int], other: tuple[str, int]) -> bool:
    same = one[1] == other[1] and one[0] != other[0]
    return same and (one[1] == 0 or ranks[one[0]] == ranks[other[0]])


def is_batch(uses: Sequence[tuple[str, int]]) -> bool:
    """Whether a symbol stands for a first dimension."""
    return any(dim == 0 for _, dim in uses)


def ladders(symbols: Symbols) -> Iterator[list[dict[str, int]]]:
    """Three sizes for each symbol to join, one to check; those of a first dimension are small."""
    alone = all(map(is_batch, symbols.values()))  # then they may be anything: steps, rows
    for ladder in (BATCHES, *LADDERS) if alone else LADDERS:
        rng = random.Random(0)  # noqa: S311 - no secret
        rows: dict[str, tuple[int, ...]] = {}
        for symbol, uses in symbols.items():
            small = is_batch(uses) and not alone
            rows[symbol] = _row(rng, BATCHES if small else ladder, list(rows.values()))
        yield [{symbol: row[k] for symbol, row in rows.items()} for k in range(POINTS + 1)]


def distant(symbols: Symbols, samples: Sequence[Sizes]) -> list[dict[str, int]]:
    """The same samples, the third far from the others: batches are as they were.

    What small sizes leave at 1, such as the length of a sequence of strides, is no constant then. A
    multiple of a size is one that the model halves as often.
    """
    for factor in FACTORS:
        far = {s: n if is_batch(symbols[s]) else factor * n for s, n in samples[2].items()}
        made = [dict(one) for one in (samples[0], samples[1], far, *samples[POINTS:])]
        if are_independent([tuple(one[s] for one in made[:POINTS]) for s in symbols]):
            return made
    return [dict(one) for one in samples]


def _row(rng: random.Random, sizes: range, others: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Sizes of one symbol that do not follow from those of the others."""
    for tried in range(MOST_TRIES):
        row = tuple(rng.sample(sizes[: FEW + tried // 10], POINTS + 1))
        mixed = len({size % 2 for size in row[:POINTS]}) == 2 or sizes.step % 2 == 0
        if mixed and are_independent([other[:POINTS] for other in (*others, row)]):
            return row
    raise NotYet(f"{len(others) + 1} open dimensions are too many to tell apart; --dim fixes some")


def checked(symbols: Symbols, samples: Sequence[Sizes]) -> dict[str, int]:
    """Sizes that are in no sample: the last ones, at a batch of one where batches may be small."""
    last = samples[POINTS]
    alone = all(map(is_batch, symbols.values()))
    large = alone and min(last.values()) >= LADDERS[0].start
    return {s: 1 if is_batch(uses) and not large else last[s] for s, uses in symbols.items()}


def filled(declared: Graph, symbols: Symbols, sizes: Sizes) -> Shapes:
    """The inputs' shapes with sizes put in; what is named after others follows from those."""
    sizes = with_derived(symbols, sizes)
    found = {value.name: list(value.known_type.shape) for value in declared.inputs}
    for symbol, uses in symbols.items():
        for name, dim in uses:
            found[name][dim] = sizes[symbol]
    return {name: tuple(shape) for name, shape in found.items()}  # type: ignore[arg-type]


def at(declared: Graph, symbols: Symbols, sizes: Sizes) -> Graph:
    """A copy of an ingested graph at these sizes of some symbols."""
    graph = counted.copied(declared)
    found = filled(declared, symbols, sizes)
    for value in graph.inputs:
        value.type = replace(value.known_type, shape=found[value.name])
    return graph


def join(
    declared: Graph, symbols: Symbols, samples: Sequence[Sizes], form: Form = PLAIN
) -> Translation:
    """Translate an ingested graph at the first three samples, and keep what holds at every size."""
    graphs = [at(declared, symbols, sizes) for sizes in samples[:POINTS]]
    if counts.counts(declared):
        graphs = list(counted.samples(graphs))
    names = [value.name for value in declared.inputs]
    batch = [(names.index(n), d) for uses in symbols.values() if is_batch(uses) for n, d in uses]
    return joined(graphs, batch, form)


def refuse_squeezed(declared: Graph, symbols: Symbols, samples: Sequence[Sizes]) -> None:
    """Raise NotYet where a Squeeze that names no axes takes away an open dimension of size 1."""
    if not any(_squeezes_all(node) for graph in nested(declared) for node in graph.nodes):
        return
    batch = {s: 1 for s, uses in symbols.items() if is_batch(uses)}
    ranks = _ranks(declared, symbols, samples[0])
    if not ranks:  # they squeeze constants
        return
    for ones in (dict.fromkeys(symbols, 1), {**samples[0], **batch}):
        if _ranks(declared, symbols, ones) not in ([], ranks):
            named = ", ".join(symbol for symbol, size in ones.items() if size == 1)
            raise NotYet(
                f"a Squeeze that names no axes takes away {named}, too, where that is 1; name its axes"
            )


def _squeezes_all(node: Node) -> bool:
    return is_onnx(node, "Squeeze") and len(node.operands()) == 1 and "axes" not in node.attrs


def _ranks(declared: Graph, symbols: Symbols, sizes: Sizes) -> list[int]:
    """How many dimensions each result of a Squeeze has at these sizes; none where they contradict the model."""
    graph = at(declared, symbols, sizes)
    try:
        fold.run(graph, otherwise=result_types)
    except CONTRADICTIONS:
        return []
    squeezed = (node.outputs[0] for node in graph.nodes if _squeezes_all(node))
    return [value.rank for value in squeezed if value.type is not None]
