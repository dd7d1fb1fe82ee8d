"""Orders for a whole graph: atoms, candidates, one cut, written ops."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from straightway.domains.atoms import Atoms, Order, last_dims
from straightway.domains.forms import whole_dims
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
    """Where a logical value is stored: the tensor, and the order of its atoms."""

    tensor: Value
    order: Order


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
        return restored(self.atoms, value, array, self.places[value].order)


def lay_out(graph: Graph, outputs: Sequence[str], *, channels_last_io: bool = False) -> Layout:
    """Assign an order to every value of a lowered graph at least cost, and write its ops so.

    Inputs and outputs keep the model's own dimension order, or with `channels_last_io` have
    N, spatial, channels where they have three dimensions or more.
    """
    orders = Orders(graph, Atoms(graph))
    problem = problem_of(orders, channels_last_io=channels_last_io)
    solution = solve(problem)
    modes = [node.modes[mode] for node, mode in zip(problem.nodes, solution.choice, strict=True)]
    store = write_modes(orders, modes, outputs, channels_last_io=channels_last_io)
    places = {v: Place(tensor=s.first[1], order=s.order) for v, s in store.values.items()}
    return Layout(
        graph=store.target,
        plan=make_plan(solution, store.moves),
        places=places,
        atoms=orders.atoms,
        channels_last_io=channels_last_io,
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
    orders: Orders, modes: Sequence[Mode], outputs: Sequence[str], *, channels_last_io: bool = False
) -> Store:
    """Write every node in its mode, with the conversions that these entail."""
    graph = orders.graph
    target = Graph(name=graph.name)
    store = Store(target, orders.atoms)
    for name in (*(v.name for v in graph.inputs), *outputs):
        target.taken[name] = 0
    for value in graph.inputs:
        dims = last_dims(value.rank) if channels_last_io else list(range(value.rank))
        form = whole_dims(orders.atoms, value, dims)
        tensor = store.tensor(value.name, value, form)
        tensor.name = value.name
        store.put(value, form, edit.add_input(target, tensor))
    realizer = Realizer(orders, store)
    for node, mode in zip(graph.nodes, modes, strict=True):
        realizer.realize(node, mode)
    store.user = None
    _finish(graph, outputs, store, channels_last_io=channels_last_io)
    return store


def _finish(graph: Graph, names: Sequence[str], store: Store, *, channels_last_io: bool) -> None:
    """Give each output a tensor of its own, under the model's name."""
    taken: set[Value] = set(store.target.inputs)
    results = []
    for value, name in zip(graph.outputs, names, strict=True):
        dims = last_dims(value.rank) if channels_last_io else list(range(value.rank))
        tensor = store.get(value, whole_dims(store.atoms, value, dims))
        if tensor in taken or tensor.const is not None:
            tensor = _copied(store, tensor)
        taken.add(tensor)
        tensor.name = name
        results.append(tensor)
    edit.set_outputs(store.target, results)


def _copied(store: Store, tensor: Value) -> Value:
    """A second tensor with the same elements: an output may be neither an input nor a constant."""
    made = Value(store.target.fresh(f"{tensor.name}/copy"), tensor.type)
    sizes = np.array(tensor.shape, np.int32)
    op = Op(dialect="tflite", name="RESHAPE")
    origins = tensor.producer.origins if tensor.producer else frozenset()
    node = Node(op, [tensor, store.sizes(sizes)], [made], {"newShape": sizes}, origins=origins)
    store.emit(node)
    return made
