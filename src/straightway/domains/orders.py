"""Which orders a value may be stored in, and in which of them each node can run."""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from straightway.domains.atoms import Atom, Atoms, Order
from straightway.domains.axes import (
    channels,
    groups_of,
    is_pointwise,
    named_dims,
    variable,
    weights_dims,
)
from straightway.domains.problem import Mode
from straightway.ir import Graph, Node, Value
from straightway.tflite.rows import ROWS

MOST_ORDERS = 12
Symbol = object
Sequence_ = list[tuple[Symbol, Order]]
CARRIERS = ("elementwise", "rename", "along", "reduce", "arg", "gather", "last")
# what can be written in the model's own order as it stands
PLAIN = ("elementwise", "rename", "along", "reduce", "arg", "gather")


class Orders:
    """Candidate orders of every value, spread from where they are demanded; then modes of nodes."""

    def __init__(self, graph: Graph, atoms: Atoms) -> None:
        self.atoms = atoms
        self.graph = graph
        self.found: dict[Value, dict[Order, None]] = {}
        self.users: dict[Value, list[Node]] = {}
        self.kinds: dict[Node, str] = {}
        self.pointwise: dict[Node, bool] = {}
        # values whose sizes TFLite finds out when it runs: what is 1 here may be another size there
        self.open_sizes: set[Value] = set()
        self.sequences: dict[Node, dict[Value, Sequence_]] = {}
        self.fresh: deque[tuple[Value, Order]] = deque()
        for value in graph.inputs:
            self.add(value, atoms.order(value))
        for node in graph.nodes:
            self.register(node)
        self.spread()

    def register(self, node: Node) -> None:
        """Note who touches what, and the orders that the node itself asks for."""
        for value in dict.fromkeys((*node.operands(), *node.outputs)):
            if value.const is None:
                self.users.setdefault(value, []).append(node)
                self.add(value, self.atoms.order(value))
        if ROWS[node.op.name].open_size or not self.open_sizes.isdisjoint(node.operands()):
            self.open_sizes.update(node.outputs)
        if self.kind(node) in CARRIERS:
            self.sequences[node] = self.carried(node)
        elif self.kind(node) == "window":
            for value in (variable(node.inputs[0]), node.output):
                self.add(value, self.atoms.channels_last(value))
        elif self.kind(node) == "matrix":
            for value in (variable(node.inputs[0]), node.output):
                self.add(value, features_last(self.atoms, value, node.attrs["axis"]))
        elif self.kind(node) == "batch_matrix":
            for value in (*node.operands(), node.output):
                swapped = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
                self.add(value, self.atoms.order(value, swapped))

    def kind(self, node: Node) -> str:
        """The layout kind of a node; "fixed" where nothing can be carried through it."""
        if node not in self.kinds:
            self.kinds[node] = self._kind(node)
        return self.kinds[node]

    def is_pointwise(self, node: Node) -> bool:
        """Whether a window op looks at one position at a time."""
        if node not in self.pointwise:
            self.pointwise[node] = is_pointwise(node)
        return self.pointwise[node]

    def _kind(self, node: Node) -> str:
        values = [v for v in (*node.operands(), *node.outputs) if v.const is None]
        barred = node in self.atoms.barriers or any(0 in v.shape for v in values)
        first = node.inputs[0] if node.inputs else None
        if barred or first is None:
            return "fixed"
        kind = ROWS[node.op.name].layout
        if kind in PLAIN and not self.open_sizes.isdisjoint(values):
            return "fixed"
        if kind in ("batch_matrix", "window", "matrix") and not groups_of(node):
            return "fixed"
        if kind == "gather" and first.const is not None:
            # one place of a constant table: no tensor that is moved has the table's axis
            places = variable(node.inputs[1]).known_type
            return "fixed" if places.size == 1 else kind
        return kind

    def add(self, value: Value, order: Order) -> None:
        """Propose an order of a value."""
        if value.const is not None:
            return
        known = self.found.setdefault(value, {})
        if order not in known and len(known) < MOST_ORDERS:
            known[order] = None
            self.fresh.append((value, order))

    def carried(self, node: Node) -> dict[Value, Sequence_]:
        """For each variable tensor of a carrier: its symbols in the model's order, with their atoms."""
        if node.op.name == "RESHAPE":
            tensors = (*node.operands(), node.output)
            return {
                v: [(k, (atom,)) for k, atom in enumerate(self.atoms.order(v))] for v in tensors
            }
        found: dict[Value, Sequence_] = {}
        for value, groups in groups_of(node).items():
            sequence: Sequence_ = []
            for group in groups:
                atoms = self.atoms.order(value, group.dims)
                if group.whole:
                    sequence.append((group.symbol, atoms))
                else:
                    sequence += [((group.symbol, k), (atom,)) for k, atom in enumerate(atoms)]
            found[value] = sequence
        return found

    def spread(self) -> None:
        """Propose what each new order makes of the neighbours, until nothing is new."""
        while self.fresh:
            value, order = self.fresh.popleft()
            for node in self.users.get(value, ()):
                for other, proposed in list(self.neighbours(node, value, order)):
                    self.add(other, proposed)

    def neighbours(self, node: Node, value: Value, order: Order) -> Iterator[tuple[Value, Order]]:
        """Orders of the other tensors of `node` that would let `value` stay in `order`."""
        kind = self.kind(node)
        if kind in CARRIERS:
            yield from self.carried_neighbours(node, value, order)
        elif kind == "matrix" or (kind == "window" and self.is_pointwise(node)):
            yield from self.prefix_neighbours(node, value, order)
        elif kind == "window" and channels(node) == "keep":
            yield from self.channel_neighbours(node, value, order)

    def carried_neighbours(
        self, node: Node, value: Value, order: Order
    ) -> Iterator[tuple[Value, Order]]:
        """Carriers hand an order on; where `value` lacks axes, these go to their own place."""
        sequences = self.sequences[node]
        if value not in sequences:
            return
        symbols = parse(sequences[value], order)
        if symbols is None:
            return
        if not covers(sequences, value):
            full = next((v for v in sequences if covers(sequences, v)), None)
            if full is None or not symbols:
                return
            symbols = completed(symbols, [s for s, atoms in sequences[full] if atoms])
        if self.kind(node) == "last":
            symbols = moved_last(symbols, last_symbols(node, sequences))
        for other, sequence in sequences.items():
            if other.const is None:
                yield other, restrict(sequence, symbols)

    def prefix_neighbours(
        self, node: Node, value: Value, order: Order
    ) -> Iterator[tuple[Value, Order]]:
        """A product over the last axis takes the others in any order, and gives them so."""
        x, y = variable(node.inputs[0]), node.output
        axis = node.attrs.get("axis", 1)
        cut = len(order) - len(self.atoms.of(value, axis))
        if any(dim != axis for dim, _ in order[cut:]):
            return
        other = y if value is x else x
        yield other, order[:cut] + self.atoms.of(other, axis)

    def channel_neighbours(
        self, node: Node, value: Value, order: Order
    ) -> Iterator[tuple[Value, Order]]:
        """Pools and depthwise convolutions keep the order of the channels."""
        prefix = spatial_prefix(self.atoms, value)
        if order[: len(prefix)] == prefix:
            x, y = variable(node.inputs[0]), node.output
            other = y if value is x else x
            yield other, spatial_prefix(self.atoms, other) + order[len(prefix) :]

    def modes(self, node: Node) -> tuple[Mode, ...]:
        """Every way in which a node can run, the model's own order first where it is one."""
        kind = self.kind(node)
        makers: dict[str, Callable[[Node], list[tuple[dict[Value, Order], dict[Value, Order]]]]] = {
            "window": self.window_modes,
            "matrix": self.matrix_modes,
            "batch_matrix": self.batch_matrix_modes,
        }
        maker = self.carrier_modes if kind in CARRIERS else makers.get(kind)
        found = maker(node) if maker else []
        own = self.own_orders(node)
        modes = []
        for needs, gives in found or [({}, {})]:
            full_needs: Mapping[Hashable, Hashable] = {
                v: needs.get(v, own[v]) for v in node.operands() if v.const is None
            }
            full_gives: Mapping[Hashable, Hashable] = {
                v: gives.get(v, own[v]) for v in node.outputs
            }
            modes.append(Mode(needs=full_needs, gives=full_gives))
        unique = {(tuple(m.needs.items()), tuple(m.gives.items())): m for m in modes}
        return tuple(unique.values())

    def own_orders(self, node: Node) -> dict[Value, Order]:
        """The model's own order of each tensor."""
        values = (*node.operands(), *node.outputs)
        return {v: self.atoms.order(v) for v in values if v.const is None}

    def carrier_modes(self, node: Node) -> list[tuple[dict[Value, Order], dict[Value, Order]]]:
        """One mode for each order of the node's axes that some covering tensor may have."""
        sequences = self.sequences[node]
        tail = last_symbols(node, sequences) if self.kind(node) == "last" else []
        seen: dict[tuple[Symbol, ...], None] = {}
        for value in sequences:
            if value.const is not None or not covers(sequences, value):
                continue
            for order in self.found[value]:
                symbols = parse(sequences[value], order)
                if symbols is not None and set(symbols[len(symbols) - len(tail) :]) == set(tail):
                    seen[symbols] = None
        found = []
        for symbols in seen:
            orders = {v: restrict(seq, symbols) for v, seq in sequences.items()}
            found.append((orders, orders))
        return found

    def window_modes(self, node: Node) -> list[tuple[dict[Value, Order], dict[Value, Order]]]:
        """N, spatial, then the channels in whatever order the op can take."""
        x, y = variable(node.inputs[0]), node.output
        policy, pointwise = channels(node), self.is_pointwise(node)
        if policy == "fixed":
            needs = {x: self.atoms.channels_last(x)}
            if len(node.inputs) > 1 and variable(node.inputs[1]).const is None:
                weights = variable(node.inputs[1])
                needs[weights] = self.atoms.order(weights, weights_dims(node))
            return [(needs, {y: self.atoms.channels_last(y)})]
        ins, outs = (self.split(v, 1, None if pointwise else v) for v in (x, y))
        base = spatial_prefix(self.atoms, x), spatial_prefix(self.atoms, y)
        if policy == "keep":
            tails = dict.fromkeys(tail for _, tail in (*ins, *outs))
            return [({x: base[0] + t}, {y: base[1] + t}) for t in tails]
        return [
            ({x: a + b}, {y: c + d}) for a, b in ins for c, d in outs if a == c or (a, c) == base
        ]

    def split(self, value: Value, axis: int, strict: Value | None) -> list[tuple[Order, Order]]:
        """Orders of `value` that end with the axis, in two parts; `strict`: N, spatial before it."""
        cut = len(self.atoms.order(value)) - len(self.atoms.of(value, axis))
        prefix = spatial_prefix(self.atoms, value) if strict is not None else None
        return [
            (order[:cut], order[cut:])
            for order in self.found[value]
            if all(dim == axis for dim, _ in order[cut:]) and prefix in (None, order[:cut])
        ]

    def matrix_modes(self, node: Node) -> list[tuple[dict[Value, Order], dict[Value, Order]]]:
        """Any order before the features; the weights follow the order of the features."""
        x, y, axis = variable(node.inputs[0]), node.output, node.attrs["axis"]
        if x.const is not None:
            return []
        free = variable(node.inputs[1]).const is not None
        ends = self.atoms.of(x, axis), self.atoms.of(y, axis)
        return [
            ({x: a + b}, {y: c + d})
            for a, b in self.split(x, axis, None)
            for c, d in self.split(y, axis, None)
            if a == c and (free or (b, d) == ends)
        ]

    def batch_matrix_modes(self, node: Node) -> list[tuple[dict[Value, Order], dict[Value, Order]]]:
        """See `matrix_sides`: what BATCH_MATMUL computes with a second operand transposed, or swapped."""
        a, b, y = variable(node.inputs[0]), variable(node.inputs[1]), node.output
        found = []
        for side_a in self.sides(a, y):
            for side_b in self.sides(b, y):
                for side_y in self.sides(y, y):
                    if compatible(side_a, side_b, side_y):
                        needs = {v: s.order for v, s in ((a, side_a), (b, side_b))}
                        found.append((needs, {y: side_y.order}))
        return found

    def sides(self, value: Value, result: Value) -> "list[Side]":
        """The orders of a matrix operand that end with rows and columns, each kept together."""
        if value.const is not None:
            own = self.atoms.order(value)
            swap = [*range(value.rank - 2), value.rank - 1, value.rank - 2]
            orders = list(dict.fromkeys((own, self.atoms.order(value, swap))))
        else:
            orders = list(self.found[value])
        sides = (side_of(self.atoms, value, order, result.rank) for order in orders)
        return [side for side in sides if side is not None]

    def matched(self, node: Node, orders: Mapping[Hashable, Hashable]) -> "dict[Value, Side]":
        """How the tensors of a matrix product are stored; a constant is as the others need it."""
        a, b, y = variable(node.inputs[0]), variable(node.inputs[1]), node.output
        choices = [
            [
                s
                for s in self.sides(v, y)
                if v.const is not None or s.order == orders.get(v, s.order)
            ]
            for v in (a, b, y)
        ]
        for found in product(*choices):
            if compatible(*found):
                return dict(zip((a, b, y), found, strict=True))
        raise ValueError(f"{node} can't run in {orders}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A matrix operand in one order.

    `batch`: its atoms as the result counts dimensions; `rows`, `columns`: parts as stored; `plain`:
    rows before columns, `swapped`: columns before rows (both, where one has no atoms).
    """

    order: Order
    batch: Order
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    plain: bool
    swapped: bool


def side_of(atoms: Atoms, value: Value, order: Order, rank: int) -> Side | None:
    """Read an order as batch, then rows and columns in either order; None where they are mixed."""
    row, column = value.rank - 2, value.rank - 1
    row_atoms, column_atoms = atoms.of(value, row), atoms.of(value, column)
    cut = len(order) - len(row_atoms) - len(column_atoms)
    head, tail = order[:cut], order[cut:]
    if any(dim >= row for dim, _ in head):
        return None
    plain = all(dim == row for dim, _ in tail[: len(row_atoms)])
    swapped = all(dim == column for dim, _ in tail[: len(column_atoms)])
    if not plain and not swapped:
        return None
    batch = tuple((dim + rank - value.rank, part) for dim, part in head)
    return Side(
        order=order,
        batch=batch,
        rows=tuple(part for dim, part in tail if dim == row),
        columns=tuple(part for dim, part in tail if dim == column),
        plain=plain,
        swapped=swapped,
    )


def compatible(a: Side, b: Side, y: Side) -> bool:
    """Whether BATCH_MATMUL computes y from a and b in these orders without adj_x.

    y plain: a plain, b either way (adj_y). y transposed: yᵀ = bᵀ·aᵀ, so b transposed and a either
    way. XNNPACK's delegate takes adj_y, not adj_x.
    """
    if a.columns != b.rows or a.rows != y.rows or b.columns != y.columns:
        return False
    if not ((y.plain and a.plain) or (y.swapped and b.swapped)):
        return False
    return all(
        tuple(atom for atom in y.batch if atom in set(side.batch)) == side.batch for side in (a, b)
    )


def parse(sequence: Sequence_, order: Order) -> tuple[Symbol, ...] | None:
    """Read an order as symbols; None where the atoms of a symbol are not together and in order."""
    owner: dict[Atom, tuple[Symbol, Order]] = {}
    for symbol, atoms in sequence:
        owner.update(dict.fromkeys(atoms, (symbol, atoms)))
    symbols = []
    place = 0
    while place < len(order):
        if order[place] not in owner:
            return None
        symbol, atoms = owner[order[place]]
        if order[place : place + len(atoms)] != atoms:
            return None
        symbols.append(symbol)
        place += len(atoms)
    return tuple(symbols)


def restrict(sequence: Sequence_, symbols: "tuple[Symbol, ...] | list[Symbol]") -> Order:
    """The order of a tensor that has some of the symbols."""
    atoms = dict(sequence)
    return tuple(atom for symbol in symbols for atom in atoms.get(symbol, ()))


def covers(sequences: dict[Value, Sequence_], value: Value) -> bool:
    """Whether a tensor has every axis of the node."""
    have = {symbol for symbol, atoms in sequences[value] if atoms}
    return all(s in have for sequence in sequences.values() for s, atoms in sequence if atoms)


def completed(symbols: tuple[Symbol, ...], own: list[Symbol]) -> tuple[Symbol, ...]:
    """Put the missing axes behind the axis that the model has before them, or first."""
    found = list(symbols)
    for place, symbol in enumerate(own):
        if symbol not in found:
            found.insert(found.index(own[place - 1]) + 1 if place else 0, symbol)
    return tuple(found)


def last_symbols(node: Node, sequences: dict[Value, Sequence_]) -> list[Symbol]:
    """The symbols of the axis that must be stored last."""
    (axis,) = named_dims(node)
    return [s for s, atoms in sequences[variable(node.inputs[0])] if atoms and atoms[0][0] == axis]


def moved_last(symbols: tuple[Symbol, ...], tail: list[Symbol]) -> tuple[Symbol, ...]:
    """The same order with the tail at the end."""
    ends = [s for s in symbols if s in tail]
    return (*(s for s in symbols if s not in tail), *ends)


def spatial_prefix(atoms: Atoms, value: Value) -> Order:
    """N and the spatial dimensions."""
    return atoms.order(value, [0, *range(2, value.rank)])


def features_last(atoms: Atoms, value: Value, axis: int) -> Order:
    """The model's order with one dimension moved to the end."""
    return atoms.order(value, [*(d for d in range(value.rank) if d != axis), axis])
