"""Which ops compute with floats: the borders between floats and integers where they cost least.

Some ops must compute with floats. Each border costs a QUANTIZE or DEQUANTIZE of its bytes, each op more
time with floats than with integers, and each rounding some accuracy; one minimum cut finds the least
sum for the whole graph (`domains`).

    a value v whose rounding costs accuracy has a node of its own, "whole" or "rounded"
      maker of v with integers  ⇒ rounded          (by a value that only this node reads)
      a user of v with integers ⇒ rounded          (by a value that only this node makes)

Where engines have hybrid kernels, a product among floats takes such a one, if it is cheaper: it rounds its
operand as it runs, by its range at that time, and multiplies with int8 weights. Integers among floats that
save next to no time are not worth their roundings: they become floats, too.

A third side has int16 beside int8 weights: more bytes than int8, fewer than floats, and roundings of
values that cost nothing.
"""

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import dataclass, field, replace

from straightway.domains.problem import Label, Mode, NodeModes, Problem, ValueId
from straightway.domains.solve import Solution, solve
from straightway.ir import Graph, Node, Value
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.storage import PRODUCTS, has_kernel
from straightway.quant.weights import output_axis
from straightway.tflite.rows import ROWS

FLOAT, INTEGER, WIDE = "float", "integer", "int16"
# bytes that a conversion moves for an element: four of the float, one of the integer
CONVERTED_BYTES = 5
# and bytes more that an op moves for one with floats
WIDER_BYTES = 3
# In the time in which a core multiplies once with floats rather than with integers, which it does two
# to four times as fast, it moves a quarter of a byte: about 60 GMAC/s of float32 beside 20 GB/s.
BYTES_A_MAC = 0.25
# bytes more that an op moves for an element of int16 rather than int8
SIXTEEN_BYTES = 1
# and how much of what a multiplication costs more with floats it costs with int16: NPUs and DSPs
# multiply 16 by 8 bits at half the rate of 8 by 8
SIXTEEN_SHARE = 0.5
# a part of what floats cost everywhere: islands of integers that save less are none
LEAST_SAVED = 0.01
BETWEEN = "its neighbours compute with floats, and conversions would cost more"
ALLOWED = "the allowed loss leaves no room for its rounding"
RELATED = "it scales, shifts or limits what ops on floats compute, or belongs to their node"
ISLAND = "among floats, its integers would save less than a hundredth of the time"
HYBRID = "among floats, it rounds its operand as it runs, and multiplies with int8 weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """What roundings cost in accuracy: those of values to int8 and of nodes' constants, in bytes.

    `wide` must compute with int16.
    """

    values: Mapping[Value, int] = field(default_factory=dict)
    nodes: Mapping[Node, int] = field(default_factory=dict)
    wide: AbstractSet[Node] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """What an engine has beside int8 and floats, where the whole file is not of int16.

    `hybrid`: kernels of floats and int8 weights. `wide` must compute with int16, `widened` may.
    """

    hybrid: bool = False
    wide: AbstractSet[Node] = frozenset()
    widened: AbstractSet[Node] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Nodes that compute with floats beside those that must, and what the solver says of the cut.

    `hybrids` are those of them that round their operand as they run, `wide` compute with int16.
    """

    floats: Mapping[Node, str]
    hybrids: frozenset[Node]
    wide: frozenset[Node]
    solution: Solution


def place(
    graph: Graph,
    forced: Mapping[Node, str],
    hidden: AbstractSet[str],
    makers: Mapping[Node, Node],
    errors: Errors | None = None,
    *,
    kernels: Kernels | None = None,
) -> Placement:
    """Choose for each op of floats a side at least cost.

    `forced` compute with floats; `hidden` names values that vanish, where no border can be; `makers`
    has the model's node of each op.
    """
    kernels = kernels or Kernels()
    made = _Maker(
        graph=graph,
        forced=forced,
        hidden=hidden,
        related=_related(graph, forced, hidden, makers),
        errors=errors or Errors(),
        # a model without floats stays one
        kernels=replace(kernels, hybrid=kernels.hybrid and bool(forced)),
    )
    solution = solve(made.problem())
    chosen = zip(made.nodes, solution.choice, strict=False)  # roundings stand behind the nodes
    made.sides = {node: made.labels[node][mode] for node, mode in chosen}
    found = {n: made.why(n) for n, side in made.sides.items() if n not in forced and side == FLOAT}
    found |= dict.fromkeys(made.islands({*forced, *found}), ISLAND)
    hybrids = frozenset(node for node in found if made.rounds(node))
    return Placement(
        floats=found | dict.fromkeys(hybrids, HYBRID),
        hybrids=hybrids,
        wide=frozenset(n for n, side in made.sides.items() if side == WIDE and n not in found),
        solution=solution,
    )


@dataclass(slots=True, kw_only=True)
class _Maker:
    graph: Graph
    forced: Mapping[Node, str]
    hidden: AbstractSet[str]
    related: AbstractSet[Node]
    errors: Errors
    kernels: Kernels
    nodes: list[Node] = field(default_factory=list)
    labels: dict[Node, tuple[str, ...]] = field(default_factory=dict)
    sides: dict[Node, str] = field(default_factory=dict)
    weights: dict[ValueId, int] = field(default_factory=dict)

    def problem(self) -> Problem:
        """The graph with the sides of each op; all prices doubled, so that one breaks a tie."""
        self.nodes = [node for node in self.graph.nodes if _real(node)]
        most = self.most()
        for node in self.nodes:
            for value in (*_operands(node), *_results(node)):
                free = 2 * CONVERTED_BYTES * value.known_type.size
                self.weights[value] = most if value.name in self.hidden else free
        modes = []
        for node in self.nodes:
            self.labels[node] = self.open_to(node)
            sides = tuple(self.side(node, label) for label in self.labels[node])
            modes.append(NodeModes(name=node.name, modes=sides))
        roundings = [self.rounding(value) for value in self.errors.values]
        for key in [key for key in self.weights if isinstance(key, tuple)]:
            self.weights[key] = most
        return Problem(
            nodes=(*modes, *roundings),
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

    def open_to(self, node: Node) -> tuple[str, ...]:
        """With int8, with floats, with int16; one of them where it must."""
        if node in self.forced:
            return (FLOAT,)
        if node in self.kernels.wide or node in self.errors.wide:
            return (WIDE,)
        return (INTEGER, FLOAT, WIDE) if node in self.kernels.widened else (INTEGER, FLOAT)

    def side(self, node: Node, label: str) -> Mode:
        """One mode: all of its values on one side."""
        needs: dict[ValueId, Label] = dict.fromkeys(_operands(node), label)
        gives: dict[ValueId, Label] = dict.fromkeys(_results(node), label)
        made = INTEGER if label == INTEGER else FLOAT
        if label == INTEGER:
            needs |= {("rounded", v): label for v in _operands(node) if v in self.errors.values}
        gives |= {("made", v): made for v in _results(node) if v in self.errors.values}
        self.weights |= {key: 0 for key in (*needs, *gives) if isinstance(key, tuple)}
        return Mode(needs=needs, gives=gives, price=self.cost(node, label))

    def cost(self, node: Node, label: str) -> int:
        """The price of a side, and what its constants lose by rounding, doubled."""
        if label == FLOAT:
            return 2 * self.price(node)
        own = wide_price(node) if label == WIDE and node not in self.related else 0
        return 2 * (own + self.errors.nodes.get(node, 0)) + (node in self.related)

    def price(self, node: Node) -> int:
        """What an op costs more with floats: rounded as they run, where that is cheaper."""
        if node in self.related:
            return 0
        return hybrid_price(node) if self.rounds(node) else float_price(node)

    def rounds(self, node: Node) -> bool:
        """Whether a product among floats is computed by a hybrid kernel."""
        if not self.kernels.hybrid or not is_op(node, *PRODUCTS) or not has_kernel(node):
            return False
        given = [v for v in node.inputs[1:3] if v is not None]
        return all(v.const is not None for v in given) and hybrid_price(node) < float_price(node)

    def islands(self, floats: AbstractSet[Node]) -> list[Node]:
        """Ops that are left, in parts that are joined by values, where a part saves next to nothing."""
        left = [node for node in self.nodes if node not in floats]
        roots: dict[object, object] = {}

        def root(one: object) -> object:
            while (above := roots.setdefault(one, one)) is not one:
                one = above
            return one

        for node in left:
            for value in (*_operands(node), *_results(node)):
                roots[root(value)] = root(node)
        parts: dict[object, list[Node]] = {}
        for node in left:
            parts.setdefault(root(node), []).append(node)
        least = LEAST_SAVED * sum(float_price(node) for node in self.nodes)
        asked = {*self.kernels.wide, *self.errors.wide}
        free = [part for part in parts.values() if asked.isdisjoint(part)]
        return [n for part in free if self.saved(part, floats) < least for n in part]

    def saved(self, part: list[Node], floats: AbstractSet[Node]) -> int:
        """What integers save here, less the conversions around them."""
        values = dict.fromkeys(v for node in part for v in (*_operands(node), *_results(node)))
        beside = [
            v
            for v in values
            if v.producer is None
            or v.producer in floats
            or any(u in floats for u in v.users())
            or self.graph.is_output(v)
        ]
        converted = sum(CONVERTED_BYTES * v.known_type.size for v in beside)
        wide = sum(wide_price(node) for node in part if self.sides[node] == WIDE)
        return sum(self.price(node) for node in part) - wide - converted

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


def wide_price(node: Node) -> int:
    """What an op costs more with int16 than with int8, in bytes; its weights are int8 in either."""
    values = (*_operands(node), *_results(node))
    moved = 0 if is_op(node, "RESHAPE") else sum(value.known_type.size for value in values)
    return int(SIXTEEN_BYTES * moved + SIXTEEN_SHARE * BYTES_A_MAC * macs(node))


def hybrid_price(node: Node) -> int:
    """What a product costs more that rounds its operand as it runs and gives floats, in bytes."""
    operand = node.operands()[0].known_type.size
    return CONVERTED_BYTES * operand + WIDER_BYTES * node.output.known_type.size


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
