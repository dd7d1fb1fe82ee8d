"""Sizes to suggest where a model leaves dimensions open: such as its own graph takes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from straightway.ingest.derived import with_derived
from straightway.ingest.shapes import open_dims
from straightway.ir import Graph, TensorType

Shapes = dict[str, tuple[int, ...]]
# Tries one set of shapes: whether the model "converts", is "refused" for other reasons, or None
# where it contradicts itself at these sizes.
Trial = Callable[[Shapes], str | None]

# What people feed such inputs with, the most usual first: sides of images, of which lines of text are
# wider than high, lengths of texts, of other sequences and of sounds. All have as many steps.
SIDES = (224, 320, 48, 256, 640, 128, 64, 32, 48)
WIDTHS = (224, 320, 320, 256, 640, 128, 64, 32, 48)
TOKENS = (128, 64, 32, 16, 8, 4, 2, 256, 512)
LENGTHS = (128, 16000, 512, 576, 1024, 1760, 32, 16, 64)
BUDGET_S = 3.0
MOST_BESIDE = 6
# after the first sizes that are refused for other reasons: some may still convert
SECOND_CHANCES = 3


def accepted(declared: Graph, trial: Trial) -> Shapes:
    """Shapes of all inputs that the trial takes; the first tried where it takes none in time.

    Dimensions of an input that come first count as batches, of one element.
    """
    started, first, refused, chances = time.process_time(), None, None, SECOND_CHANCES
    for shapes in candidates(declared):
        first = first or shapes
        found = trial(shapes)
        if found == "converts":
            return shapes
        if found == "refused" and refused is None:
            refused = shapes
        chances -= refused is not None
        if chances < 0 or time.process_time() - started > BUDGET_S:
            break
    return refused or first or {}


def candidates(declared: Graph) -> Iterator[Shapes]:
    """Shapes to try, each once: usual sizes for all but batches, then 1 for all, then usual for all.

    Where not all of them can have a usual size, those of the first input may, or all but one, which
    has a size of a constant beside it.
    """
    symbols = open_dims(declared)
    types = {v.name: v.known_type for v in declared.inputs}
    extra = beside(declared)
    ladders = {
        symbol: [*_ladder(types[uses[0][0]], uses[0][1]), *extra]
        for symbol, uses in symbols.items()
    }
    long = {s: ladders[s] for s, uses in symbols.items() if all(dim > 0 for _, dim in uses)}
    main = next((symbols[symbol][0][0] for symbol in long), "")
    leading = {s: ladder for s, ladder in long.items() if symbols[s][0][0] == main}
    choices = [
        *(chosen for pair in zip(_steps(long), _steps(leading), strict=True) for chosen in pair),
        {},
        *({**usual, s: n} for usual in _steps(long)[:1] for n in extra for s in long),
        *_steps(ladders),
    ]
    seen: list[Shapes] = []
    for sizes in choices:
        shapes = filled(declared, symbols, sizes)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def _steps(ladders: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """The sizes of each step of ladders that are climbed together."""
    count = max(map(len, ladders.values()), default=0)
    return [{s: ladder[step] for s, ladder in ladders.items()} for step in range(count)]


def beside(declared: Graph) -> list[int]:
    """Sizes of the constants that inputs are computed with: a matrix product takes one of them."""
    sizes = (
        size
        for value in declared.inputs
        for node in value.users()
        for other in node.operands()
        if other.const is not None
        for size in other.shape
        if size > 1
    )
    return list(dict.fromkeys(sizes))[:MOST_BESIDE]


def _ladder(kind: TensorType, dim: int) -> tuple[int, ...]:
    if kind.dtype.kind in "iub" and kind.rank < 4:
        return TOKENS
    if kind.rank < 4:
        return LENGTHS
    sides = [d for d, size in enumerate(kind.shape) if d and isinstance(size, str)]
    return WIDTHS if len(sides) > 1 and dim == sides[-1] else SIDES


def filled(
    declared: Graph,
    symbols: Mapping[str, Sequence[tuple[str, int]]],
    sizes: Mapping[str, int],
) -> Shapes:
    """The inputs' shapes with sizes for symbols put in, 1 for those that have none."""
    sizes = with_derived(symbols, {s: sizes.get(s, 1) for s in symbols})
    found = {v.name: list(v.known_type.shape) for v in declared.inputs}
    for symbol, uses in symbols.items():
        for name, dim in uses:
            found[name][dim] = sizes[symbol]
    return {name: tuple(int(d) for d in shape) for name, shape in found.items()}
