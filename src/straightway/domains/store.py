"""What is stored where while written ops are made: forms, conversions, rearranged constants."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from straightway.domains.atoms import Atoms, Order
from straightway.domains.forms import Form, common_runs, flat, matching_perm, natural, shape_of
from straightway.ir import Graph, Node, Op, TensorType, Value, edit
from straightway.ir.scheme import moved
from straightway.ir.source import Origins


@dataclass(slots=True, kw_only=True)
class Stored:
    """A value in one order: the tensors that hold it, by form; the first is the original."""

    order: Order
    forms: dict[Form, Value] = field(default_factory=dict)

    @property
    def first(self) -> tuple[Form, Value]:
        """The form in which it was made, and the tensor."""
        return next(iter(self.forms.items()))

    @property
    def latest(self) -> Form:
        """The form made last: the one that neighbours most likely share."""
        return next(reversed(self.forms))


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One TRANSPOSE that the plan could not avoid."""

    value: Value
    given: Order
    wanted: Order
    node: Node
    demanded_by: Node | None


class Store:
    """The written graph so far, and how each logical value is stored in it.

    `inside` has the written form of each graph that a node runs.
    """

    def __init__(self, target: Graph, atoms: Atoms, inside: Mapping[Graph, Graph]) -> None:
        self.target = target
        self.inside = inside
        self.atoms = atoms
        self.values: dict[Value, Stored] = {}
        self.converted: dict[tuple[Value, Order], Stored] = {}
        self.constants: dict[tuple[Value, Form], Value] = {}
        self.arrangements: dict[tuple[Value, tuple[object, ...]], Value] = {}
        self.moves: list[Moved] = []
        self.user: Node | None = None

    def origins(self, value: Value) -> Origins:
        """What a conversion of `value` is done for: who makes it, and who wants it so."""
        makers = value.producer.origins if value.producer else frozenset()
        return makers or (self.user.origins if self.user else frozenset())

    def put(self, value: Value, form: Form, tensor: Value) -> None:
        """Say how a value is stored."""
        self.values[value] = Stored(order=flat(form), forms={form: tensor})

    def attrs(self, node: Node) -> dict[str, Any]:
        """The attributes of a node in the model's own order; graphs as they were written."""
        return {
            name: self.inside[value] if isinstance(value, Graph) else value
            for name, value in node.attrs.items()
        }

    def emit(self, node: Node) -> None:
        """Append one written op."""
        edit.append(self.target, node)

    def tensor(self, name: str, like: Value, form: Form) -> Value:
        """Make a tensor that will hold `like` in a form."""
        kind = TensorType(dtype=like.dtype, shape=shape_of(self.atoms, like, form))
        made = Value(self.target.fresh(name), kind)
        made.quant = like.quant
        return made

    def stored(self, value: Value, order: Order) -> Stored:
        """Return the value in an order, converting it where it is stored otherwise."""
        own = self.values[value]
        if own.order == order:
            return own
        if (value, order) not in self.converted:
            form = natural(self.atoms, value, order)
            self.converted[value, order] = self.convert(value, own, form)
        return self.converted[value, order]

    def get(self, value: Value, form: Form) -> Value:
        """Return a tensor that holds `value` in a form: as it is, reshaped, or converted."""
        if value.const is not None:
            return self.constant(value, form)
        order = flat(form)
        own = self.values[value]
        if own.order != order:
            if (value, order) not in self.converted:
                self.converted[value, order] = self.convert(value, own, form)
            own = self.converted[value, order]
        return self.reshaped(value, own, form)

    def reshaped(self, value: Value, own: Stored, form: Form) -> Value:
        """Return the tensor of a form; a RESHAPE from the original makes it."""
        if form not in own.forms:
            shape = shape_of(self.atoms, value, form)
            alike = next((t for t in own.forms.values() if t.shape == shape), None)
            if alike is None:
                alike = self.tensor(f"{value.name}/reshape", value, form)
                sizes = np.array(shape, np.int32)
                self.emit(
                    Node(
                        Op(dialect="tflite", name="RESHAPE"),
                        [own.first[1], self.sizes(sizes)],
                        [alike],
                        {"newShape": sizes},
                        name=value.producer.name if value.producer else value.name,
                        origins=self.origins(value),
                    )
                )
            own.forms[form] = alike
        return own.forms[form]

    def sizes(self, array: np.ndarray) -> Value:
        """Make an int32 operand."""
        return edit.constant(self.target, array, "shape")

    def convert(self, value: Value, own: Stored, form: Form) -> Stored:
        """Move a value into another order by one TRANSPOSE."""
        order = flat(form)
        source = next((f for f in own.forms if matching_perm(f, form) is not None), None)
        if source is not None:
            perm, target = matching_perm(source, form), form
        else:
            source, places = common_runs(own.order, order)
            perm, target = places, tuple(source[k] for k in places)
        made = self.tensor(f"{value.name}/transpose", value, target)
        node = Node(
            Op(dialect="tflite", name="TRANSPOSE"),
            [self.reshaped(value, own, source), self.sizes(np.array(perm, np.int32))],
            [made],
            {},
            name=value.producer.name if value.producer else value.name,
            origins=self.origins(value),
        )
        self.emit(node)
        self.moves.append(
            Moved(value=value, given=own.order, wanted=order, node=node, demanded_by=self.user)
        )
        return Stored(order=order, forms={target: made})

    def constant(self, value: Value, form: Form) -> Value:
        """Rearrange a constant; each form is made once."""
        if (value, form) not in self.constants:
            if value.const is None:
                raise ValueError(f"{value} is no constant")
            array = rearranged(self.atoms, value, value.const, form)
            made = edit.constant(self.target, array, value.name)
            made.quant = value.quant
            self.constants[value, form] = made
        return self.constants[value, form]

    def arranged(
        self,
        value: Value,
        key: tuple[object, ...],
        arrange: Callable[[np.ndarray], np.ndarray],
    ) -> Value:
        """Rearrange weights by a recipe of their own; `key` names it, and each is made once."""
        if (value, key) not in self.arrangements:
            if value.const is None:
                raise ValueError(f"{value} is no constant")
            made = edit.constant(self.target, arrange(value.const), value.name)
            made.quant = moved(value.quant, value.shape, arrange)
            self.arrangements[value, key] = made
        return self.arrangements[value, key]


def rearranged(atoms: Atoms, value: Value, array: np.ndarray, form: Form) -> np.ndarray:
    """Store an array of the model's dimension order in a form; a view where nothing moves."""
    own = atoms.order(value)
    order = flat(form)
    if set(order) != set(own):
        raise ValueError(f"{form} does not store {value}")
    split = array.reshape([atoms.size(value, atom) for atom in own])
    moved = split.transpose([own.index(atom) for atom in order])
    return moved.reshape(shape_of(atoms, value, form))


def restored(
    atoms: Atoms, value: Value, array: np.ndarray, form: Form, shape: Sequence[int]
) -> np.ndarray | None:
    """Bring an array stored in a form back to the model's dimension order, and to its `shape`.

    A dimension of one atom may have another size than was assumed. Where one of several atoms has, only what
    is stored in the model's order can be told: None for the rest.
    """
    own, order = atoms.order(value), flat(form)
    sizes = {atom: atoms.size(value, atom) for atom in order}
    for dim, size in zip(form, array.shape, strict=True):
        if len(dim) == 1:
            sizes[dim[0]] = size
    if math.prod(sizes.values()) != array.size:
        told = own == order and math.prod(shape) == array.size
        return array.reshape(shape) if told else None
    split = array.reshape([sizes[atom] for atom in order])
    dims = [math.prod(sizes[atom] for atom in atoms.of(value, k)) for k in range(value.rank)]
    return split.transpose([order.index(atom) for atom in own]).reshape(dims)


def elements(value: Value) -> int:
    """Number of elements."""
    return math.prod(value.shape)
