"""The operands and attributes of a recurrent operator, taken apart direction by direction."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Value
from straightway.lower.activation import LARGEST
from straightway.lower.builder import Builder
from straightway.lower.recurrent_activation import Activation, read
from straightway.lower.recurrent_cell import (
    Cell,
    CoupledLstmCell,
    GruCell,
    GruCellResettingFirst,
    LstmCell,
    RnnCell,
    affine,
)
from straightway.lower.selection import part


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the three operators have in common; `layout` 1 puts the batch before the time."""

    activations: tuple[str, ...] = ()
    activation_alpha: tuple[float, ...] = ()
    activation_beta: tuple[float, ...] = ()
    clip: float | None = None
    direction: str = "forward"
    hidden_size: int = 0
    layout: int = 0
    output_sequence: int = 0

    @property
    def directions(self) -> tuple[bool, ...]:
        """For each direction whether it goes backwards."""
        found = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        if self.direction not in found:
            raise InvalidModel(f"ONNX has no direction '{self.direction}'")
        return found[self.direction]

    def functions(self, usual: Sequence[str]) -> list[tuple[Activation, ...]]:
        """The activations of each direction."""
        count = len(usual) * len(self.directions)
        # the default of RNN is for two directions
        names = (self.activations or (*usual,) * len(self.directions))[:count]
        if len(names) < count:
            raise InvalidModel(
                f"there are {len(usual)} activations a direction; got {list(self.activations)}"
            )
        if self.clip is not None and self.clip < 0:
            raise InvalidModel(f"clip bounds on both sides of zero; got {self.clip}")
        found = read(names, self.activation_alpha, self.activation_beta, self.clip)
        return [tuple(found[k : k + len(usual)]) for k in range(0, len(found), len(usual))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """The operands of an operator of so many gates, `states` before the first step among them."""

    x: Value
    w: Value
    r: Value
    b: Value | None
    lengths: Value | None
    states: tuple[Value | None, ...]
    gates: int
    peephole: Value | None = None


def check_shapes(given: Operands, options: Options) -> None:
    """Raise InvalidModel where operands do not fit each other."""
    if given.x.rank != 3 or given.r.rank != 3:
        raise InvalidModel(f"X and R have three dimensions; got {given.x.type} and {given.r.type}")
    steps, batch, features = given.x.shape
    directions, gates, cells = len(options.directions), given.gates, given.r.shape[2]
    states = (directions, batch, cells)
    if options.layout:
        steps, batch = batch, steps
        states = (batch, directions, cells)
    wanted = {
        "W": (given.w, (directions, gates * cells, features)),
        "R": (given.r, (directions, gates * cells, cells)),
        "B": (given.b, (directions, 2 * gates * cells)),
        "P": (given.peephole, (directions, 3 * cells)),
        "sequence_lens": (given.lengths, (batch,)),
        **{f"initial state {k}": (value, states) for k, value in enumerate(given.states)},
    }
    for name, (value, shape) in wanted.items():
        if value is not None and value.shape != shape:
            raise InvalidModel(
                f"{name} has shape {list(shape)} where X is {given.x.type}; got {value.type}"
            )
        known = None if value is None else value.const
        if known is not None and not (np.abs(known) <= LARGEST).all():
            raise NotYet(f"numbers of {name} lie within ±2^80; it holds larger ones, or NaN")
    if not steps or not batch:
        raise NotYet(f"a sequence has a step at least; got {given.x.type}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Half:
    """The weights of one direction: W [G·H, I], R [G·H, H], and both biases [G·H]."""

    w: Value
    r: Value
    wb: Value | None
    rb: Value | None

    @property
    def size(self) -> int:
        """H, the number of cells."""
        return self.r.shape[1]

    def bias(self, g: Builder) -> Value | None:
        """Both biases together."""
        return None if self.wb is None or self.rb is None else g.ADD(self.wb, self.rb)


def piece(g: Builder, x: Value, direction: int) -> Value:
    """What belongs to one direction; the first dimension vanishes."""
    if x.const is not None:
        return g.rearranged(x, ("direction", direction), lambda array: array[direction])
    return g.reshape(part(g, x, 0, direction, 1), x.shape[1:])


def rows(g: Builder, x: Value, begin: int, count: int) -> Value:
    """Some rows of weights or biases."""
    if x.const is not None:
        return g.rearranged(x, ("rows", begin, count), lambda array: array[begin : begin + count])
    return part(g, x, 0, begin, count)


def half(g: Builder, given: Operands, direction: int) -> Half:
    """The weights of one direction."""
    b = None if given.b is None else piece(g, given.b, direction)
    count = given.r.shape[1]
    return Half(
        w=piece(g, given.w, direction),
        r=piece(g, given.r, direction),
        wb=b and rows(g, b, 0, count),
        rb=b and rows(g, b, count, count),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one direction is computed: its cell, and what it gets of the input."""

    cell: Cell
    projected: tuple[Value, ...]


def plan_rnn(g: Builder, x: Value, weights: Half, functions: tuple[Activation, ...]) -> Plan:
    """One product for all steps, one a step."""
    cell = RnnCell(recurrent=(weights.r,), activations=functions)
    return Plan(cell=cell, projected=(affine(g, x, weights.w, weights.bias(g)),))


def plan_gru(
    g: Builder,
    x: Value,
    weights: Half,
    functions: tuple[Activation, ...],
    *,
    reset_last: bool,
) -> Plan:
    """Two products, for the gates and for the candidate: those with the state come one by one."""
    size = weights.size
    bounds = [(0, 2 * size), (2 * size, size)]
    wb, rb, both = (
        [v and rows(g, v, *bound) for bound in bounds]
        for v in (weights.wb, weights.rb, weights.bias(g))
    )
    biases = [both[0], wb[1] if reset_last else both[1]]
    cell = (GruCell if reset_last else GruCellResettingFirst)(
        recurrent=tuple(rows(g, weights.r, *bound) for bound in bounds),
        activations=functions,
        bias=rb[1] if reset_last else None,
    )
    projected = [
        affine(g, x, rows(g, weights.w, *bound), bias)
        for bound, bias in zip(bounds, biases, strict=True)
    ]
    return Plan(cell=cell, projected=tuple(projected))


def plan_lstm(
    g: Builder,
    x: Value,
    weights: Half,
    functions: tuple[Activation, ...],
    peephole: Value | None,
    *,
    coupled: bool,
) -> Plan:
    """One product for all gates and steps, one for all gates a step.

    The cell is not clipped before the last activation: so onnxruntime reads the specification.
    """
    size = weights.size
    *gate_functions, output = functions
    gates = [] if peephole is None else [rows(g, peephole, k * size, size) for k in range(3)]
    cell = (CoupledLstmCell if coupled else LstmCell)(
        recurrent=(weights.r,),
        activations=(*gate_functions, replace(output, clip=None)),
        peephole=tuple(gates),
    )
    return Plan(cell=cell, projected=(affine(g, x, weights.w, weights.bias(g)),))
