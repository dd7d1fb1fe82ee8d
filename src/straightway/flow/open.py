"""Models whose inputs keep open dimensions: translated at three sizes, joined into one file."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from straightway.domains.sizes import POINTS
from straightway.errors import Bug, InvalidRequest, NotYet
from straightway.flow import remedy
from straightway.flow.inputs import Arrays, make_inputs, pinned_inputs, read_arrays
from straightway.flow.samples import (
    CONTRADICTIONS,
    Shapes,
    Sizes,
    Symbols,
    at,
    checked,
    distant,
    filled,
    join,
    ladders,
)
from straightway.flow.translate import PLAIN, Form, Translation
from straightway.ingest.shapes import open_dims
from straightway.ir import Graph
from straightway.remark import Remark

# Ladders of sizes that lead to different files: the first may be too small, but what only multiples
# of 32 agree on does not hold at any size.
MOST_DIFFERING = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to translate: see `convert.Request`."""

    form: Form = PLAIN
    inputs: Path | None = None
    seeds: Sequence[int] = (0, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A translation that holds at every size, and inputs of several sizes to compare it on.

    The last set is the one to measure on; `sizes` are its sizes by symbol.
    """

    translation: Translation
    sets: list[Arrays]
    sizes: dict[str, int] = field(default_factory=dict)


def translate_open(path: Path, declared: Graph, options: Options) -> Opened:
    """Translate an ingested graph so that its open dimensions stay open.

    Raises Unsupported, with the line that fixes them, where that can't be done.
    """
    symbols = open_dims(declared)
    reason: Exception = Bug("no size was tried")
    differing = 0
    for samples in ladders(symbols):
        for sizes in (distant(symbols, samples), samples):
            try:
                made = join(declared, symbols, sizes, options.form)
            except NotYet as error:
                # the sizes are possible, but lead to different files, unless they were too small
                reason = error
                differing += 1
                break
            except CONTRADICTIONS as error:
                reason = error
            else:
                return _compared(declared, symbols, samples, made, options)
        if differing > MOST_DIFFERING:
            break
    raise remedy.refused(path, declared, symbols, reason) from reason


def _compared(
    declared: Graph,
    symbols: Symbols,
    samples: Sequence[Sizes],
    made: Translation,
    options: Options,
) -> Opened:
    """Choose inputs: of the samples' sizes and two others, the last of a batch of one."""
    sizes = checked(symbols, samples)
    every = [filled(declared, symbols, one) for one in (*samples, sizes)]
    if options.inputs is None:
        base = _seeded(declared, symbols, samples[0], made, options.seeds)
    else:
        given = _given(options.inputs, declared)
        sizes = _sizes_of(options.inputs, given, symbols)
        every[-1] = {name: array.shape for name, array in given.items()}
        base = [given]
    text = f"{', '.join(symbols)} stay open: shown as −1 in the shape signature"
    remark = Remark(kind="done", step=remedy.STEP, text=text)
    return Opened(
        translation=replace(made, remarks=(*made.remarks, remark)),
        sets=[_resized(base[k % len(base)], shapes) for k, shapes in enumerate(every)],
        sizes=sizes,
    )


def _seeded(
    declared: Graph, symbols: Symbols, sizes: Sizes, made: Translation, seeds: Sequence[int]
) -> list[Arrays]:
    """Inputs of the first sample's size, one set for each seed."""
    pinned = pinned_inputs(at(declared, symbols, sizes))
    return [make_inputs(made.source, seeds[k % len(seeds)], pinned) for k in range(POINTS)]


def _resized(arrays: Arrays, shapes: Shapes) -> Arrays:
    """Inputs of another size, of the same elements over and over."""
    return {
        name: array if array.shape == shapes[name] else np.resize(array, shapes[name])
        for name, array in arrays.items()
    }


def _given(path: Path, declared: Graph) -> Arrays:
    """The user's inputs, of any size where that is open."""
    found = read_arrays(path)
    for value in declared.inputs:
        array, kind = found.get(value.name), value.known_type
        if array is None:
            raise InvalidRequest(f"{path}: lacks '{value.name}'; it holds {sorted(found)}")
        fits = array.ndim == len(kind.shape) and all(
            isinstance(d, str) or d == size for d, size in zip(kind.shape, array.shape, strict=True)
        )
        if not fits or array.dtype != kind.dtype:
            raise InvalidRequest(
                f"{path}: '{value.name}' is {array.dtype}{list(array.shape)}; "
                f"the model takes {kind}"
            )
    return {value.name: found[value.name] for value in declared.inputs}


def _sizes_of(path: Path, arrays: Arrays, symbols: Symbols) -> dict[str, int]:
    """What size the user's inputs give to each symbol."""
    found = {}
    for symbol, uses in symbols.items():
        sizes = {arrays[name].shape[dim] for name, dim in uses}
        if len(sizes) > 1:
            raise InvalidRequest(f"{path}: '{symbol}' is one size; got {sorted(sizes)}")
        (found[symbol],) = sizes
    return found
