"""The inputs' shapes: what the model leaves open, and what the user fixes."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from straightway.errors import InvalidRequest, Unsupported
from straightway.ingest.derived import with_derived
from straightway.ir import Graph, TensorType, Value
from straightway.remark import Remark

# Kernels count a tensor's elements in a 32-bit integer (tflite/kernels/internal/types.h: FlatSize).
MOST_ELEMENTS = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRequest:
    """What the user fixes: symbols by name (`--dim N=1`), whole inputs (`--shape X=1,3,320,320`).

    A dimension without a name goes by its input's and its number: `--dim X:2=320`. With `keep_open`, dimensions that stay open are no error.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    keep_open: bool = False

    def __post_init__(self) -> None:
        """Check what can be checked without the model."""
        for option, given in (("dims", self.dims), ("shapes", self.shapes)):
            if not isinstance(given, Mapping):
                raise InvalidRequest(f"{option} takes a mapping from names; got {given!r}")
        for name, size in self.dims.items():
            _check_size(f"--dim {name}", size)
        for name, shape in self.shapes.items():
            if isinstance(shape, str) or not isinstance(shape, Sequence):
                raise InvalidRequest(f"--shape {name}: a shape is a list of sizes; got {shape!r}")
            for size in shape:
                _check_size(f"--shape {name}", size)

    def empty(self) -> str:
        """The options that ask for sizes of 0, as they are typed."""
        dims = [f"--dim {name}=0" for name, size in self.dims.items() if size == 0]
        shapes = [
            f"--shape {name}={','.join(map(str, shape))}"
            for name, shape in self.shapes.items()
            if 0 in shape
        ]
        return " ".join([*dims, *shapes])


def _check_size(subject: str, size: object) -> None:
    whole = isinstance(size, (int, np.integer)) and not isinstance(size, bool)
    if not whole or size < 0:  # type: ignore[operator]
        raise InvalidRequest(f"{subject}: a size is a whole number, 0 or more; got {size!r}")


def open_dims(graph: Graph) -> dict[str, list[tuple[str, int]]]:
    """The open dimensions of the inputs, (input, dimension), by symbol; unnamed ones stand alone."""
    found: dict[str, list[tuple[str, int]]] = {}
    for value in graph.inputs:
        for dim, symbol in symbols_of(value).items():
            found.setdefault(symbol, []).append((value.name, dim))
    return found


def symbols_of(value: Value) -> dict[int, str]:
    """What an input's open dimensions are called, by dimension; unnamed ones as in "x:2"."""
    shape = value.type.shape if value.type is not None else ()
    return {d: s or f"{value.name}:{d}" for d, s in enumerate(shape) if isinstance(s, str)}


def is_oversized(shape: Sequence[int]) -> bool:
    """Whether kernels can't count the elements of a tensor, or one of its sizes."""
    return math.prod(shape) > MOST_ELEMENTS or max(shape, default=0) > MOST_ELEMENTS


def fix(graph: Graph, unranked: Mapping[str, np.dtype], request: ShapeRequest, path: Path) -> None:
    """Set the inputs' shapes as asked, and refuse if one stays open.

    `unranked` has the element types of those inputs that are tensors of unknown rank. Raises
    InvalidRequest for a name or a shape that the model does not have, Unsupported for what stays
    open (all named, with the line to type) and for inputs that no memory holds.
    """
    _check_names(graph, request)
    request = replace(
        request, dims={**with_derived(open_dims(graph), request.dims), **request.dims}
    )
    for value in graph.inputs:
        _fix_input(value, unranked.get(value.name), request)
    unknown = [v for v in graph.inputs if v.type is None]
    if unknown or not request.keep_open:
        refuse_open(graph, path, unranked)
    for value in graph.inputs:
        shape = value.known_type.shape
        if is_oversized([size for size in shape if isinstance(size, int)]):
            raise Unsupported(
                f"{path}: a tensor has at most {MOST_ELEMENTS:,} elements; input '{value.name}' "
                f"has shape {list(shape)}"
            )


def _check_names(graph: Graph, request: ShapeRequest) -> None:
    names = {value.name for value in graph.inputs}
    for name in request.shapes:
        if name not in names:
            raise InvalidRequest(f"--shape {name}: the model's inputs are {sorted(names)}")
    symbols = open_dims(graph)
    for name in sorted(set(request.dims) - set(symbols)):
        raise InvalidRequest(
            f"--dim {name}: the model's symbols are {sorted(symbols)}"
            if symbols
            else f"--dim {name}: the model's inputs have no open dimensions"
        )


def _fix_input(value: Value, element: np.dtype | None, request: ShapeRequest) -> None:
    wanted = request.shapes.get(value.name)
    shape = None if wanted is None else tuple(int(size) for size in wanted)
    if value.type is None:
        if shape is not None and element is not None:
            value.type = TensorType(dtype=element, shape=shape)
        return
    declared, symbols = value.type.shape, symbols_of(value)
    asked = {d: int(request.dims[s]) for d, s in symbols.items() if s in request.dims}
    if shape is None:
        sizes = tuple(asked.get(d, size) for d, size in enumerate(declared))
        value.type = TensorType(dtype=value.type.dtype, shape=sizes)
        return
    fits = len(shape) == len(declared) and all(
        isinstance(d, str) or d == s for s, d in zip(shape, declared, strict=True)
    )
    if not fits:
        raise InvalidRequest(
            f"--shape {value.name}: {list(shape)} does not fit the declared {shown(declared)}"
        )
    for dim, named in asked.items():
        if named != shape[dim]:
            symbol = symbols[dim]
            raise InvalidRequest(
                f"--dim {symbol}={named} and --shape {value.name}={','.join(map(str, shape))} "
                f"give '{symbol}' two sizes; the declared shape is {shown(declared)}"
            )
    value.type = TensorType(dtype=value.type.dtype, shape=shape)


def shown(shape: Sequence[int | str]) -> str:
    """Print a shape, an unnamed dimension as '?'."""
    return "[" + ", ".join(str(size) if size != "" else "?" for size in shape) + "]"


def refuse_open(
    graph: Graph,
    path: Path,
    unranked: Mapping[str, np.dtype] | None = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
) -> None:
    """Raise Unsupported where an input's shape is not known, all named, with what to type.

    `sizes` are shapes to suggest, by input; without one, open dimensions are suggested to be 1.
    """
    open_inputs = [v for v in graph.inputs if v.type is None or not v.type.is_static]
    if not open_inputs:
        return
    suggested = {v.name: _suggested(v, sizes or {}) for v in open_inputs if v.type is not None}
    remarks = [_open_remark(v, unranked or {}, suggested) for v in open_inputs]
    named = ", ".join(f"'{r.node}' {r.text}" for r in remarks)
    flags = " ".join(r.remedy for r in remarks if r.remedy.startswith("--"))
    text = f"{path}: the shape of every input must be known: {named}"
    if flags:
        text += f". Add (with your sizes): {flags}"
    by_name = _flags_by_name(open_inputs, suggested)
    raise Unsupported(text + (f"  or  {by_name}" if by_name else ""), remarks)


def _suggested(value: Value, sizes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    declared = value.known_type.shape
    return tuple(sizes.get(value.name) or [d if isinstance(d, int) else 1 for d in declared])


def _flags_by_name(values: Sequence[Value], suggested: Mapping[str, Sequence[int]]) -> str:
    """The shorter line, where every open dimension has a name."""
    if any(v.type is None or "" in v.type.shape for v in values):
        return ""
    found = {
        symbol: size
        for v in values
        for symbol, size in zip(v.known_type.shape, suggested[v.name], strict=True)
        if isinstance(symbol, str)
    }
    return " ".join(f"--dim {quote(f'{symbol}={found[symbol]}')}" for symbol in sorted(found))


def quote(text: str) -> str:
    """A word of a command line, as a shell takes it."""
    return "'" + text.replace("'", "'\\''") + "'"


def _open_remark(
    value: Value,
    unranked: Mapping[str, np.dtype],
    suggested: Mapping[str, Sequence[int]],
) -> Remark:
    if value.type is not None:
        example = ",".join(map(str, suggested[value.name]))
        text = f"has symbolic dimensions {shown(value.type.shape)}"
        remedy = f"--shape {quote(f'{value.name}={example}')}"
    elif value.name in unranked:
        text, remedy = "has no declared shape", f"--shape {quote(f'{value.name}=1,3,224,224')}"
    else:
        text, remedy = "is no tensor", "export the model with tensors as inputs"
    return Remark(kind="missed", step="ingest.shapes", node=value.name, text=text, remedy=remedy)
