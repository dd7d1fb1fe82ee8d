"""Seeded inputs that the model takes: whole numbers may say axes, sizes, lengths or places.

What an integer input means shows only in the model's answer: it runs, and its outputs have the shapes
that it declares. So numbers are tried until it does; first those that shapes in the graph suggest.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import combinations, islice

import numpy as np

from straightway.errors import StraightwayError
from straightway.flow.inputs import CARRIERS, Arrays
from straightway.flow.reference import Oracle
from straightway.ir import Graph, Node, Value

# what run.process says of an engine that did not live to answer
ENDED = "the child process ended"
SUGGESTED_TRIES = 60
FREE_TRIES = 200
MOST_NUMBERS = 64
SMALL = (1, 2, 3, 4, 5, 8)
Hints = dict[str, list[np.ndarray]]


def accepted(
    oracle: Oracle, graph: Graph, sets: Sequence[Arrays], *, likely: bool = False
) -> list[Arrays]:
    """The sets, each replaced by a similar one where the model refuses it; as it was if it always does.

    Where they are `likely` to be taken, they are tried before all others.
    """
    if likely and all(takes(oracle, graph, arrays) for arrays in sets):
        return list(sets)
    steering = [v for v in graph.inputs if _steers(v)]
    if not steering:
        return list(sets)
    hints = {value.name: suggestions(value) for value in steering}
    return [
        next((c for c in _candidates(arrays, hints, seed) if takes(oracle, graph, c)), arrays)
        for seed, arrays in enumerate(sets)
    ]


def _steers(value: Value) -> bool:
    """Whether an input may say more than data; single floats can be counts or ends of ranges."""
    return value.shape != (0,) and (not value.shape or np.issubdtype(value.dtype, np.integer))


def takes(oracle: Oracle, graph: Graph, arrays: Arrays) -> bool:
    """Whether the model runs on these, and its outputs are of the shapes that it declares."""
    try:
        found = oracle.run(arrays)
    except StraightwayError as error:
        if ENDED in str(error):  # it will end of other inputs too
            raise
        return False
    for value, name in zip(graph.outputs, graph.output_names, strict=True):
        kind, array = value.type, found.get(name)
        if kind is None or array is None:
            continue
        pairs = zip(kind.shape, array.shape, strict=False)
        if len(kind.shape) != array.ndim or any(isinstance(s, int) and s != d for s, d in pairs):
            return False
    return True


def _candidates(arrays: Arrays, hints: Hints, seed: int) -> Iterator[Arrays]:
    """Sets to try, in order; sizes that shapes suggest come before any larger ones.

    Floats are mostly data: they only change where nothing else helps.
    """
    rng = np.random.default_rng([seed, len(arrays)])
    whole = {name for name in hints if np.issubdtype(arrays[name].dtype, np.integer)}
    suggested = {name: hints[name] for name in hints if name in whole and hints[name]}
    for _ in range(SUGGESTED_TRIES if suggested else 0):
        chosen = {name: found[rng.integers(len(found))] for name, found in suggested.items()}
        yield {**arrays, **{n: a.astype(arrays[n].dtype) for n, a in chosen.items()}}
    yield arrays
    for _ in range(FREE_TRIES):
        yield {
            name: _another(array, hints[name], rng)
            if name in hints and rng.random() < 0.8
            else array
            for name, array in arrays.items()
        }


def _another(
    array: np.ndarray, hints: Sequence[np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """A suggestion, small numbers of the same kind, or some that all differ; no float is 0."""
    limit, least = int(rng.choice(SMALL)), int(array.dtype.kind not in "iu")
    if hints and rng.random() < 0.4:
        made = hints[int(rng.integers(len(hints)))]
    elif rng.random() < 0.3:
        made = rng.permutation(max(array.size, limit))[: array.size].reshape(array.shape) + least
    else:
        least = least or int(rng.random() < 0.3)
        made = rng.integers(least, max(limit, least + 1), array.shape)
    return np.asarray(made).astype(array.dtype)


def suggestions(value: Value) -> list[np.ndarray]:
    """Numbers that an input may be meant to hold, by the shapes of what is computed with it."""
    count = int(np.prod(value.shape))
    if len(value.shape) > 1 or not 0 < count <= MOST_NUMBERS:
        return []
    found: dict[tuple[int, ...], None] = {}
    for node, position in _readers(value):
        if position:
            found.update(dict.fromkeys(s for s in _shapes(node) if len(s) == count))
    return [np.asarray(numbers).reshape(value.shape) for numbers in found]


def _readers(value: Value) -> Iterator[tuple[Node, int]]:
    """Nodes that use it, perhaps through others that hand it on."""
    waiting, seen = deque([value]), {value}
    while waiting:
        for node, position in waiting.popleft().uses:
            yield node, position
            if node.op.name in CARRIERS and not position:
                fresh = [v for v in node.outputs if v not in seen]
                seen.update(fresh)
                waiting.extend(fresh)


def _shapes(node: Node) -> Iterator[tuple[int, ...]]:
    """Sizes of the result, how often it holds the operand, sizes of parts, axes that change."""
    made = [v.type.dims for v in node.outputs if v.type is not None and v.type.is_static]
    data = node.inputs[0].type if node.inputs and node.inputs[0] is not None else None
    if not made:
        return
    first = made[0]
    named = [axis for axis in _named_axes(node) if -len(first) <= axis < len(first)]
    if named:
        yield tuple(first[axis] for axis in named)
    yield from (first[:k] for k in range(1, len(first) + 1))
    yield from ((d,) for d in first)
    if len(first) > 2:
        yield (first[0], first[-1], *first[1:-1])  # channels first
    if data is None or not data.is_static:
        return
    dims = data.dims
    if len(dims) == len(first) and all(dims):
        if named:
            yield tuple(first[axis] // dims[axis] for axis in named)
        yield tuple(o // d for o, d in zip(first, dims, strict=True))
        yield tuple(k for k in range(len(dims)) if first[k] != dims[k])
        yield from (tuple(m[k] for m in made) for k in range(len(dims)) if len(made) > 1)
    yield from _axes(dims, first)


def _named_axes(node: Node) -> tuple[int, ...]:
    """The axes that the sizes are of, where the node names some."""
    axes = node.attrs.get("axes")
    return axes if isinstance(axes, tuple) else ()


def _axes(dims: tuple[int, ...], result: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Axes that are taken away or put in."""
    rank, apart = max(len(dims), len(result)), abs(len(dims) - len(result)) or 1
    yield from islice(combinations(range(rank), apart), MOST_NUMBERS)
