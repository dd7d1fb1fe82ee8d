"""ONNX models in: names, types, constants, subgraphs and where each node comes from."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir

from straightway.errors import InvalidModel, Unsupported
from straightway.ingest import shapes
from straightway.ingest.shapes import ShapeRequest
from straightway.ir import Graph, Node, Op, Source, TensorType, Value, edit
from straightway.onnx_io import read as onnx_read
from straightway.onnx_io.schema import NEWEST_OPSET, check_present, element_dtype
from straightway.onnx_io.weights import Mappings
from straightway.onnx_io.write import COMPUTES, FLOATS

STACK_TRACE = "pkg.torch.onnx.stack_trace"
NAME_SCOPES = "pkg.torch.onnx.name_scopes"
FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in .*(?:\n\s+(?P<code>.+))?')
LIBRARY = re.compile(r"[/\\]torch[/\\](nn|onnx|export|fx|utils|_\w+)[/\\]")


def ingest(path: Path, request: ShapeRequest | None = None) -> Graph:
    """Read an ONNX file into a graph whose inputs have the requested shapes.

    Raises InvalidModel for a damaged file, InvalidRequest for a file, symbol or input that there is
    not, Unsupported where symbolic dimensions remain (all named, with the line to type).
    """
    return _ingested(onnx_read.read(path), path, request or ShapeRequest())


def ingest_proto(proto: onnx.ModelProto, request: ShapeRequest | None = None) -> Graph:
    """As `ingest`, of a model that was made here."""
    return _ingested(onnx_ir.from_proto(proto), Path(proto.graph.name), request or ShapeRequest())


def _ingested(model: onnx_ir.Model, path: Path, request: ShapeRequest) -> Graph:
    reader = _Reader(path, dict(model.opset_imports))
    graph = reader.read_graph(model.graph)
    graph.notes = dict(model.metadata_props)
    _check_opsets(graph, path)
    shapes.fix(graph, reader.unranked(model.graph), request, path)
    return graph


def _check_opsets(graph: Graph, path: Path) -> None:
    version = graph.opsets.get("", graph.opsets.get("ai.onnx", 1))
    if version < 1:
        raise InvalidModel(f"{path}: the opset is a number from 1 on; got {version}")
    if version > NEWEST_OPSET:
        raise Unsupported(
            f"{path}: opset {version} is newer than the newest known, {NEWEST_OPSET}; "
            f"export with opset {NEWEST_OPSET} or older, or upgrade the package onnx"
        )


class _Reader:
    """Turns one onnx_ir graph, and the graphs inside it, into ours."""

    def __init__(self, path: Path, opsets: dict[str, int]) -> None:
        self.path = path
        self.opsets = opsets
        self.values: dict[int, Value] = {}
        self.files = Mappings()

    def read_graph(self, source: onnx_ir.Graph) -> Graph:
        """Read inputs, constants, nodes in topological order, outputs."""
        graph = Graph(name=source.name or "graph", opsets=self.opsets)
        constants = {id(v) for v in source.initializers.values()}
        for value in source.inputs:
            if id(value) not in constants:
                edit.add_input(graph, self.value(graph, value))
        self.read_constants(graph, source)
        for node in self.ordered(source):
            edit.append(graph, self.read_node(graph, node))
        edit.set_outputs(graph, [self.known(v, "the graph's outputs") for v in source.outputs])
        graph.output_names = [value.name for value in graph.outputs]
        return graph

    def value(self, graph: Graph, source: onnx_ir.Value) -> Value:
        """Make the value that stands for `source`."""
        name = source.name or ""
        if not name or name in graph.taken:
            name = graph.fresh(name or "value")
        graph.taken[name] = 0
        made = Value(name, _type(source))
        self.values[id(source)] = made
        return made

    def unranked(self, source: onnx_ir.Graph) -> dict[str, np.dtype]:
        """The element types of inputs that are tensors without a declared shape."""
        return {
            self.values[id(value)].name: element_dtype(int(value.type.dtype))
            for value in source.inputs
            if id(value) in self.values
            and isinstance(value.type, onnx_ir.TensorType)
            and value.type.dtype != onnx_ir.DataType.UNDEFINED
            and value.shape is None
        }

    def known(self, source: onnx_ir.Value, user: str) -> Value:
        """Return the value made for `source`, or say who uses a value that nobody makes."""
        found = self.values.get(id(source))
        if found is None:
            raise InvalidModel(f"{self.path}: {user} uses '{source.name}', which nothing makes")
        return found

    def read_constants(self, graph: Graph, source: onnx_ir.Graph) -> None:
        """Make a constant of each initializer."""
        for name, value in source.initializers.items():
            if value.const_value is None:
                raise InvalidModel(f"{self.path}: initializer '{name}' has no data")
            made = self.value(graph, value)
            made.const = self.array(value.const_value, name)
            made.type = TensorType(dtype=made.const.dtype, shape=tuple(made.const.shape))

    def array(self, tensor: onnx_ir.TensorProtocol, name: str) -> np.ndarray:
        """Read the elements of one tensor."""
        try:
            return onnx_read.array(tensor, self.files)
        except ValueError as error:
            raise InvalidModel(
                f"{self.path}: the data of tensor '{name}' do not fit its type "
                f"{tensor.dtype.name}{list(tensor.shape)}: {error}"
            ) from error

    def ordered(self, source: onnx_ir.Graph) -> list[onnx_ir.Node]:
        """Sort the nodes so that each follows what it reads; a cycle is an error."""
        nodes = list(source)
        waits: dict[int, int] = {}
        users: dict[int, list[onnx_ir.Node]] = {}
        for node in nodes:
            makers = {id(p): p for p in _producers(node) if p.graph is source}
            waits[id(node)] = len(makers)
            for maker in makers:
                users.setdefault(maker, []).append(node)
        if all_in_order(nodes):
            return nodes
        ready = [node for node in nodes if not waits[id(node)]]
        done: list[onnx_ir.Node] = []
        while ready:
            node = ready.pop()
            done.append(node)
            for user in users.get(id(node), []):
                waits[id(user)] -= 1
                if not waits[id(user)]:
                    ready.append(user)
        if len(done) < len(nodes):
            stuck = [f"'{n.name or n.op_type}'" for n in nodes if waits[id(n)]][:5]
            raise InvalidModel(f"{self.path}: nodes wait for each other: {', '.join(stuck)}")
        return done

    def read_node(self, graph: Graph, source: onnx_ir.Node) -> Node:
        """Read one node; its origins are its name and, where the exporter wrote it, its line."""
        name = source.name or (source.outputs[0].name if source.outputs else "") or source.op_type
        domain = source.domain if source.domain not in ("", "ai.onnx") else ""
        version = source.version or self.opsets.get(domain, 1)
        user = f"node '{name}' ({source.op_type})"
        inputs = [None if v is None or v.name == "" else self.known(v, user) for v in source.inputs]
        op = Op(dialect=domain or "onnx", name=source.op_type, version=version)
        try:
            check_present(op, [value is not None for value in inputs])
        except ValueError as error:
            raise InvalidModel(f"{self.path}: {user}: {error}") from error
        while inputs and inputs[-1] is None:
            inputs.pop()
        attrs = {key: self.attribute(attr, user) for key, attr in source.attributes.items()}
        return Node(
            op,
            inputs,
            [self.value(graph, v) for v in source.outputs],
            attrs,
            name=name,
            origins=frozenset({source_of(source, name)}),
        )

    def attribute(self, attr: onnx_ir.Attr, user: str) -> Any:
        """Read one attribute; a subgraph sees the values of the graph around it."""
        if isinstance(attr.value, onnx_ir.Graph):
            return self.read_graph(attr.value)
        try:
            value = onnx_read.attribute(attr, self.files)
        except ValueError as error:
            raise InvalidModel(f"{self.path}: {user}, attribute '{attr.name}': {error}") from error
        if isinstance(value, tuple) and value and isinstance(value[0], onnx_ir.Graph):
            return tuple(self.read_graph(inner) for inner in value)
        return value


def ingest_body(graph: Graph, node: Node, body: onnx_ir.Model) -> list[Value]:
    """Put the nodes of a function's body before `node`; return what stands for its results.

    The body's inputs are the operands of `node` that are present, in order.
    """
    reader = _Reader(Path(node.name), dict(body.opset_imports))
    for source, value in zip(body.graph.inputs, node.operands(), strict=True):
        reader.values[id(source)] = value
    reader.read_constants(graph, body.graph)
    for inner in reader.ordered(body.graph):
        made = reader.read_node(graph, inner)
        made.origins, made.name = node.origins, node.name
        edit.insert(graph, made, node)
    user = f"the body of {node.op}"
    return [reader.known(value, user) for value in body.graph.outputs]


def all_in_order(nodes: Sequence[onnx_ir.Node]) -> bool:
    """Whether each node already follows what it reads."""
    place = {id(node): index for index, node in enumerate(nodes)}
    return all(
        place.get(id(maker), -1) < index
        for index, node in enumerate(nodes)
        for maker in _producers(node)
    )


def _producers(node: onnx_ir.Node) -> list[onnx_ir.Node]:
    """The nodes that make what `node`, or a graph inside it, reads."""
    found = []
    for value in node.inputs:
        maker = value.producer() if value is not None else None
        if maker is not None:
            found.append(maker)
    for attr in node.attributes.values():
        graphs = attr.value if isinstance(attr.value, (list, tuple)) else [attr.value]
        for graph in graphs:
            if isinstance(graph, onnx_ir.Graph):
                found += [maker for inner in graph for maker in _producers(inner)]
    return found


def source_of(node: onnx_ir.Node, name: str) -> Source:
    """Read where a node comes from: the innermost frame of the model, not of torch's own layers."""
    frames = list(FRAME.finditer(node.metadata_props.get(STACK_TRACE, "")))
    frames = [frame for frame in frames if not LIBRARY.search(frame["file"])] or frames
    scopes = re.findall(r"'([^']*)'", node.metadata_props.get(NAME_SCOPES, ""))
    place: dict[str, Any] = {}
    if frames:
        last = frames[-1]
        code = (last["code"] or "").strip()
        place = {"file": last["file"], "line": int(last["line"]), "code": code}
    # the last scope is the operator itself, the one before it the module that owns it
    module = scopes[-2] if len(scopes) > 1 else ""
    in_floats = node.metadata_props.get(COMPUTES) == FLOATS
    return Source(node=name, op=node.op_type, module=module, in_floats=in_floats, **place)


def _type(value: onnx_ir.Value) -> TensorType | None:
    if not isinstance(value.type, onnx_ir.TensorType) or value.shape is None:
        return None
    if value.type.dtype == onnx_ir.DataType.UNDEFINED:
        return None
    shape = tuple(_dim(d) for d in value.shape)
    return TensorType(dtype=element_dtype(int(value.type.dtype)), shape=shape)


def _dim(dim: object) -> int | str:
    """A size, a symbol, or "" where it has no name: exporters write "?", "-1" and "None", too."""
    if isinstance(dim, int):
        return dim if dim >= 0 else ""
    name = str(getattr(dim, "value", None) or "")
    return name if name != "None" and any(c.isalpha() for c in name) else ""


__all__ = ["ShapeRequest", "ingest"]
