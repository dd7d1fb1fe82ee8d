"""A node of one op with operands, in the model's dimension order, and what it must compute."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from straightway.ir import Graph, Node, Op, Quant, TensorType, Value, edit
from straightway.tflite.rows import ROWS, Row
from straightway.tflite.rows.row import Attr

Arrays = tuple[np.ndarray | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One logical node.

    `inputs` are its operands (None: absent), those in `constant` are constants; `reference` computes
    its results from them. `written` and `operands` are option fields and constant operands that no
    attribute sets so; `variable` are positions among the *written* operands that are inputs of the
    graph although they are usually constants. `swept`: it makes sense in other element types too.
    """

    op: str
    inputs: Arrays
    attrs: Mapping[str, Any] = field(default_factory=dict)
    reference: Callable[..., Any] | None = None
    constant: tuple[int, ...] = ()
    written: Mapping[str, Any] = field(default_factory=dict)
    operands: Mapping[int, np.ndarray] = field(default_factory=dict)
    variable: tuple[int, ...] = ()
    quants: Mapping[int | str, Quant] = field(default_factory=dict)
    rtol: float = 1e-5
    swept: bool = True

    @property
    def row(self) -> Row:
        """The row of the op."""
        return ROWS[self.op]

    @property
    def dtype(self) -> np.dtype:
        """The type of the data operand."""
        return self.inputs[self.row.data].dtype

    def as_type(self, dtype: np.dtype) -> "Sample":
        """The same with every operand of the data operand's type in another type."""
        own, signed = self.dtype, dtype.kind not in "ub"
        arrays = tuple(
            (a if signed else np.abs(a)).astype(dtype) if a is not None and a.dtype == own else a
            for a in self.inputs
        )
        return replace(self, inputs=arrays)

    def expected(self) -> list[np.ndarray]:
        """What the reference computes."""
        found = self.reference(*self.inputs)
        return list(found) if isinstance(found, (list, tuple)) else [found]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A graph of one written node, and what to feed and to expect in stored order."""

    graph: Graph
    node: Node
    feeds: tuple[np.ndarray, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype, ...]


def write_down(sample: Sample) -> Written:
    """Write the node as TFLite stores it: windows channels last, everything else as it is."""
    logical = _logical(sample)
    results = [replace_symbols(t) for t in sample.row.infer(logical)]
    order = list(range(len(sample.inputs)))
    if sample.op in ("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE"):
        order[:2] = 1, 0
    entries = [(stored(sample, k, sample.inputs[k]), k in sample.constant, k) for k in order]
    fields, operands = _attributes(sample)
    for position, array in sorted({**operands, **sample.operands}.items()):
        entries.insert(position, (array, True, None))
    return _graph(sample, entries, results, {**fields, **sample.written})


def _logical(sample: Sample) -> Node:
    values = [
        None if a is None else Value(f"x{k}", TensorType(dtype=a.dtype, shape=a.shape), a)
        for k, a in enumerate(sample.inputs)
    ]
    attrs = {**sample.row.defaults, **sample.attrs}
    return Node(Op(dialect="tflite", name=sample.op), values, [], attrs)


def replace_symbols(kind: TensorType) -> TensorType:
    """A number for each symbol, since the interpreter resizes such results."""
    return replace(kind, shape=tuple(1 if isinstance(d, str) else d for d in kind.shape))


def stored(sample: Sample, position: int, array: np.ndarray | None) -> np.ndarray | None:
    """The stored form of a logical operand."""
    row = sample.row
    if array is None or row.layout != "window":
        return array
    if position == 1 and row.weights:
        spatial = range(2, array.ndim)
        order = [d for w in row.weights for d in (spatial if w == "spatial" else [w])]
        return np.ascontiguousarray(array.transpose(order))
    return channels_last(array) if position == 0 else array


def channels_last(array: np.ndarray) -> np.ndarray:
    """N, C, spatial to N, spatial, C."""
    return np.ascontiguousarray(np.moveaxis(array, 1, -1))


def _attributes(sample: Sample) -> tuple[dict[str, Any], dict[int, np.ndarray]]:
    fields: dict[str, Any] = {}
    operands: dict[int, np.ndarray] = {}
    values = {**sample.row.defaults, **sample.attrs}
    for name, attr in sample.row.attrs.items():
        if name not in values or attr.role == "logical":
            continue
        value = values[name]
        if attr.role == "dims" and sample.row.layout == "window":
            value = (value[0], *value[2:], value[1])
        if attr.operand is not None:
            operands[attr.operand] = np.array(value, np.int32)
        else:
            fields |= _fields(attr, value)
    return fields, operands


def _fields(attr: Attr, value: Any) -> dict[str, Any]:
    if attr.role == "enum":
        return {attr.fields[0]: getattr(getattr(schema, attr.enum), value)}
    if attr.role == "dims":
        return {attr.fields[0]: sum(1 << k for k, bit in enumerate(value) if bit)}
    if attr.role == "spatial":
        return dict(zip(attr.fields, value, strict=True))
    return {attr.fields[0]: value}


def _graph(
    sample: Sample,
    entries: list[tuple[np.ndarray | None, bool, int | None]],
    results: list[TensorType],
    fields: dict[str, Any],
) -> Written:
    graph = Graph(name="one")
    values: list[Value | None] = []
    feeds = []
    for k, (array, constant, position) in enumerate(entries):
        if array is None:
            values.append(None)
            continue
        fixed = constant and k not in sample.variable
        kind = TensorType(dtype=array.dtype, shape=array.shape)
        value = Value(f"x{k}", kind, array if fixed else None)
        value.quant = None if position is None else sample.quants.get(position)
        if not fixed and k not in sample.row.state:
            edit.add_input(graph, value)
            feeds.append(array)
        values.append(value)
    kinds = [_stored_type(sample, kind) for kind in results]
    outputs = [Value(f"y{k}", kind) for k, kind in enumerate(kinds)]
    for value in outputs:
        value.quant = sample.quants.get(value.name)
    node = Node(Op(dialect="tflite", name=sample.op), values, outputs, fields)
    edit.append(graph, node)
    edit.set_outputs(graph, outputs)
    return Written(
        graph=graph,
        node=node,
        feeds=tuple(feeds),
        shapes=tuple(k.dims for k in kinds),
        dtypes=tuple(k.dtype for k in kinds),
    )


def _stored_type(sample: Sample, kind: TensorType) -> TensorType:
    if sample.row.layout != "window":
        return kind
    n, c, *spatial = kind.shape
    return replace(kind, shape=(n, *spatial, c))
