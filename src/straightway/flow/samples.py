"""Sizes to try for the open dimensions of a model, and the model at those sizes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from straightway.domains.sizes import POINTS
from straightway.errors import Bug, InvalidModel, Unsupported
from straightway.flow import counted
from straightway.flow.translate import Translation, joined
from straightway.ir import Graph
from straightway.passes import counts

# Sizes to try: odd and even ones where the model takes them, else multiples of what it halves. All
# are above 1, since a dimension of size 1 broadcasts and moves freely, which other sizes don't.
BATCHES = (2, 3, 5, 7, 4, 13, 6, 19)
LADDERS = (
    (7, 10, 12, 15, 16, 21, 22, 27),
    (65, 98, 132, 111, 130, 147, 84, 101),
    (32, 64, 96, 160, 128, 192),
    (224, 256, 320, 288, 352, 384),
    (1280, 1600, 2080, 1760, 2400, 2720),
)
# What sizes that contradict the model lead to: ONNX's own inference lets some of them pass.
CONTRADICTIONS = (InvalidModel, Unsupported, Bug, ValueError)

Symbols = Mapping[str, Sequence[tuple[str, int]]]
Sizes = Mapping[str, int]
Shapes = dict[str, tuple[int, ...]]


def is_batch(uses: Sequence[tuple[str, int]]) -> bool:
    """Whether a symbol stands for first dimensions only."""
    return all(dim == 0 for _, dim in uses)


def ladders(symbols: Symbols) -> Iterator[list[dict[str, int]]]:
    """Three sizes for each symbol to join, one to check; those of a first dimension are small."""
    for ladder in LADDERS:
        samples: list[dict[str, int]] = [{} for _ in range(POINTS + 1)]
        places = {id(BATCHES): 0, id(ladder): 0}
        for symbol, uses in symbols.items():
            steps = BATCHES if is_batch(uses) else ladder
            start = places[id(steps)]
            places[id(steps)] += 1
            for k, sample in enumerate(samples):
                sample[symbol] = steps[(start + k * (1 + start % 2)) % len(steps)]
        yield samples
        if all(map(is_batch, symbols.values())):
            return


def checked(symbols: Symbols, samples: Sequence[Sizes]) -> dict[str, int]:
    """Sizes that are in no sample: the last ones, at a batch of one."""
    return {s: 1 if is_batch(uses) else samples[POINTS][s] for s, uses in symbols.items()}


def filled(declared: Graph, symbols: Symbols, sizes: Sizes) -> Shapes:
    """The inputs' shapes with sizes put in."""
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
    declared: Graph, symbols: Symbols, samples: Sequence[Sizes], *, channels_last_io: bool
) -> Translation:
    """Translate an ingested graph at the first three samples, and keep what holds at every size."""
    graphs = [at(declared, symbols, sizes) for sizes in samples[:POINTS]]
    if counts.counts(declared):
        graphs = list(counted.samples(graphs))
    names = [value.name for value in declared.inputs]
    batch = [(names.index(n), d) for uses in symbols.values() if is_batch(uses) for n, d in uses]
    return joined(graphs, batch, channels_last_io=channels_last_io)
