"""Models whose inputs keep open dimensions: translated at three sizes, joined into one file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from straightway.domains.dynamic import unify
from straightway.domains.sizes import POINTS
from straightway.errors import Bug, InvalidModel, NotYet, Unsupported
from straightway.flow.inputs import Arrays, make_inputs
from straightway.flow.translate import Translation, read, rewritten, translate
from straightway.ingest.shapes import ShapeRequest, open_dims
from straightway.remark import Remark

STEP = "flow.open"
# Sizes to try: odd and even ones where the model takes them, else multiples of what it halves. All
# are above 1, since a dimension of size 1 broadcasts and moves freely, which other sizes don't.
BATCHES = (2, 3, 5, 7, 4, 13, 6, 19)
LADDERS = (
    (7, 10, 12, 15, 16, 21, 22, 27),
    (65, 98, 132, 111, 130, 147, 84, 101),
    (32, 64, 96, 160, 128, 192),
    (224, 256, 320, 288, 352, 384),
)

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A translation that holds at every size, and inputs of several sizes to compare it on."""

    translation: Translation
    sets: list[Arrays]
    symbols: Mapping[str, Sequence[tuple[str, int]]]


def translate_open(path: Path, fixed: ShapeRequest, *, channels_last_io: bool = False) -> Opened:
    """Translate a model so that its open dimensions stay open.

    Raises Unsupported, with the line that fixes them, where that can't be done.
    """
    declared = read(path, replace(fixed, keep_open=True))
    symbols = open_dims(declared)
    base = {v.name: v.known_type.shape for v in declared.inputs}
    reason: Exception | None = None
    for samples in sample_sizes(symbols):
        shapes = [filled(base, symbols, sizes) for sizes in samples]
        try:
            return _translated(path, shapes, symbols, channels_last_io=channels_last_io)
        except NotYet as error:  # the sizes are possible, but lead to different files
            reason = error
            break
        # a Bug or a ValueError: contradictions at these sizes that ONNX's own inference lets pass
        except (InvalidModel, Unsupported, Bug, ValueError) as error:
            reason = error
    try:
        read(path, fixed)
    except Unsupported as error:
        text = f"{error}\n  They can't stay open: {reason}"
        raise Unsupported(text, error.remarks) from reason
    raise Unsupported(f"{path}: the open dimensions can't stay open: {reason}")


def sample_sizes(
    symbols: Mapping[str, Sequence[tuple[str, int]]],
) -> Iterator[list[dict[str, int]]]:
    """Three sizes for each symbol to join, one to check; those of a first dimension are small."""
    for ladder in LADDERS:
        samples: list[dict[str, int]] = [{} for _ in range(POINTS + 1)]
        places = {id(BATCHES): 0, id(ladder): 0}
        for symbol, uses in symbols.items():
            steps = BATCHES if all(dim == 0 for _, dim in uses) else ladder
            start = places[id(steps)]
            places[id(steps)] += 1
            for k, sample in enumerate(samples):
                sample[symbol] = steps[(start + k * (1 + start % 2)) % len(steps)]
        yield samples


def filled(
    base: Mapping[str, tuple[int | str, ...]],
    symbols: Mapping[str, Sequence[tuple[str, int]]],
    sizes: Mapping[str, int],
) -> Shapes:
    """The inputs' shapes with sizes put in."""
    found = {name: list(shape) for name, shape in base.items()}
    for symbol, uses in symbols.items():
        for name, dim in uses:
            found[name][dim] = sizes[symbol]
    return {name: tuple(int(d) for d in shape) for name, shape in found.items()}


def single(arrays: Arrays, batch: Sequence[tuple[str, int]]) -> Arrays:
    """The same inputs at a batch of one, which no sample has."""
    found = dict(arrays)
    for name, dim in batch:
        found[name] = found[name].take([0], dim)
    return found


def _translated(
    path: Path,
    shapes: Sequence[Shapes],
    symbols: Mapping[str, Sequence[tuple[str, int]]],
    *,
    channels_last_io: bool,
) -> Opened:
    made = [
        translate(
            read(path, ShapeRequest(shapes=s)), channels_last_io=channels_last_io, any_size=True
        )
        for s in shapes[:POINTS]
    ]
    first = made[0]
    batch = [use for uses in symbols.values() if all(d == 0 for _, d in uses) for use in uses]
    names = [value.name for value in first.source.inputs]
    unify([t.layout.graph for t in made], [(names.index(name), dim) for name, dim in batch])
    text = f"{', '.join(symbols)} stay open: shown as −1 in the shape signature"
    first = replace(first, remarks=(*first.remarks, Remark(kind="done", step=STEP, text=text)))
    opened = rewritten(first)
    sets = [make_inputs(t.source, seed) for seed, t in enumerate(made)]
    sets.append({name: np.resize(a, shapes[POINTS][name]) for name, a in sets[0].items()})
    if batch:
        sets.append(single(sets[0], batch))
    return Opened(translation=opened, sets=sets, symbols=symbols)
