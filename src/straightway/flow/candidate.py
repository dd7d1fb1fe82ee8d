"""A TFLite file from anywhere: what its inputs take, and how its tensors match the model's."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from straightway.errors import InvalidModel, InvalidRequest
from straightway.flow.inputs import Arrays
from straightway.tflite.read import Description, TensorEntry, read


def describe(path: Path) -> Description:
    """Read what stands in the file; raises InvalidRequest where there is none."""
    try:
        return read(path)
    except OSError as error:
        raise InvalidRequest(f"{path}: cannot be read: {error}") from error


def inputs_of(path: Path, description: Description) -> dict[str, TensorEntry]:
    """The file's inputs in order, under the names that callers use; raises InvalidModel for texts."""
    main = description.main
    own = {
        index: name
        for signature in description.signatures[:1]
        for name, index in signature.inputs.items()
        if signature.subgraph == 0
    }
    found = {own.get(i, main.tensors[i].name): main.tensors[i] for i in main.inputs}
    if len(found) < len(main.inputs):
        raise InvalidModel(f"{path}: two inputs have one name")
    for name, tensor in found.items():
        try:
            np.dtype(tensor.dtype)
        except TypeError as error:
            raise InvalidModel(f"{path}: input '{name}' takes {tensor.dtype}") from error
    return found


def feeds(path: Path, description: Description, arrays: Arrays) -> list[np.ndarray]:
    """The model's inputs as the file takes them: in its order, channels last where it has them so.

    By name where all names are the same, else by position.
    """
    inputs = inputs_of(path, description)
    if len(inputs) != len(arrays):
        raise InvalidRequest(f"{path}: takes {len(inputs)} inputs, the model {len(arrays)}")
    by_name = inputs.keys() == arrays.keys()
    ordered = [arrays[name] for name in inputs] if by_name else list(arrays.values())
    return [
        _as_taken(a, t.signature or t.shape) for a, t in zip(ordered, inputs.values(), strict=True)
    ]


def as_model_has(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """An output of the file in the model's order, if it is the model's with the channels last."""
    if array.ndim > 2 and array.shape != tuple(shape):
        moved = np.moveaxis(array, -1, 1)
        if moved.shape == tuple(shape):
            return moved
    return array


def _as_taken(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    if array.ndim > 2 and not _fits(array.shape, shape):
        moved = np.moveaxis(array, 1, -1)
        if _fits(moved.shape, shape):
            return moved
    return array


def _fits(shape: Sequence[int], declared: Sequence[int]) -> bool:
    return len(shape) == len(declared) and all(
        d in (-1, s) for s, d in zip(shape, declared, strict=True)
    )


def seeded(path: Path, shapes: Mapping[str, Sequence[int]], seed: int) -> Arrays:
    """Uniform floats in [0, 1), integers in [0, 100), truth values, for each input of the file.

    An open dimension is 1 unless `shapes` say otherwise.
    """
    inputs = inputs_of(path, describe(path))
    unknown = sorted(shapes.keys() - inputs.keys())
    if unknown:
        raise InvalidRequest(f"--shape {unknown[0]}: the file's inputs are {list(inputs)}")
    rng = np.random.default_rng(seed)
    found = {}
    for name, tensor in inputs.items():
        shape = tuple(shapes.get(name, [abs(d) for d in tensor.signature or tensor.shape]))
        dtype = np.dtype(tensor.dtype)
        if dtype == np.bool_ or np.issubdtype(dtype, np.integer):
            found[name] = rng.integers(0, 2 if dtype == np.bool_ else 100, shape).astype(dtype)
        else:
            found[name] = rng.random(shape).astype(dtype)
    return found
