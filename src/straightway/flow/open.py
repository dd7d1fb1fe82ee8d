"""Models whose inputs keep open dimensions: translated at three sizes, joined into one file."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from straightway.domains.sizes import POINTS
from straightway.errors import Bug, InvalidRequest, NotYet, StraightwayError
from straightway.flow import counted, remedy
from straightway.flow.accepted import takes
from straightway.flow.inputs import Arrays, make_inputs, pinned_inputs, read_arrays
from straightway.flow.reference import Oracle
from straightway.flow.samples import (
    CONTRADICTIONS,
    Shapes,
    Sizes,
    Symbols,
    at,
    checked,
    distant,
    filled,
    groupings,
    join,
    ladders,
    refuse_squeezed,
)
from straightway.flow.suggestion import candidates
from straightway.flow.translate import PLAIN, UNFORESEEN, Form, Translation, prepare
from straightway.ingest.shapes import symbols_of
from straightway.ir import Graph
from straightway.lower.lowering import lower_graph
from straightway.remark import Remark

# Ladders of sizes that lead to different files: the first may be too small, but what only multiples
# of 32 agree on does not hold at any size.
MOST_DIFFERING = 1
Runs = Callable[[Arrays], bool]
# whether a file may be run with the sizes of a prepared model
Fits = Callable[[Graph], bool]
# larger tensors take too long to try: each pixel of 224 by 224 attending to each is 10 GB
MOST_ELEMENTS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to translate: see `convert.Request`."""

    form: Form = PLAIN
    inputs: Path | None = None
    seeds: Sequence[int] = (0, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A translation that holds at every size, and inputs of several sizes to compare it on.

    The last set is the one to measure on; `symbols` are the dimensions that stay open; `pinned` says that
    some inputs are what the model itself tells.
    """

    translation: Translation
    sets: list[Arrays]
    symbols: Symbols = field(default_factory=dict)
    pinned: bool = False

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the last set, by symbol."""
        return sizes_in(self.sets[-1], self.symbols)


def translate_open(path: Path, declared: Graph, options: Options) -> Opened:
    """Translate an ingested graph so that its open dimensions stay open.

    Raises Unsupported, with the line that fixes them, where that can't be done.
    """
    reasons: list[Exception] = []
    for symbols in groupings(declared):
        try:
            tried = _joined(declared, symbols, options.form)
            refuse_squeezed(declared, symbols, tried.samples)
        except CONTRADICTIONS as error:
            reasons.append(error)
        else:
            return _compared(declared, symbols, tried, options)
    raise remedy.refused(path, declared, symbols, reasons[0]) from reasons[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A translation, the sizes that it was `made` at, and the `samples` to compare it on."""

    translation: Translation
    made: Sequence[Sizes]
    samples: Sequence[Sizes]


def _joined(declared: Graph, symbols: Symbols, form: Form) -> Joined:
    """The first sizes at which the model can be translated, and what holds at all of them."""
    reason: Exception = Bug("no size was tried")
    differing = 0
    for samples in ladders(symbols):
        for sizes in (distant(symbols, samples), samples):
            try:
                found = join(declared, symbols, sizes, form)
            except NotYet as error:
                # the sizes are possible, but lead to different files, unless they were too small
                reason = error
                differing += 1
                break
            except CONTRADICTIONS as error:
                reason = error
            else:
                return Joined(translation=found, made=sizes[:POINTS], samples=samples)
        if differing > MOST_DIFFERING:
            break
    raise reason


def _compared(declared: Graph, symbols: Symbols, tried: Joined, options: Options) -> Opened:
    """Choose inputs: of the samples' sizes and two others, the last of a batch of one.

    Of those that no translation had only such at which the model is what it is at the others.
    """
    made, samples, fits = tried.translation, tried.samples, like(tried.translation)
    every = []
    for one in (*samples, checked(symbols, samples)):
        shapes = filled(declared, symbols, one)
        graph = None if one in tried.made else prepared(declared, shapes)
        if one in tried.made or (graph is not None and fits(graph)):
            every.append(shapes)
    if options.inputs is None:
        base = _seeded(declared, symbols, samples[0], made, options.seeds)
    else:
        own = given(options.inputs, declared)
        _check_sizes(options.inputs, own, symbols)
        every[-1] = {name: array.shape for name, array in own.items()}
        base = [own]
    texts = [
        f"{', '.join(symbols)} stay open: shown as −1 in the shape signature",
        *(f"{tied} are one size: the model takes no others" for tied in _tied(declared, symbols)),
    ]
    remarks = (Remark(kind="done", step=remedy.STEP, text=text) for text in texts)
    return Opened(
        translation=replace(made, remarks=(*made.remarks, *remarks)),
        sets=[resized(base[k % len(base)], shapes) for k, shapes in enumerate(every)],
        symbols=symbols,
    )


def _tied(declared: Graph, symbols: Symbols) -> list[str]:
    """What the model calls differently and is one size all the same."""
    names = {v.name: symbols_of(v) for v in declared.inputs}
    found = [list(dict.fromkeys(names[n][d] for n, d in uses)) for uses in symbols.values()]
    return [" and ".join(one) for one in found if len(one) > 1]


def with_usual_sizes(oracle: Oracle, declared: Graph, made: Opened) -> Opened:
    """One more set: of the sizes that people use, if the model runs at them."""
    fits = like(made.translation)
    found = usual(declared, made.sets[-1], runs_on(oracle, declared), fits)
    if found is None or all(found[name].shape == a.shape for name, a in made.sets[-1].items()):
        return made
    return replace(made, sets=[*made.sets, found])


def usual(
    declared: Graph, arrays: Arrays, runs: Runs, fits: Fits = lambda _: True
) -> Arrays | None:
    """Inputs like these at the first usual sizes at which all runs."""
    for shapes in candidates(declared):
        if sum(math.prod(shape) for shape in shapes.values()) > MOST_ELEMENTS:
            continue
        graph = prepared(declared, shapes)
        if graph is not None and max(_elements(graph), default=0) <= MOST_ELEMENTS and fits(graph):
            found = resized(arrays, shapes)
            if runs(found):
                return found
    return None


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
    empty = 0 in _elements(made.source)
    signatures = made.layout.graph.signatures
    results = [
        (signatures.get(value, (value.shape, value.shape))[1], made.layout.io_dims(logical))
        for value, logical in zip(
            made.layout.graph.outputs, made.lowered.graph.outputs, strict=True
        )
    ]

    def fits(graph: Graph) -> bool:
        if not empty and 0 in _elements(graph):
            return False
        return all(
            value.type is None or _agree([value.type.shape[k] for k in dims], stored)
            for value, (stored, dims) in zip(graph.outputs, results, strict=True)
        ) and _lowers(graph)

    return fits


def _lowers(graph: Graph) -> bool:
    """Whether no lowering finds a contradiction."""
    try:
        lower_graph(graph)
    except (*CONTRADICTIONS, *UNFORESEEN):
        return False
    return True


def _agree(shape: Sequence[int | str], stored: Sequence[int]) -> bool:
    pairs = zip(shape, stored, strict=True)
    return all(isinstance(size, str) or kept in (-1, size) for size, kept in pairs)


def _elements(graph: Graph) -> list[int]:
    """How many elements its tensors have, of which that is known."""
    types = [v.type for v in graph.values() if v.type is not None]
    return [kind.size for kind in types if kind.is_static]


def several(declared: Graph, seed: int, runs: Runs) -> list[Arrays]:
    """Inputs of several sizes at which all runs, without a translation; usual ones come last.

    Of usual sizes alone where no others were found; none where there are no such, either.
    """
    arrays: Arrays | None = None
    for symbols in groupings(declared):
        for samples in ladders(symbols):
            graph = at(declared, symbols, samples[0])
            arrays = make_inputs(graph, seed, pinned_inputs(graph))
            every = [
                filled(declared, symbols, one) for one in (*samples, checked(symbols, samples))
            ]
            sets = [resized(arrays, shapes) for shapes in every]
            if all(map(runs, sets)):
                last = usual(declared, arrays, runs)
                return [*sets, last] if last is not None else sets
    found = None if arrays is None else usual(declared, arrays, runs)
    return [] if found is None else [found]


def runs_on(oracle: Oracle, declared: Graph) -> Runs:
    """Whether the model runs on inputs, and gives what it declares."""

    def runs(arrays: Arrays) -> bool:
        try:
            return takes(oracle, declared, arrays)
        except StraightwayError:  # the engine ended
            return False

    return runs


def _seeded(
    declared: Graph, symbols: Symbols, sizes: Sizes, made: Translation, seeds: Sequence[int]
) -> list[Arrays]:
    """Inputs of the first sample's size, one set for each seed."""
    pinned = pinned_inputs(at(declared, symbols, sizes))
    return [make_inputs(made.source, seeds[k % len(seeds)], pinned) for k in range(POINTS)]


def sizes_in(arrays: Arrays, symbols: Symbols) -> dict[str, int]:
    """The sizes of open dimensions in these inputs."""
    return {symbol: arrays[uses[0][0]].shape[uses[0][1]] for symbol, uses in symbols.items()}


def resized(arrays: Arrays, shapes: Shapes) -> Arrays:
    """Inputs of another size, of the same elements over and over."""
    return {
        name: array if array.shape == shapes[name] else np.resize(array, shapes[name])
        for name, array in arrays.items()
    }


def given(path: Path, declared: Graph) -> Arrays:
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


def _check_sizes(path: Path, arrays: Arrays, symbols: Symbols) -> None:
    """Raise InvalidRequest where the user's inputs give two sizes to one symbol."""
    for symbol, uses in symbols.items():
        sizes = {arrays[name].shape[dim] for name, dim in uses}
        if len(sizes) > 1:
            raise InvalidRequest(f"{path}: '{symbol}' is one size; got {sorted(sizes)}")
