"""Which ops compute with floats: the borders between floats and integers where they cost least.

Some ops must compute with floats. Each border costs a QUANTIZE or DEQUANTIZE of its bytes, each op more
time with floats than with integers, and each rounding some accuracy; one minimum cut finds the least
sum for the whole graph (`domains`).

    a value v whose rounding costs accuracy has a node of its own, "whole" or "rounded"
      maker of v with integers  ⇒ rounded          (by a value that only this node reads)
      a user of v with integers ⇒ rounded          (by a value that only this node makes)
"""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field

from straightway.domains.problem import Label, Mode, NodeModes, Problem, ValueId
from straightway.domains.solve import Solution, solve
from straightway.ir import Graph, Node, Value
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.weights import output_axis
from straightway.tflite.rows import ROWS

FLOAT, INTEGER = "float", "integer"
# bytes that a conversion moves for an element: four of the float, one of the integer
CONVERTED_BYTES = 5
# and bytes more that an op moves for one with floats
WIDER_BYTES = 3
# In the time in which a core multiplies once with floats rather than with integers, which it does two
# to four times as fast, it moves a quarter of a byte: about 60 GMAC/s of float32 beside 20 GB/s.
BYTES_A_MAC = 0.25
BETWEEN = "its neighbours compute with floats, and conversions would cost more"
ALLOWED = "the allowed loss leaves no room for its rounding"
RELATED = "it belongs to ops that compute with floats"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """What roundings cost in accuracy: those of values and of nodes' constants, in bytes."""

    values: Mapping[Value, int] = field(default_factory=dict)
    nodes: Mapping[Node, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Nodes that compute with floats beside those that must, and what the solver says of the cut."""

    floats: Mapping[Node, str]
    solution: Solution


def place(
    graph: Graph,
    forced: Mapping[Node, str],
    hidden: AbstractSet[str],
    makers: Mapping[Node, Node],
    errors: Errors | None = None,
) -> Placement:
    """Choose for each op of floats a side at least cost.

    `forced` compute with floats; `hidden` names values that vanish, where no border can be; `makers`
    has the model's node of each op.
    """
    made = _Maker(
        graph=graph,
        forced=forced,
        hidden=hidden,
        related=_related(graph, forced, hidden, makers),
        errors=errors or Errors(),
    )
    solution = solve(made.problem())
    chosen = zip(made.nodes, solution.choice, strict=False)  # roundings stand behind the nodes
    found = {node: made.why(node) for node, mode in chosen if node not in forced and mode == 1}
    return Placement(floats=found, solution=solution)


@dataclass(slots=True, kw_only=True)
class _Maker:
    graph: Graph
    forced: Mapping[Node, str]
    hidden: AbstractSet[str]
    related: AbstractSet[Node]
    errors: Errors
    nodes: list[Node] = field(default_factory=list)
    modes: dict[Node, tuple[Mode, ...]] = field(default_factory=dict)
    weights: dict[ValueId, int] = field(default_factory=dict)

    def problem(self) -> Problem:
        """The graph with two sides for each op; all prices doubled, so that one breaks a tie."""
        self.nodes = [node for node in self.graph.nodes if _real(node)]
        most = self.most()
        for node in self.nodes:
            for value in (*_operands(node), *_results(node)):
                free = 2 * CONVERTED_BYTES * value.known_type.size
                self.weights[value] = most if value.name in self.hidden else free
        for node in self.nodes:
            self.modes[node] = self.sides(node)
        roundings = [self.rounding(value) for value in self.errors.values]
        for key in [key for key in self.weights if isinstance(key, tuple)]:
            self.weights[key] = most
        return Problem(
            nodes=(
                *(NodeModes(name=node.name, modes=self.modes[node]) for node in self.nodes),
                *roundings,
            ),
            weights=self.weights,
            sources={value: FLOAT for value in self.graph.inputs if value in self.weights},
            sinks={v: (FLOAT,) for v in self.graph.outputs if v in self.weights},
        )

    def most(self) -> int:
        """More than any choice costs."""
        sizes = sum(v.known_type.size for v in self.graph.values() if v.dtype == FLOAT32)
        prices = sum(float_price(node) for node in self.nodes)
        lost = sum(self.errors.values.values()) + sum(self.errors.nodes.values())
        return 2 * (2 * CONVERTED_BYTES * sizes + prices + lost) + len(self.nodes) + 1

    def sides(self, node: Node) -> tuple[Mode, ...]:
        """With integers, with floats; only the second where it must."""
        price = 0 if node in self.related else float_price(node)
        lost = self.errors.nodes.get(node, 0)
        whole = self.side(node, FLOAT, 2 * price)
        if node in self.forced:
            return (whole,)
        return self.side(node, INTEGER, 2 * lost + (node in self.related)), whole

    def side(self, node: Node, label: Label, price: int) -> Mode:
        """One mode: all of its values on one side."""
        needs: dict[ValueId, Label] = dict.fromkeys(_operands(node), label)
        gives: dict[ValueId, Label] = dict.fromkeys(_results(node), label)
        if label == INTEGER:
            needs |= {("rounded", v): label for v in _operands(node) if v in self.errors.values}
        gives |= {("made", v): label for v in _results(node) if v in self.errors.values}
        self.weights |= {key: 0 for key in (*needs, *gives) if isinstance(key, tuple)}
        return Mode(needs=needs, gives=gives, price=price)

    def rounding(self, value: Value) -> NodeModes:
        """Whether a value is stored as integers at all, which costs what its rounding does."""
        made: dict[ValueId, Label] = {} if value.producer is None else {("made", value): FLOAT}
        tag = ("rounded", value)
        self.weights[tag] = 0
        lost = 2 * self.errors.values[value]
        return NodeModes(
            name=f"rounding of {value.name}",
            modes=(
                Mode(needs={}, gives={tag: INTEGER}, price=lost),
                Mode(needs=made, gives={tag: FLOAT}),
            ),
        )

    def why(self, node: Node) -> str:
        """Why a node that could compute with integers does not."""
        lost = self.errors.nodes.get(node, 0) + sum(
            self.errors.values.get(v, 0) for v in node.outputs
        )
        if lost:
            return ALLOWED
        return RELATED if node in self.related else BETWEEN


def float_price(node: Node) -> int:
    """What an op costs more with floats than with integers, in bytes."""
    values = (*_operands(node), *_results(node))
    moved = 0 if is_op(node, "RESHAPE") else sum(value.known_type.size for value in values)
    held = sum(v.known_type.size for v in node.operands() if v.const is not None)
    return int(WIDER_BYTES * (moved + held) + BYTES_A_MAC * macs(node))


def macs(node: Node) -> int:
    """Multiplications of an op of the lowered graph, whose tensors have the model's dimensions."""
    if not node.outputs or len(node.inputs) < 2 or node.inputs[0] is None or node.inputs[1] is None:
        return 0
    x, weights, result = node.inputs[0], node.inputs[1], node.outputs[0]
    if is_op(node, "BATCH_MATMUL"):
        return result.known_type.size * (x.shape[-1] if x.rank else 1)
    row = ROWS.get(node.op.name)
    if row is None or row.quant != "weights" or not weights.rank:
        return 0
    axis = output_axis(node)
    each = weights.known_type.size // max(weights.shape[1 - axis if axis else 0], 1)
    return each * (x if axis else result).known_type.size


def _operands(node: Node) -> list[Value]:
    return list(dict.fromkeys(v for v in node.operands() if v.const is None and v.dtype == FLOAT32))


def _results(node: Node) -> list[Value]:
    return [v for v in node.outputs if v.dtype == FLOAT32]


def _real(node: Node) -> bool:
    return bool(_operands(node) or _results(node))


def _related(
    graph: Graph,
    forced: Mapping[Node, str],
    hidden: AbstractSet[str],
    makers: Mapping[Node, Node],
) -> frozenset[Node]:
    """Ops of the nodes of which others must compute with floats, scale, offset, activation behind those.

    They lose nothing with floats, which counts where it costs no conversion.
    """
    of_model = {makers[node] for node in forced if node in makers}
    found: set[Node] = set()
    for node in graph.nodes:
        if node in forced or not _real(node) or macs(node):
            continue
        scales = is_op(node, "ADD", "MUL") and any(v.const is not None for v in node.operands())
        after = [v for v in _operands(node) if v.producer in forced or v.producer in found]
        joined = any(v.name in hidden for v in after)
        if makers.get(node) in of_model or (scales and after) or joined:
            found.add(node)
    return frozenset(found)
