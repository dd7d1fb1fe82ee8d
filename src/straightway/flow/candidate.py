"""A TFLite file from anywhere: what its inputs take, and how its tensors match the model's."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from straightway.errors import InvalidModel, InvalidRequest, Mismatch
from straightway.flow.inputs import Arrays, read_arrays
from straightway.ingest.shapes import symbols_of
from straightway.ir import Graph, Quant, TensorType, Value, edit, tensor_type
from straightway.quant import narrowing
from straightway.quant.scheme import Scheme
from straightway.tflite.read import Description, TensorEntry, read

Shape = Sequence[int | str]


def describe(path: Path) -> Description:
    """Read what stands in the file; raises InvalidRequest where there is none."""
    try:
        return read(path)
    except FileNotFoundError as error:
        raise InvalidRequest(f"{path}: there is no such file") from error
    except (OSError, ValueError) as error:  # no access, too long a name, a zero byte in it
        reason = getattr(error, "strerror", None) or error
        raise InvalidRequest(f"{path}: cannot be read: {reason}") from error


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


def matched(
    path: Path, description: Description, names: Sequence[str]
) -> list[tuple[str, TensorEntry]]:
    """The file's inputs in the file's order, each with the model's input that it stands for.

    By name where all names are the same, else by position. Raises Mismatch for another number.
    """
    inputs = inputs_of(path, description)
    if len(inputs) != len(names):
        raise Mismatch(
            f"{path}: is another model's file: it takes {_listed(inputs)}, the model {_listed(names)}"
        )
    by_name = inputs.keys() == set(names)
    return list(zip(inputs if by_name else names, inputs.values(), strict=True))


def _listed(names: Iterable[str]) -> str:
    quoted = [f"'{name}'" for name in names]
    count = f"{len(quoted)} input{'s' if len(quoted) != 1 else ''}"
    return f"{count} ({', '.join(quoted)})" if quoted else count


def check(path: Path, description: Description, source: Graph) -> None:
    """Compare what goes in and how much comes out, before anything is run.

    Raises Mismatch with every input that does not fit, both types beside each other. Outputs are
    compared by their number: what they are shows when both run.
    """
    types = {value.name: value.known_type for value in source.inputs}
    faults = [
        f"input '{name}': the file takes {_type_of(tensor)}, the model {_shown(types[name])}"
        for name, tensor in matched(path, description, list(types))
        if not _takes(tensor, types[name])
    ]
    gives, wanted = len(description.main.outputs), len(source.output_names)
    if gives != wanted:
        faults.append(f"outputs: the file gives {gives}, the model {wanted}")
    if faults:
        raise Mismatch("\n  ".join([f"{path}: is another model's file:", *faults]))


def _takes(tensor: TensorEntry, kind: TensorType) -> bool:
    own = np.dtype(tensor.dtype)
    narrower = (kind.dtype, own) == (narrowing.WIDE, narrowing.NARROW)
    stored = narrower or (kind.dtype == np.float32 and _is_stored(tensor))
    stands_for = kind.dtype if stored else own
    return stands_for == kind.dtype and _order(kind.shape, tensor.signature) is not None


def _is_stored(tensor: TensorEntry) -> bool:
    """Whether integers stand for floats."""
    return tensor.quant is not None and np.dtype(tensor.dtype).kind in "iu"


def io_type_of(path: Path, description: Description) -> str:
    """What goes in where the model may have floats: see `quant.ends`."""
    tensors = inputs_of(path, description).values()
    kinds = {np.dtype(tensor.dtype) for tensor in tensors if _is_stored(tensor)}
    outside = [description.main.tensors[index] for index in description.main.outputs]
    kinds |= {np.dtype(tensor.dtype) for tensor in outside if _is_stored(tensor)}
    if np.dtype(np.uint8) in kinds:
        return "uint8"
    return "integer" if kinds else "float"


def real(tensor: TensorEntry, array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """An output as the model has it: the floats that integers stand for, or wider whole numbers."""
    if (dtype, array.dtype) == (narrowing.WIDE, narrowing.NARROW):
        return array.astype(dtype)
    if dtype != np.float32 or tensor.quant is None or array.dtype.kind not in "iu":
        return array
    return _scheme(tensor, tensor.quant).real(array)


def _scheme(tensor: TensorEntry, quant: Quant) -> Scheme:
    return Scheme(
        dtype=np.dtype(tensor.dtype),
        scale=float(np.ravel(quant.scale)[0]),
        zero_point=int(np.ravel(quant.zero_point)[0]),
    )


def _type_of(tensor: TensorEntry) -> str:
    return f"{tensor.dtype}[{', '.join('?' if s < 0 else str(s) for s in tensor.signature)}]"


def _shown(kind: TensorType) -> str:
    return f"{kind.dtype.name}[{', '.join(str(s) if s != '' else '?' for s in kind.shape)}]"


def _order(shape: Shape, declared: Sequence[int]) -> str | None:
    """How a tensor of the model is stored in the file: as it "is", or its channels "last"."""
    if _fits(shape, declared):
        return "is"
    return "last" if len(shape) > 2 and _fits((shape[0], *shape[2:], shape[1]), declared) else None


def _fits(shape: Shape, declared: Sequence[int]) -> bool:
    """Whether sizes are the same, as far as both are known."""
    return len(shape) == len(declared) and all(
        d < 0 or isinstance(s, str) or d == s for s, d in zip(shape, declared, strict=True)
    )


def sizes(path: Path, description: Description, declared: Graph) -> dict[str, int]:
    """The sizes that the file fixes of dimensions that the model leaves open, by symbol."""
    values = {value.name: value for value in declared.inputs}
    found: dict[str, int] = {}
    for name, tensor in matched(path, description, list(values)):
        value, given = values[name], tensor.signature
        if _order(value.known_type.shape, given) == "last":
            given = (given[0], given[-1], *given[1:-1])
        found.update({s: given[d] for d, s in symbols_of(value).items() if given[d] >= 0})
    return found


def feeds(path: Path, description: Description, arrays: Arrays) -> list[np.ndarray]:
    """The model's inputs as the file takes them: in its order, channels last where it has them so."""
    return [
        _as_taken(_as_stored(name, tensor, arrays[name]), tensor.signature)
        for name, tensor in matched(path, description, list(arrays))
    ]


def _as_stored(name: str, tensor: TensorEntry, array: np.ndarray) -> np.ndarray:
    if np.dtype(tensor.dtype) == narrowing.NARROW:
        return narrowing.stored(name, narrowing.NARROW, array)
    if array.dtype != np.float32 or tensor.quant is None or not _is_stored(tensor):
        return array
    return _scheme(tensor, tensor.quant).stored(array)


def as_model_has(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """An output of the file in the model's order, if it is the model's with the channels last."""
    if array.ndim > 2 and array.shape != tuple(shape):
        moved = np.moveaxis(array, -1, 1)
        if moved.shape == tuple(shape):
            return moved
    return array


def _as_taken(array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    return np.moveaxis(array, 1, -1) if _order(array.shape, shape) == "last" else array


def given(path: Path, source: Path) -> Arrays:
    """The user's arrays for a file; raises InvalidRequest for a name, type or shape of no input."""
    inputs = inputs_of(path, describe(path))
    arrays = read_arrays(source)
    for name, tensor in inputs.items():
        array = arrays.get(name)
        if array is None:
            raise InvalidRequest(f"{source}: lacks '{name}'; it holds {sorted(arrays)}")
        if array.dtype != np.dtype(tensor.dtype) or not _fits(array.shape, tensor.signature):
            raise InvalidRequest(
                f"{source}: '{name}' is {array.dtype}{list(array.shape)}; "
                f"the file takes {_type_of(tensor)}"
            )
    return {name: arrays[name] for name in inputs}


def declared(path: Path, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """The file's inputs alone, of these shapes; open dimensions have no name."""
    graph = Graph()
    for name, tensor in inputs_of(path, describe(path)).items():
        sizes = shapes.get(name, tensor.signature)
        kind = tensor_type(tensor.dtype, [size if size >= 0 else "" for size in sizes])
        edit.add_input(graph, Value(name, kind))
    return graph


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
        shape = tuple(shapes.get(name, [abs(d) for d in tensor.signature]))
        if not _fits(shape, tensor.signature):
            raise InvalidRequest(
                f"--shape {name}: {list(shape)} does not fit the file's {_type_of(tensor)}"
            )
        dtype = np.dtype(tensor.dtype)
        if dtype == np.bool_ or np.issubdtype(dtype, np.integer):
            found[name] = rng.integers(0, 2 if dtype == np.bool_ else 100, shape).astype(dtype)
        else:
            found[name] = rng.random(shape).astype(dtype)
    return found
