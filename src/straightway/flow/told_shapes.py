"""Inputs that say sizes: the numbers with which a model's results are as it declares them."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, islice, permutations

import numpy as np

from straightway.errors import InvalidModel
from straightway.flow import counted
from straightway.ir import Graph, TensorType, Value, edit
from straightway.passes import fold

# What computes one size from others.
ARITHMETIC = {
    "Add", "Sub", "Mul", "Div", "Max", "Min", "Cast", "Identity", "Gather", "Slice", "Concat", "Split",
    "Squeeze", "Unsqueeze", "Reshape", "If",
}  # fmt: skip
# What takes sizes, as an operand behind the first; or as the first.
SHAPED = {"Slice", "Pad", "Reshape", "Expand", "Tile"}
MADE = {"ConstantOfShape", "Range"}
MOST_TRIED = 24
MOST_SIZES = 5


def told(graph: Graph, value: Value) -> np.ndarray | None:
    """Sizes for an input that lead to the declared results, if it says sizes and some are found.

    Others may lead there, too: this is what a model is tried with, and nothing follows from it.
    """
    count = int(np.prod(value.shape))
    kinds = [output.type for output in graph.outputs]
    if value.dtype.kind not in "iu" or value.rank != 1 or not 0 < count <= MOST_SIZES:
        return None
    if any(kind is None or not kind.is_static for kind in kinds) or not _says_sizes(value):
        return None
    place = graph.inputs.index(value)
    wanted = [kind for kind in kinds if kind is not None]
    for sizes in islice(_candidates(wanted, count), MOST_TRIED):
        array = np.array(sizes, value.dtype)
        if _leads_to(graph, place, array, wanted):
            return array
    return None


def _says_sizes(value: Value) -> bool:
    waiting, seen = deque([value]), {value}
    while waiting:
        for node, position in waiting.popleft().uses:
            if (node.op.name in SHAPED and position > 0) or node.op.name in MADE:
                return True
            if node.op.name in ARITHMETIC:
                fresh = [v for v in node.outputs if v not in seen]
                seen.update(fresh)
                waiting.extend(fresh)
    return False


def _candidates(kinds: list[TensorType], count: int) -> Iterator[tuple[int, ...]]:
    """Sizes of one result, in its own order first."""
    yield from dict.fromkeys(
        chain.from_iterable(
            order(kind.dims, count) for order in (combinations, permutations) for kind in kinds
        )
    )


def _leads_to(graph: Graph, place: int, array: np.ndarray, wanted: list[TensorType]) -> bool:
    copy = counted.copied(graph)
    value = copy.inputs[place]
    edit.replace_uses(value, edit.constant(copy, array, value.name))
    for node in copy.nodes:
        for result in node.outputs:
            if result.type is not None:
                result.type = replace(result.type, shape=("",) * result.type.rank)
    try:
        fold.run(copy)
    except InvalidModel:
        return False
    return [output.type for output in copy.outputs] == wanted
