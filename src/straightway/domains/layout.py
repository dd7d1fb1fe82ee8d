"""Orders for a whole graph: atoms, candidates, one cut, written ops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from straightway.domains.atoms import Atoms, last_dims
from straightway.domains.forms import Form, whole_dims
from straightway.domains.orders import Orders
from straightway.domains.plan import Plan, make_plan
from straightway.domains.problem import Mode, NodeModes, Problem
from straightway.domains.realize import Realizer
from straightway.domains.solve import solve
from straightway.domains.store import Store, restored
from straightway.ir import Graph, Node, Op, Value, edit

# A TRANSPOSE costs its bytes and a little more, so that among equal bytes the fewest ops win.
CONVERSION_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a logical value is stored: the tensor, and the form that it has there."""

    tensor: Value
    form: Form


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How a graph's inputs and outputs are stored.

    `hands_on`: an output may be the input of the same place, as in the body of a loop.
    """

    channels_last_io: bool = False
    hands_on: bool = False

    def dims(self, value: Value) -> list[int]:
        """The model's dimensions in stored order."""
        return last_dims(value.rank) if self.channels_last_io else list(range(value.rank))


OWN_ENDS = Ends()
INNER_ENDS = Ends(hands_on=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The written graph, the plan of its conversions, and where each logical value went."""

    graph: Graph
    plan: Plan
    places: dict[Value, Place]
    atoms: Atoms
    channels_last_io: bool

    def io_dims(self, value: Value) -> list[int]:
        """The model's dimensions of an input or output, in the order in which the file has them."""
        return last_dims(value.rank) if self.channels_last_io else list(range(value.rank))

    def restore(self, value: Value, array: np.ndarray) -> np.ndarray:
        """Bring what the stored tensor of `value` holds to the model's dimension order."""
        return restored(self.atoms, value, array, self.places[value].form)


def lay_out(graph: Graph, outputs: Sequence[str], *, channels_last_io: bool = False) -> Layout:
    """Assign an order to every value of a lowered graph at least cost, and write its ops so.

    Inputs and outputs keep the model's own dimension order, or with `channels_last_io` have
    N, spatial, channels where they have three dimensions or more.
    """
    return _lay_out(graph, outputs, Ends(channels_last_io=channels_last_io))


def _lay_out(graph: Graph, outputs: Sequence[str], ends: Ends) -> Layout:
    inside = {
        inner: _lay_out(inner, [v.name for v in inner.outputs], INNER_ENDS)
        for node in graph.nodes
        for inner in node.graphs()
    }
    orders = Orders(graph, Atoms(graph))
    problem = problem_of(orders, channels_last_io=ends.channels_last_io)
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
        channels_last_io=ends.channels_last_io,
    )


def problem_of(orders: Orders, *, channels_last_io: bool = False) -> Problem:
    """The graph as the solver sees it: modes of nodes, bytes of values, orders at the borders."""
    graph, atoms = orders.graph, orders.atoms
    io_order = atoms.channels_last if channels_last_io else atoms.order
    return Problem(
        nodes=tuple(NodeModes(name=n.name, modes=orders.modes(n)) for n in graph.nodes),
        weights={v: v.known_type.size_bytes for v in graph.values() if v.const is None},
        sources={v: io_order(v) for v in graph.inputs},
        sinks={v: (io_order(v),) for v in graph.outputs if v.const is None},
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
