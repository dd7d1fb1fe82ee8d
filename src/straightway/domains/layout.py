"""Orders for a whole graph: atoms, candidates, one cut, written ops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from straightway.domains import images
from straightway.domains.atoms import Atoms, Order, last_dims
from straightway.domains.forms import Form, whole_dims
from straightway.domains.orders import Orders
from straightway.domains.plan import Plan, make_plan
from straightway.domains.problem import Mode, NodeModes, Problem
from straightway.domains.realize import Realizer
from straightway.domains.solve import solve
from straightway.domains.store import Store, restored
from straightway.ir import Graph, Node, Op, Value, edit
from straightway.remark import Remark

# A TRANSPOSE costs its bytes and a little more, so that among equal bytes the fewest ops win.
CONVERSION_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a logical value is stored: the tensor, and the form that it has there."""

    tensor: Value
    form: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How a graph's inputs and outputs are stored: those that are `turned` have their channels last.

    `hands_on`: an output may be the input of the same place, as in the body of a loop.
    """

    turned: frozenset[Value] = frozenset()
    hands_on: bool = False

    def dims(self, value: Value) -> list[int]:
        """The model's dimensions in stored order."""
        return last_dims(value.rank) if value in self.turned else list(range(value.rank))

    def order(self, atoms: Atoms, value: Value) -> Order:
        """The stored order."""
        return atoms.order(value, self.dims(value))


OWN_ENDS = Ends()
INNER_ENDS = Ends(hands_on=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The written graph, the plan of its conversions, and where each logical value went.

    `channels_last_io` was asked for; `ends` says which inputs and outputs it turned.
    """

    graph: Graph
    plan: Plan
    places: dict[Value, Place]
    atoms: Atoms
    ends: Ends
    channels_last_io: bool

    def io_dims(self, value: Value) -> list[int]:
        """The model's dimensions of an input or output, in the order in which the file has them."""
        return self.ends.dims(value)

    def remarks(self, ends: Sequence[tuple[str, Value]]) -> list[Remark]:
        """If channels last were asked for: which inputs and outputs, by name, have them so."""
        if not self.channels_last_io:
            return []
        return [
            images.remark(name, turned=value in self.ends.turned)
            for name, value in ends
            if value.rank >= images.FEWEST_DIMS
        ]

    def restore(
        self, value: Value, array: np.ndarray, shape: Sequence[int] = ()
    ) -> np.ndarray | None:
        """Bring what the stored tensor of `value` holds to the model's dimension order, and to its `shape`.

        None where that can't be told: of sizes other than those it was laid out for.
        """
        return restored(self.atoms, value, array, self.places[value].form, shape)


def lay_out(graph: Graph, outputs: Sequence[str], *, channels_last_io: bool = False) -> Layout:
    """Assign an order to every value of a lowered graph at least cost, and write its ops so.

    Inputs and outputs keep the model's own dimension order; with `channels_last_io` those that are
    images in the model, N, channels, spatial, have N, spatial, channels.
    """
    ends = OWN_ENDS
    if channels_last_io:
        found = images.channels_first(graph).intersection((*graph.inputs, *graph.outputs))
        ends = Ends(turned=frozenset(found))
    return replace(_lay_out(graph, outputs, ends), channels_last_io=channels_last_io)


def _lay_out(graph: Graph, outputs: Sequence[str], ends: Ends) -> Layout:
    inside = {
        inner: _lay_out(inner, [v.name for v in inner.outputs], INNER_ENDS)
        for node in graph.nodes
        for inner in node.graphs()
    }
    orders = Orders(graph, Atoms(graph))
    problem = problem_of(orders, ends)
    solution = solve(problem)
    modes = [node.modes[mode] for node, mode in zip(problem.nodes, solution.choice, strict=True)]
    written = {inner: found.graph for inner, found in inside.items()}
    store = write_modes(orders, modes, outputs, ends, written)
    places = {v: Place(tensor=s.first[1], form=s.first[0]) for v, s in store.values.items()}
    return Layout(
        graph=store.target,
        plan=make_plan(solution, store.moves).joined(one.plan for one in inside.values()),
        places=places,
        atoms=orders.atoms,
        ends=ends,
        channels_last_io=False,
    )


def problem_of(orders: Orders, ends: Ends = OWN_ENDS) -> Problem:
    """The graph as the solver sees it: modes of nodes, bytes of values, orders at the borders."""
    graph, atoms = orders.graph, orders.atoms
    return Problem(
        nodes=tuple(NodeModes(name=n.name, modes=orders.modes(n)) for n in graph.nodes),
        weights={v: v.known_type.size_bytes for v in graph.values() if v.const is None},
        sources={v: ends.order(atoms, v) for v in graph.inputs},
        sinks={v: (ends.order(atoms, v),) for v in graph.outputs if v.const is None},
        constant=CONVERSION_BYTES,
    )


def write_modes(
    orders: Orders,
    modes: Sequence[Mode],
    outputs: Sequence[str],
    ends: Ends = OWN_ENDS,
    inside: Mapping[Graph, Graph] | None = None,
) -> Store:
    """Write every node in its mode, with the conversions that these entail.

    `inside` has the written form of each graph that a node runs.
    """
    graph = orders.graph
    target = Graph(name=graph.name)
    store = Store(target, orders.atoms, inside or {})
    for name in (*(v.name for v in graph.inputs), *outputs):
        target.taken[name] = 0
    for value in graph.inputs:
        form = whole_dims(orders.atoms, value, ends.dims(value))
        tensor = store.tensor(value.name, value, form)
        tensor.name = value.name
        store.put(value, form, edit.add_input(target, tensor))
    realizer = Realizer(orders, store)
    for node, mode in zip(graph.nodes, modes, strict=True):
        realizer.realize(node, mode)
    store.user = None
    _finish(graph, outputs, store, ends)
    return store


def _finish(graph: Graph, names: Sequence[str], store: Store, ends: Ends) -> None:
    """Give each output a tensor of its own, under the model's name."""
    inputs = store.target.inputs
    taken: set[Value] = set(inputs)
    results = []
    for place, (value, name) in enumerate(zip(graph.outputs, names, strict=True)):
        tensor = store.get(value, whole_dims(store.atoms, value, ends.dims(value)))
        handed_on = ends.hands_on and place < len(inputs) and tensor is inputs[place]
        if not handed_on:
            if tensor in taken or tensor.const is not None:
                tensor = _copied(store, tensor)
            tensor.name = name
        taken.add(tensor)
        results.append(tensor)
    edit.set_outputs(store.target, results)


def _copied(store: Store, tensor: Value) -> Value:
    """A second tensor with the same elements: an output may be neither an input nor a constant."""
    made = Value(store.target.fresh(f"{tensor.name}/copy"), tensor.type)
    made.quant = tensor.quant
    sizes = np.array(tensor.shape, np.int32)
    op = Op(dialect="tflite", name="RESHAPE")
    origins = tensor.producer.origins if tensor.producer else frozenset()
    node = Node(op, [tensor, store.sizes(sizes)], [made], {"newShape": sizes}, origins=origins)
    store.emit(node)
    return made
