"""One step of RNN, GRU and LSTM, as one direction of the operator does it.

All that a step needs of the input is a product with the input weights and a bias, which is computed
for all steps at once: a step gets its part of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.matrix import linear, product
from straightway.lower.recurrent_activation import Activation

States = tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(ABC):
    """What a step needs beside its part of the projected input.

    `recurrent`: weights [k·H, H], one for each product with the hidden state; `bias`: [H], added to
    the last of these products where that can't be done before; `peephole`: [H] for the input, output
    and forget gate, or nothing.
    """

    recurrent: tuple[Value, ...]
    activations: tuple[Activation, ...]
    bias: Value | None = None
    peephole: tuple[Value, ...] = ()

    @abstractmethod
    def step(self, g: Builder, projected: Sequence[Value], states: States) -> States:
        """Compute the states, [batch, H] each, after a step."""

    @property
    def weight_bytes(self) -> int:
        """What a copy of the recurrent weights takes."""
        return sum(w.known_type.size_bytes for w in self.recurrent)

    def tensors(self) -> list[Value]:
        """What comes at run time."""
        own = (*self.recurrent, *([self.bias] if self.bias else []), *self.peephole)
        return [value for value in own if value.const is None]

    def with_tensors(self, values: Sequence[Value]) -> "Cell":
        """The same with other tensors for those that come at run time."""
        new = dict(zip(self.tensors(), values, strict=True))
        return replace(
            self,
            recurrent=tuple(new.get(v, v) for v in self.recurrent),
            bias=self.bias and new.get(self.bias, self.bias),
            peephole=tuple(new.get(v, v) for v in self.peephole),
        )


class RnnCell(Cell):
    """H = f(x + R·h)."""

    __slots__ = ()

    def step(self, g: Builder, projected: Sequence[Value], states: States) -> States:
        """See Cell."""
        total = plus(g, projected[0], hidden(g, states[0], self.recurrent[0], self.bias))
        return (self.activations[0](g, total),)


class GruCell(Cell):
    """Update gate z, reset gate r: H = n + z·(h − n), with n = g(x + r·(R·h)) or g(x + R·(r·h)).

    The first form is `linear_before_reset`; there the bias stands inside the parentheses.
    """

    __slots__ = ()
    reset_last = True

    def step(self, g: Builder, projected: Sequence[Value], states: States) -> States:
        """See Cell; `projected` are the gates' part and that of n."""
        (h,) = states
        gates, candidate = self.activations
        both = plus(g, projected[0], hidden(g, h, self.recurrent[0], None))
        z, r = g.SPLIT(gates(g, both), axis=1, num_splits=2)
        n = candidate(g, plus(g, projected[1], self.remembered(g, r, h)))
        if is_zero(h):
            return (g.SUB(n, g.MUL(z, n)),)
        return (g.ADD(n, g.MUL(z, g.SUB(h, n))),)

    def remembered(self, g: Builder, r: Value, h: Value) -> Value | None:
        """What the reset gate leaves of the state."""
        if not self.reset_last:
            kept = h if is_zero(h) else g.MUL(r, h)
            return hidden(g, kept, self.recurrent[1], None)
        found = hidden(g, h, self.recurrent[1], self.bias)
        return None if found is None else g.MUL(r, found)


class GruCellResettingFirst(GruCell):
    """The second form: the reset gate comes before the product."""

    __slots__ = ()
    reset_last = False


class LstmCell(Cell):
    """Gates i, o, f and the candidate: C = f·c + i·g(x), H = o·h(C)."""

    __slots__ = ()
    coupled = False

    def step(self, g: Builder, projected: Sequence[Value], states: States) -> States:
        """See Cell."""
        h, c = states
        gate, candidate, output = self.activations
        total = plus(g, projected[0], hidden(g, h, self.recurrent[0], None))
        i, o, f, new = g.SPLIT(total, axis=1, num_splits=4)
        i = gate(g, self.peep(g, i, 0, c))
        added = g.MUL(i, candidate(g, new))
        after = added
        if not is_zero(c):
            f = g.SUB(g.const(1, i.dtype), i) if self.coupled else gate(g, self.peep(g, f, 2, c))
            after = g.ADD(g.MUL(f, c), added)
        o = gate(g, self.peep(g, o, 1, after))
        return g.MUL(o, output(g, after)), after

    def peep(self, g: Builder, x: Value, gate: int, c: Value) -> Value:
        """Let a gate see the cell."""
        if not self.peephole or is_zero(c):
            return x
        return g.ADD(x, g.MUL(c, self.peephole[gate]))


class CoupledLstmCell(LstmCell):
    """An LSTM that forgets as much as it takes in: f = 1 − i (`input_forget`)."""

    __slots__ = ()
    coupled = True


def affine(g: Builder, x: Value, weights: Value, bias: Value | None) -> Value:
    """Multiply the last dimension of `x` with weights [M, K], known or not, and add a bias [M]."""
    if weights.const is None:
        return plus(g, product(g, x, g.transpose(weights, (1, 0))), bias)
    if x.const is not None:
        with np.errstate(all="ignore"):  # what is not finite is refused where it matters
            known = np.matmul(x.const, weights.const.T)
        return plus(g, g.const(known), bias)
    if bias is not None and bias.const is not None:
        return linear(g, x, weights, x.rank - 1, bias)
    return plus(g, linear(g, x, weights, x.rank - 1), bias)


def hidden(g: Builder, h: Value, weights: Value, bias: Value | None) -> Value | None:
    """A product with the state; None where nothing comes of it."""
    return bias if is_zero(h) else affine(g, h, weights, bias)


def plus(g: Builder, x: Value, y: Value | None) -> Value:
    """Add what is there."""
    return x if y is None else g.ADD(x, y)


def is_zero(x: Value) -> bool:
    """Whether it is a constant without anything in it."""
    return x.const is not None and not x.const.any()
