"""Models whose inputs keep open dimensions: translated at three sizes, joined into one file."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from straightway.domains.sizes import POINTS
from straightway.errors import (
    InvalidModel,
    InvalidRequest,
    NotYet,
    StraightwayError,
    Unsupported,
)
from straightway.flow import remedy
from straightway.flow.accepted import takes
from straightway.flow.inputs import (
    Arrays,
    known_limit,
    make_inputs,
    pinned_inputs,
    read_arrays,
    within,
)
from straightway.flow.possible import Fits, elements, forced, like, prepared, related, sums
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
    is_batch,
    join,
    ladders,
    refuse_squeezed,
)
from straightway.flow.suggestion import candidates
from straightway.flow.translate import PLAIN, Form, Translation
from straightway.ingest.derived import size_of
from straightway.ingest.shapes import is_oversized, symbols_of
from straightway.ir import Graph
from straightway.remark import Remark

# Ladders of sizes that lead to different files: the first may be too small, but what only multiples
# of 32 agree on does not hold at any size.
MOST_DIFFERING = 1
# the step that says which sizes are no choice
SIZES = "flow.open.sizes"
Runs = Callable[[Arrays], bool]
# larger tensors take too long to try: each pixel of 224 by 224 attending to each is 10 GB
MOST_ELEMENTS = 2**24
# of the largest tensor, where smaller sizes show as much
MOST_COMPARED = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to translate: see `convert.Request`; without `compares`, no inputs are made."""

    form: Form = PLAIN
    inputs: Path | None = None
    seeds: Sequence[int] = (0, 1, 2)
    compares: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A translation that holds at every size, and inputs of several sizes to compare it on.

    The last set is the one to measure on; `symbols` are the dimensions that stay open; `pinned` says that
    some inputs are what the model itself tells; `declared` is the model where it turned out that others
    of its dimensions have one size only.
    """

    translation: Translation
    sets: list[Arrays]
    symbols: Symbols = field(default_factory=dict)
    pinned: bool = False
    declared: Graph | None = None

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
    lasting = any(isinstance(reason, Unsupported) for reason in reasons)
    named = related(declared, converts=lasting)
    if named is not None:
        graph, before, now = named
        return _again(path, graph, f"{before} is {now}", options)
    if not lasting:
        fixed = forced(declared, symbols)
        if fixed and len(fixed) < len(symbols):
            graph = at(declared, {s: symbols[s] for s in fixed}, fixed)
            return _again(path, graph, ", ".join(f"{s} is {n}" for s, n in fixed.items()), options)
    raise remedy.refused(path, declared, symbols, reasons[0]) from reasons[0]


def _again(path: Path, declared: Graph, what: str, options: Options) -> Opened:
    """Translate a model of which some dimensions are now what they alone can be."""
    made = translate_open(path, declared, options)
    told = Remark(kind="done", step=SIZES, text=f"{what}: the model takes no other size")
    return replace(
        made, declared=made.declared or declared, translation=made.translation.telling([told])
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A translation, the sizes that it was `made` at, and the `samples` to compare it on."""

    translation: Translation
    made: Sequence[Sizes]
    samples: Sequence[Sizes]


def _joined(declared: Graph, symbols: Symbols, form: Form) -> Joined:
    """The first sizes at which the model can be translated, and what holds at all of them."""
    reasons: list[tuple[Exception, Sizes]] = []
    differing = 0
    for samples in ladders(symbols):
        for sizes in (distant(symbols, samples), samples):
            if any(
                is_oversized(s) for one in sizes for s in filled(declared, symbols, one).values()
            ):
                continue
            try:
                found = join(declared, symbols, sizes, form)
            except NotYet as error:
                # the sizes are possible, but lead to different files, unless they were too small
                reasons.append((error, sizes[0]))
                differing += 1
                break
            except CONTRADICTIONS as error:
                reasons.append((error, sizes[0]))
            else:
                return Joined(translation=found, made=sizes[:POINTS], samples=samples)
        if differing > MOST_DIFFERING:
            break
    raise _reason(reasons)


def _reason(reasons: Sequence[tuple[Exception, Sizes]]) -> Exception:
    """What a possible size had against it, else the last."""
    lasting = [error for error, _ in reasons if isinstance(error, Unsupported)]
    if lasting:
        return lasting[0]
    if not reasons:
        return NotYet("so many open dimensions make tensors too large to try")
    error, sizes = reasons[-1]
    tried = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
    return InvalidModel(f"with sizes such as {tried}: {error}")


def _compared(declared: Graph, symbols: Symbols, tried: Joined, options: Options) -> Opened:
    """Say what stays open, and make inputs to compare on if any are wanted."""
    text = f"{', '.join(symbols)} stay open: shown as −1 in the shape signature"
    told = [Remark(kind="done", step=remedy.STEP, text=text)]
    for tied in _tied(declared, symbols):
        text = f"{tied} are one size: the model takes no others"
        told.append(Remark(kind="done", step=SIZES, text=text))
    wanted = options.compares or options.inputs is not None
    return Opened(
        translation=tried.translation.telling(told),
        sets=_sets(declared, symbols, tried, options) if wanted else [],
        symbols=symbols,
    )


def _sets(declared: Graph, symbols: Symbols, tried: Joined, options: Options) -> list[Arrays]:
    """Inputs of the samples' sizes and two others, the last of a batch of one.

    Of those that no translation had only such at which the model is what it is at the others.
    """
    fits = like(tried.translation)
    samples, source = _small(declared, symbols, tried, fits)
    every = []
    for one in (*samples, checked(symbols, samples)):
        shapes = filled(declared, symbols, one)
        graph = None if one in tried.made else prepared(declared, shapes)
        if one in tried.made or (graph is not None and fits(graph)):
            every.append(shapes)
    every = _bounded(every)
    pinned: Arrays = {}
    if options.inputs is None:
        pinned = pinned_inputs(at(declared, symbols, samples[0]))
        count = min(POINTS, len(every))
        seeds = [options.seeds[k % len(options.seeds)] for k in range(count)]
        base = [make_inputs(source, seed, pinned) for seed in seeds]
    else:
        own = given(options.inputs, declared)
        _check_sizes(options.inputs, own, symbols)
        every[-1] = {name: array.shape for name, array in own.items()}
        base = [own]
    sets = [resized(base[k % len(base)], shapes) for k, shapes in enumerate(every)]
    if options.inputs is not None or not _indexes(source):
        return sets
    graphs = [prepared(declared, shapes) for shapes in every]
    return [
        {**within(arrays, graph), **pinned} if graph is not None else arrays
        for arrays, graph in zip(sets, graphs, strict=True)
    ]


def _indexes(graph: Graph) -> bool:
    """Whether whole numbers go in that say places of something else, of an open size perhaps."""
    return any(v.dtype.kind in "iu" and known_limit(v) is not None for v in graph.inputs)


def _bounded(every: Sequence[Shapes]) -> list[Shapes]:
    """Shapes of inputs whose sets are not too large to be held together, the smallest at least."""
    sizes = [sum(math.prod(shape) for shape in shapes.values()) for shapes in every]
    kept = [shapes for shapes, size in zip(every, sizes, strict=True) if size <= MOST_ELEMENTS]
    return kept or [every[sizes.index(min(sizes))]]


def _small(
    declared: Graph, symbols: Symbols, tried: Joined, fits: Fits
) -> tuple[Sequence[Sizes], Graph]:
    """The samples, halved while their tensors are large and the model takes that; and it at the first.

    What must be a multiple of 2 was translated at multiples of 32.
    """
    samples, source = tried.samples, tried.translation.source
    while max(elements(source), default=0) > MOST_COMPARED:
        halved = [
            {s: n if is_batch(symbols[s]) else n // 2 for s, n in one.items()} for one in samples
        ]
        if halved == samples or any(
            n % 2 for one in samples for s, n in one.items() if not is_batch(symbols[s])
        ):
            break
        graph = prepared(declared, filled(declared, symbols, halved[0]))
        if graph is None or not fits(graph):
            break
        samples, source = halved, graph
    return samples, source


def _tied(declared: Graph, symbols: Symbols) -> list[str]:
    """What the model calls differently and is one size all the same."""
    names = {v.name: symbols_of(v) for v in declared.inputs}
    found = [list(dict.fromkeys(names[n][d] for n, d in uses)) for uses in symbols.values()]
    return [" and ".join(one) for one in found if len(one) > 1]


def with_usual_sizes(oracle: Oracle, declared: Graph, made: Opened) -> Opened:
    """One more set: of the sizes that people use, if the model runs at them."""
    made = _with_related_sizes(oracle, declared, made)
    fits = like(made.translation)
    found = usual(declared, made.sets[-1], runs_on(oracle, declared), fits)
    if found is None or all(found[name].shape == a.shape for name, a in made.sets[-1].items()):
        return made
    return replace(made, sets=[*made.sets, found])


def _with_related_sizes(oracle: Oracle, declared: Graph, made: Opened) -> Opened:
    """Sets in which one dimension is a sum of others, where the model runs on no others."""
    runs = runs_on(oracle, declared)
    if all(map(runs, made.sets)):
        return made
    for symbol, named in sums(made.symbols):
        sets = []
        for arrays in made.sets:
            sizes = sizes_in(arrays, made.symbols)
            shapes = filled(declared, made.symbols, {**sizes, symbol: size_of(named, sizes) or 0})
            graph = prepared(declared, shapes)
            if graph is not None:
                sets.append(within(resized(arrays, shapes), graph))
        if len(sets) == len(made.sets) and all(map(runs, sets)):
            text = f"compared where {symbol} is {named}: the model does not run at all sizes"
            told = Remark(kind="done", step=SIZES, text=text)
            return replace(made, sets=sets, translation=made.translation.telling([told]))
    return made


def usual(
    declared: Graph, arrays: Arrays, runs: Runs, fits: Fits = lambda _: True
) -> Arrays | None:
    """Inputs like these at the first usual sizes at which all runs."""
    for shapes in candidates(declared):
        if sum(math.prod(shape) for shape in shapes.values()) > MOST_ELEMENTS:
            continue
        graph = prepared(declared, shapes)
        if graph is not None and max(elements(graph), default=0) <= MOST_ELEMENTS and fits(graph):
            found = within(resized(arrays, shapes), graph)
            if runs(found):
                return found
    return None


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
