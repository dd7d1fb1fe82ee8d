"""The graph: values, nodes, and the edges between them.

Values and nodes compare by identity. Everything that changes a graph after it is built stands in
`ir.edit`, so that uses, producers and origins always agree.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from straightway.ir.source import Origins
from straightway.ir.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An operator: its dialect ("onnx", an ONNX custom domain, or "tflite"), name and version."""

    dialect: str
    name: str
    version: int = 0

    def __str__(self) -> str:
        domain = "" if self.dialect == "onnx" else f"{self.dialect}."
        return f"{domain}{self.name}" + (f"@{self.version}" if self.version else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quant:
    """Affine quantization of a tensor: real = scale · (stored - zero_point), along `axis`.

    On a constant of floats: how the model stored it; `dynamic`: what it is multiplied with is rounded
    as the model runs. With a `block`, so many elements in a row share a scale: [rows, blocks].
    """

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int | None = None
    dynamic: bool = False
    block: int = 0


class Value:
    """A tensor of the graph: name, type, and the constant that it holds, if any."""

    __slots__ = ("const", "name", "producer", "quant", "type", "uses")

    def __init__(
        self,
        name: str,
        type: TensorType | None,  # noqa: A002 - the field's own name
        const: np.ndarray | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.const = const
        self.quant: Quant | None = None
        self.producer: Node | None = None
        self.uses: dict[tuple[Node, int], None] = {}

    @property
    def known_type(self) -> TensorType:
        """The type; raises ValueError where shape inference found none."""
        if self.type is None:
            raise ValueError(f"value '{self.name}' has no type")
        return self.type

    @property
    def shape(self) -> tuple[int, ...]:
        """The static shape."""
        return self.known_type.dims

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self.known_type.rank

    @property
    def dtype(self) -> np.dtype:
        """The element type."""
        return self.known_type.dtype

    def users(self) -> "list[Node]":
        """The nodes that read this value, each once, in the order in which they came to use it."""
        return list(dict.fromkeys(node for node, _ in self.uses))

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type if self.type is not None else '?'}"


class Node:
    """An operation: operands (None where an optional one is absent), results and attributes."""

    __slots__ = ("attrs", "graph", "inputs", "name", "next", "op", "origins", "outputs", "previous")

    def __init__(
        self,
        op: Op,
        inputs: "Iterable[Value | None]",
        outputs: Iterable[Value],
        attrs: dict[str, Any] | None = None,
        *,
        name: str = "",
        origins: Origins = frozenset(),
    ) -> None:
        self.op = op
        self.inputs: list[Value | None] = list(inputs)
        self.outputs: list[Value] = list(outputs)
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.name = name
        self.origins = origins
        self.graph: Graph | None = None
        self.previous: Node | None = None
        self.next: Node | None = None

    def operands(self) -> list[Value]:
        """The operands that are present, in order."""
        return [value for value in self.inputs if value is not None]

    def graphs(self) -> "list[Graph]":
        """The graphs inside: branches and bodies."""
        found = []
        for value in self.attrs.values():
            inner = value if isinstance(value, tuple) else (value,)
            found += [graph for graph in inner if isinstance(graph, Graph)]
        return found

    @property
    def output(self) -> Value:
        """The only result."""
        (value,) = self.outputs
        return value

    def __repr__(self) -> str:
        return f"<{self.op} {self.name!r}>"


@dataclass(eq=False, slots=True)
class Graph:
    """Inputs, a doubly linked list of nodes in topological order, and outputs.

    The outputs are the operands of `exit`, a node that no list holds: so replacing a value's uses
    reaches the graph's outputs too. `output_names` are what the user's model calls them.
    `signatures` has, for written tensors with open dimensions, the shape to show and −1 where open.
    `assumed_count`, where it is not 0, stands for how many elements a node will find when it runs;
    `assumed` names the results that it is given to. `resizable`: it must hold at other sizes, too;
    `open_dims` has the dimensions of values that are
    of another size in other runs, where the graph must hold for those too; `varying` names results that
    are other numbers then, though their operands are constant, and `kept` those of them that are no
    constants therefore. `notes` are what the model's file says about itself.
    """

    name: str = ""
    inputs: list[Value] = field(default_factory=list)
    exit: Node = field(default_factory=lambda: Node(Op(dialect="ir", name="exit"), [], []))
    output_names: list[str] = field(default_factory=list)
    signatures: dict[Value, tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=dict)
    assumed_count: int = 0
    assumed: dict[str, None] = field(default_factory=dict)
    resizable: bool = False
    open_dims: dict[Value, frozenset[int]] = field(default_factory=dict)
    varying: set[str] = field(default_factory=set)
    kept: frozenset[str] = frozenset()
    opsets: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    first: Node | None = None
    last: Node | None = None
    taken: dict[str, int] = field(default_factory=dict)

    @property
    def outputs(self) -> list[Value]:
        """The values that the graph returns."""
        return self.exit.operands()

    @property
    def nodes(self) -> Iterator[Node]:
        """The nodes in order; removing the current one, or adding after it, is allowed."""
        node = self.first
        while node is not None:
            following = node.next
            yield node
            node = following if node.graph is None else node.next

    def values(self) -> Iterator[Value]:
        """Every value of the graph once: inputs, constants when first used, results."""
        seen: set[Value] = set()
        for value in self.inputs:
            seen.add(value)
            yield value
        for node in self.nodes:
            for value in (*node.operands(), *node.outputs):
                if value not in seen:
                    seen.add(value)
                    yield value
        for value in self.outputs:
            if value not in seen:
                seen.add(value)
                yield value

    def is_output(self, value: Value) -> bool:
        """Whether the graph returns this value."""
        if len(value.uses) <= len(self.exit.inputs):
            return any(node is self.exit for node, _ in value.uses)
        return any(found is value for found in self.exit.inputs)

    def fresh(self, stem: str) -> str:
        """Return a value name that nothing else has: the stem itself, or with a number."""
        count = self.taken.get(stem)
        if count is None:
            self.taken[stem] = 0
            return stem
        while True:
            count += 1
            name = f"{stem}_{count}"
            if name not in self.taken:
                self.taken[stem] = count
                self.taken[name] = 0
                return name
