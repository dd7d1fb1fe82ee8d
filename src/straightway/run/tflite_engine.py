"""Child side: TFLite models by LiteRT's interpreter."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from straightway.errors import InvalidModel, InvalidRequest, ToolFailed
from straightway.run.partition import Wires, placement
from straightway.run.wire import Array

_DELEGATE = "DELEGATE"
_KINDS = {
    number: name
    for name, number in vars(schema.BuiltinOperator).items()
    if isinstance(number, int) and not name.startswith("_")
}


def open_model(
    path: str, *, delegate: bool = True, keep_all: bool = False, threads: int = 1
) -> Interpreter:
    """Load a file; `keep_all` keeps the interior tensors readable (without a delegate only)."""
    resolver = (
        OpResolverType.BUILTIN if delegate else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    )
    try:
        return Interpreter(
            model_path=path,
            num_threads=threads,
            experimental_op_resolver_type=resolver,
            experimental_preserve_all_tensors=keep_all,
        )
    except ValueError as error:
        raise InvalidModel(f"LiteRT can't load {Path(path).name}: {error}") from error


def names_of(
    interpreter: Interpreter, side: str, details: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The names of the only signature where there is one, else the tensors' own."""
    signatures = interpreter._get_full_signature_list()  # noqa: SLF001 - the public one lacks tensor indices
    if len(signatures) != 1:
        return [one["name"] for one in details]
    signature = next(iter(signatures.values()))[side]
    named = {index: name for name, index in signature.items()}
    return [named.get(one["index"], one["name"]) for one in details]


def in_order(
    interpreter: Interpreter, names: Sequence[str] | None, arrays: Sequence[Array]
) -> list[Array]:
    """The arrays in the order of the model's inputs; `names` may be signature or tensor names."""
    details = interpreter.get_input_details()
    if len(arrays) != len(details):
        raise InvalidRequest(f"the model has {len(details)} inputs; got {len(arrays)} arrays")
    if names is None:
        return list(arrays)
    given = dict(zip(names, arrays, strict=True))
    known = names_of(interpreter, "inputs", details)
    try:
        return [
            given[name] if name in given else given[detail["name"]]
            for name, detail in zip(known, details, strict=True)
        ]
    except KeyError as error:
        raise InvalidRequest(
            f"the model's inputs are {', '.join(known)}; got {', '.join(names)}"
        ) from error


def feed(interpreter: Interpreter, names: Sequence[str] | None, arrays: Sequence[Array]) -> None:
    """Resize where the file leaves a dimension open, allocate, set the inputs."""
    ordered = in_order(interpreter, names, arrays)
    details = interpreter.get_input_details()
    for detail, array in zip(details, ordered, strict=True):
        if tuple(detail["shape"]) != array.shape:
            _resize(interpreter, detail, array)
    try:
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        raise ToolFailed(f"LiteRT can't prepare the model: {error}") from error
    for detail, array in zip(details, ordered, strict=True):
        try:
            interpreter.set_tensor(detail["index"], array)
        except ValueError as error:
            raise InvalidRequest(f"LiteRT refuses input {detail['name']}: {error}") from error


def _resize(interpreter: Interpreter, detail: Mapping[str, Any], array: Array) -> None:
    signature = tuple(int(size) for size in detail["shape_signature"])
    fits = len(signature) == array.ndim and all(
        size in (-1, given) for size, given in zip(signature, array.shape, strict=True)
    )
    if not fits:
        raise InvalidRequest(
            f"input {detail['name']} has shape {list(signature)}; got {list(array.shape)}"
        )
    interpreter.resize_tensor_input(detail["index"], array.shape, strict=False)


def invoke(interpreter: Interpreter) -> None:
    """Run the model once."""
    try:
        interpreter.invoke()
    except (RuntimeError, ValueError) as error:
        raise ToolFailed(f"LiteRT can't run the model: {error}") from error


class _Kept:
    """The last model: verification runs one file on several inputs."""

    key: tuple[str, bool, bool, float, int] | None = None
    interpreter: Interpreter | None = None


def forget() -> None:
    """Free the model that is kept for the next request."""
    _Kept.key = _Kept.interpreter = None


def _kept(path: str, *, delegate: bool, keep_all: bool) -> Interpreter:
    """The interpreter of the call before if it was for the same file, in its first state."""
    found = Path(path)
    stat = found.stat() if found.exists() else None
    key = (
        path,
        delegate,
        keep_all,
        stat.st_mtime if stat is not None else 0.0,
        stat.st_size if stat is not None else 0,
    )
    if _Kept.key != key or _Kept.interpreter is None:
        forget()  # before the new one is made
        _Kept.interpreter = open_model(path, delegate=delegate, keep_all=keep_all)
        _Kept.key = key
    else:
        _Kept.interpreter.reset_all_variables()
    return _Kept.interpreter


def run(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Run the model once: outputs, then the interior tensors asked for by index."""
    interior = params["interior"]
    interpreter = _kept(
        params["path"], delegate=params["delegate"] and not interior, keep_all=bool(interior)
    )
    feed(interpreter, params["inputs"], arrays)
    invoke(interpreter)
    details = interpreter.get_output_details()
    results = [output(interpreter, one) for one in details]
    results += [interpreter.get_tensor(index) for index in interior]
    names = names_of(interpreter, "outputs", details)
    return {"names": names, **describe(interpreter, params, arrays)}, results


def output(interpreter: Interpreter, details: Mapping[str, Any]) -> Array:
    """One output; the interpreter hands out no empty one (python/interpreter_wrapper/interpreter_wrapper.cc:871)."""
    if 0 in details["shape"]:
        return np.zeros(details["shape"], details["dtype"])
    return np.asarray(interpreter.get_tensor(details["index"]))


def prepare(params: Mapping[str, Any], arrays: Sequence[Array]) -> Callable[[], Any]:
    """A function that runs the model once, for timing; its inputs stay as they are."""
    interpreter = open_model(params["path"], threads=params.get("threads", 1))
    feed(interpreter, params["inputs"], arrays)
    invoke(interpreter)
    # The wrapper's own method spends a microsecond on checks that the model does not need.
    return interpreter._interpreter.Invoke  # type: ignore[no-any-return]  # noqa: SLF001 - see above


def describe(
    interpreter: Interpreter, params: Mapping[str, Any], arrays: Sequence[Array]
) -> dict[str, Any]:
    """The main subgraph's ops with their operands, and what the delegate took of them.

    For `Op`, `Tensor` and `Placement` of the parent, as plain data.
    """
    native = interpreter._interpreter  # noqa: SLF001 - nothing public tells ops
    nodes = [
        (
            str(native.NodeName(index)),
            Wires(
                inputs=tuple(int(one) for one in native.NodeInputs(index)),
                outputs=tuple(int(one) for one in native.NodeOutputs(index)),
            ),
        )
        for index in range(native.NumNodes())
    ]
    ops = [(kind, wires) for kind, wires in nodes if kind != _DELEGATE]
    partitions = [wires for kind, wires in nodes if kind == _DELEGATE]
    shaped = _with_true_shapes(interpreter, params, arrays)._interpreter  # noqa: SLF001 - see above
    return {
        "ops": [_op(shaped, index, kind, wires) for index, (kind, wires) in enumerate(ops)],
        "placement": asdict(placement([wires for _, wires in ops], partitions)),
    }


def _with_true_shapes(
    interpreter: Interpreter, params: Mapping[str, Any], arrays: Sequence[Array]
) -> Interpreter:
    """One whose tensors have the shapes of this run: a delegate keeps those of the file.

    It has run, since only then are the shapes there that depend on computed sizes.
    """
    details = interpreter.get_input_details()
    if all(-1 not in detail["shape_signature"] for detail in details):
        return interpreter
    plain = open_model(params["path"], delegate=False)
    feed(plain, params["inputs"], arrays)
    invoke(plain)
    return plain


def bodies(interpreter: Interpreter, path: str) -> list[list[str]]:
    """The op names of each subgraph of a file that has several (control flow), else nothing.

    The interpreter tells the ops of the main subgraph only; the file is mapped, not read.
    """
    if interpreter.num_subgraphs() == 1:
        return []
    with Path(path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
        model = schema.Model.GetRootAs(mapped)
        codes = [_kind(model.OperatorCodes(i)) for i in range(model.OperatorCodesLength())]
        graphs = [model.Subgraphs(i) for i in range(model.SubgraphsLength())]
        found = [
            [codes[graph.Operators(i).OpcodeIndex()] for i in range(graph.OperatorsLength())]
            for graph in graphs
        ]
        del model, graphs  # they hold on to the map
    return found


def _kind(code: Any) -> str:
    number = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    custom = number == schema.BuiltinOperator.CUSTOM
    return str(code.CustomCode().decode()) if custom else _KINDS[number]


def _op(native: Any, index: int, kind: str, wires: Wires) -> dict[str, Any]:
    return {
        "index": index,
        "kind": kind,
        "inputs": [_tensor(native, one) for one in wires.inputs],
        "outputs": [_tensor(native, one) for one in wires.outputs],
    }


def _tensor(native: Any, index: int) -> dict[str, Any]:
    if index < 0:
        return {}
    return {
        "name": native.TensorName(index, 0),
        "shape": [int(size) for size in native.TensorSize(index, 0)],
        "dtype": np.dtype(native.TensorType(index, 0)).name,
    }
