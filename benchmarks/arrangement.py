"""Another converter's file takes and gives the same numbers in another order of dimensions."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
from straightway.tflite.read import Description, read

from straightway.flow.inputs import Arrays
from straightway.flow.tolerance import Check, compare
from straightway.flow.verify import Reference


class Unlike(Exception):
    """The file's inputs or outputs can't be matched with the model's; the message says which."""


def _plain(name: str) -> str:
    """A name as it is left when characters that TensorFlow forbids are replaced."""
    return "".join(c if c.isalnum() else "_" for c in name)


def channels_last(rank: int) -> tuple[int, ...]:
    """N, spatial, channels."""
    return (0, *range(2, rank), 1) if rank > 2 else tuple(range(rank))


def stored(file: Description, arrays: Arrays) -> Arrays:
    """The model's inputs as the file takes them, by the file's names. Raises Unlike."""
    by_name = {_plain(name): array for name, array in arrays.items()}
    found = {}
    for position, tensor in enumerate(file.inputs):
        array = by_name.get(_plain(tensor.name))
        if array is None:
            array = list(arrays.values())[position]
        orders = (tuple(range(array.ndim)), channels_last(array.ndim))
        fits = [o for o in orders if array.transpose(o).shape == tuple(tensor.shape)]
        if not fits:
            raise Unlike(f"input {tensor.name} is {list(tensor.shape)}, not {list(array.shape)}")
        found[tensor.name] = np.ascontiguousarray(array.transpose(fits[0])).astype(tensor.dtype)
    return found


def rearranged_alike(path: Path, other: Path, arrays: Arrays) -> bool:
    """Whether two files take and give tensors of the same shapes, and not the model's own."""
    a, b = read(path), read(other)
    if [tuple(t.shape) for t in b.inputs] == [array.shape for array in arrays.values()]:
        return False
    return _shapes(a) == _shapes(b)


def _shapes(file: Description) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in (*file.inputs, *file.outputs)]


def checks(
    expected: Reference, names: Sequence[str], outputs: Sequence[np.ndarray]
) -> Iterator[Check]:
    """Compare each output of the model with the file's, in the order that fits best.

    Names are tried first, then positions. Raises Unlike where nothing has a fitting shape.
    """
    given = {_plain(name): array for name, array in zip(names, outputs, strict=True)}
    for position, (name, want) in enumerate(expected.plain.items()):
        got = given.get(_plain(name))
        if got is None:
            got = outputs[position] if position < len(outputs) else np.zeros(0)
        yield _best(name, want, got, expected.optimised)


def _best(
    name: str, want: np.ndarray, got: np.ndarray, optimised: Mapping[str, np.ndarray]
) -> Check:
    orders = permutations(range(got.ndim))
    fitting = [view for o in orders if (view := got.transpose(o)).shape == want.shape]
    if not fitting:
        raise Unlike(f"output {name} is {list(got.shape)}, not {list(want.shape)}")
    tried = [compare(name, want, view.astype(want.dtype), optimised[name]) for view in fitting]
    return min(tried, key=lambda check: (not check.equal, check.max_error))
