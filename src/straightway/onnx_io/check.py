"""What an ONNX file must be before its graph is built: names, edges, tensors, external data."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

import onnx
import onnx_ir

from straightway.errors import InvalidModel, Unsupported

MOST_FAULTS = 5
# ten times what the largest models have
MOST_NODES = 1_000_000


def check(proto: onnx.ModelProto, path: Path) -> None:
    """Raise InvalidModel for names, edges or tensors that no ONNX graph can have.

    External data must lie in the model's folder, in full. Sparse initializers are Unsupported.
    """
    faults = _faults(proto)
    if faults:
        more = f" and {len(faults) - MOST_FAULTS} more" if len(faults) > MOST_FAULTS else ""
        raise InvalidModel(f"{path}: {'; '.join(faults[:MOST_FAULTS])}{more}")
    _check_functions(proto, path)
    for graph in graphs(proto.graph):
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            raise Unsupported(f"{path}: initializer '{name}' is sparse; store it dense")
    for tensor in tensors(proto.graph):
        _check_tensor(tensor, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """A graph's or a function's names, as far as edges go."""

    inputs: Sequence[str]
    initializers: Sequence[str]
    nodes: Sequence[onnx.NodeProto]
    outputs: Sequence[str]


def _faults(proto: onnx.ModelProto) -> list[str]:
    broken = next((text for text in _texts(proto) if isinstance(text, bytes)), None)
    if broken is not None:
        return [f"a name is no UTF-8 text: {broken[:80]!r}"]
    faults = [*_scope_faults(_scope(proto.graph), frozenset())]
    for function in proto.functions:
        body = _Scope(
            inputs=function.input, initializers=(), nodes=function.node, outputs=function.output
        )
        faults += [f"function '{function.name}': {f}" for f in _scope_faults(body, frozenset())]
    return faults


def _check_functions(proto: onnx.ModelProto, path: Path) -> None:
    """Refuse functions that call themselves, or that come to millions of nodes when inlined."""
    bodies = {(f.domain, f.name): _calls(f.node) for f in proto.functions}
    try:
        order = [
            *TopologicalSorter({name: body.keys() for name, body in bodies.items()}).static_order()
        ]
    except CycleError as error:
        ring = ", ".join(f"'{domain}::{name}'" for domain, name in error.args[1][:MOST_FAULTS])
        raise InvalidModel(f"{path}: functions call each other in a ring: {ring}") from error
    sizes: dict[tuple[str, str], int] = {}
    for name in order:
        sizes[name] = sum(sizes[n] * k for n, k in bodies[name].items()) if name in bodies else 1
    total = sum(sizes.get(name, 1) * count for name, count in _calls(proto.graph.node).items())
    if total > MOST_NODES:
        raise Unsupported(
            f"{path}: its functions come to {total:,} nodes when they are inlined; at most "
            f"{MOST_NODES:,} are converted"
        )


def _calls(nodes: Iterable[onnx.NodeProto]) -> "Counter[tuple[str, str]]":
    """How often each operator or function stands in nodes and in the graphs inside them."""
    found: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        found[node.domain, node.op_type] += 1
        for graph in _attribute_graphs(node):
            found += _calls(graph.node)
    return found


def _texts(proto: onnx.ModelProto) -> Iterator[str | bytes]:
    """Every name that is used later; protobuf gives bytes for one that is no UTF-8 text."""
    yield from (opset.domain for opset in proto.opset_import)
    found = [*graphs(proto.graph)]
    for graph in found:
        yield graph.name
        yield from (tensor.name for tensor in graph.initializer)
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield value.name
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    for function in proto.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
    for owner in (*found, *proto.functions):
        for node in owner.node:
            yield from _node_texts(node)


def _node_texts(node: onnx.NodeProto) -> Iterator[str | bytes]:
    yield from (node.op_type, node.domain, node.name, *node.input, *node.output)
    yield from (attribute.name for attribute in node.attribute)
    yield from (attribute.ref_attr_name for attribute in node.attribute)
    for entry in node.metadata_props:
        yield from (entry.key, entry.value)


def _scope(graph: onnx.GraphProto) -> _Scope:
    return _Scope(
        inputs=[value.name for value in graph.input],
        initializers=[
            *(tensor.name for tensor in graph.initializer),
            *(sparse.values.name for sparse in graph.sparse_initializer),
        ],
        nodes=graph.node,
        outputs=[value.name for value in graph.output],
    )


def _scope_faults(scope: _Scope, outer: frozenset[str]) -> Iterator[str]:
    """What is made twice, and what nothing makes, here and in the graphs inside."""
    for kind, names in (("input", scope.inputs), ("initializer", scope.initializers)):
        yield from (f"two {kind}s are called '{name}'" for name in _repeated(names))
        if "" in names:
            yield f"an {kind} has no name"
    given = {*scope.inputs, *scope.initializers}
    results = [name for node in scope.nodes for name in node.output if name]
    yield from (f"two nodes make '{name}'" for name in _repeated(results))
    yield from (f"a node makes '{n}', which the graph is given" for n in given & {*results})
    known = outer | given | {*results}
    for node in scope.nodes:
        lost = [name for name in node.input if name and name not in known]
        yield from (f"{_who(node)} uses '{name}', which nothing makes" for name in lost)
        for graph in _attribute_graphs(node):
            yield from _scope_faults(_scope(graph), known)
    for name in scope.outputs:
        if name not in known:
            yield f"nothing makes the output '{name}'"


def _repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    return [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]


def _who(node: onnx.NodeProto) -> str:
    name = node.name or (node.output[0] if node.output else "")
    return f"node '{name}' ({node.op_type})"


def _attribute_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and all inside it."""
    yield graph
    for node in graph.node:
        for inner in _attribute_graphs(node):
            yield from graphs(inner)


def tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that stands in a graph: initializers and attributes, those inside included."""
    for one in graphs(graph):
        yield from one.initializer
        for node in one.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def _check_tensor(tensor: onnx.TensorProto, path: Path) -> None:
    if any(dim < 0 for dim in tensor.dims):
        raise InvalidModel(f"{path}: tensor '{tensor.name}' has a negative dimension")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        _check_external(tensor, path)
        return
    held = _held_elements(tensor)
    if math.prod(tensor.dims) > held:
        raise InvalidModel(
            f"{path}: the data of tensor '{tensor.name}' do not fit its shape "
            f"{list(tensor.dims)}: at most {held:,} elements are there"
        )


def _held_elements(tensor: onnx.TensorProto) -> int:
    """How many elements the tensor's data can hold at most, one bit each."""
    lists = (
        tensor.float_data,
        tensor.int32_data,
        tensor.int64_data,
        tensor.double_data,
        tensor.uint64_data,
        tensor.string_data,
    )
    return 8 * max(len(tensor.raw_data), *map(len, lists))


def external_files(proto: onnx.ModelProto, path: Path) -> set[Path]:
    """The files that hold the model's external data."""
    found = set()
    for tensor in tensors(proto.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            found.add(path.parent / _entries(tensor).get("location", ""))
    return found


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _check_external(tensor: onnx.TensorProto, path: Path) -> None:
    entries = _entries(tensor)
    where = f"{path}: external data of tensor '{tensor.name}'"
    target = _external_file(entries.get("location", ""), path, where)
    offset = _count(entries.get("offset", "0"), where)
    needed = stored_bytes(tensor, where)
    length = _count(entries.get("length", str(needed)), where)
    if length != needed:
        raise InvalidModel(
            f"{where} has {length:,} bytes; its type and shape {list(tensor.dims)} need {needed:,}"
        )
    size = target.stat().st_size
    if offset + length > size:
        raise InvalidModel(
            f"{where} needs bytes {offset:,} to {offset + length:,} of '{target.name}'; it has "
            f"{size:,}"
        )


def _external_file(location: str, path: Path, where: str) -> Path:
    """The file at `location`, which must be in the model's folder, links followed."""
    parts = PurePosixPath(location.replace("\\", "/")).parts
    leaves = not parts or parts[0].startswith("/") or ".." in parts or ":" in parts[0]
    if leaves or "\0" in location:
        raise InvalidModel(f"{where} must lie beside the model; its location is '{location}'")
    folder = path.parent.resolve()
    try:
        target = (folder / location).resolve()
        is_file = target.is_file()
    except (OSError, RuntimeError) as error:  # a name that is too long, a ring of links
        raise InvalidModel(f"{where} cannot be read, '{location}': {error}") from error
    if not target.is_relative_to(folder):
        raise InvalidModel(f"{where} leaves the model's folder: '{location}'")
    if not is_file:
        raise InvalidModel(f"{where} is missing: '{location}'")
    if target.stat().st_nlink > 1 and target != path.resolve():
        raise InvalidModel(
            f"{where} has a second name (a hard link), and may so be a file from anywhere: "
            f"'{location}'; copy it"
        )
    return target


def _count(text: str, where: str) -> int:
    """An offset or a length: decimal digits, as the format has them."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise InvalidModel(
            f"{where} has the offset or length '{text}', which is no number of bytes"
        )
    return int(text)


def stored_bytes(tensor: onnx.TensorProto, where: str) -> int:
    """How many bytes a tensor's type and shape need; raises InvalidModel for texts, named by `where`."""
    try:
        bits = int(onnx_ir.DataType(tensor.data_type).bitwidth)
    except (ValueError, TypeError) as error:
        raise InvalidModel(
            f"{where} has element type {tensor.data_type}, which has no fixed size"
        ) from error
    return (int(math.prod(tensor.dims)) * bits + 7) // 8
