"""Sequences of unlike lengths in one batch."""

from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.control_graphs import INT32
from straightway.lower.recurrent_sequence import Course
from straightway.lower.selection import join, take


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How many steps each sequence of the batch has, known or not."""

    value: Value

    def steps(self, g: Builder) -> Value:
        """As int32."""
        return g.cast(self.value, INT32)

    def reversed(self, g: Builder, x: Value) -> Value:
        """Turn each sequence of [steps, batch, …] round, up to its length."""
        return g.REVERSE_SEQUENCE(x, self.steps(g), sequence_axis=0, batch_axis=1)

    def masked(self, g: Builder, x: Value) -> Value:
        """Zero what lies behind the end."""
        times = g.const(np.arange(x.shape[0]).reshape(-1, 1, 1), INT32)
        ends = g.reshape(self.steps(g), (1, x.shape[1], 1))
        return g.SELECT_V2(g.LESS(times, ends), x, g.const(0, x.dtype))

    def final(self, g: Builder, x: Value) -> Value:
        """The state after the last step of each sequence; zero where it has none, as onnxruntime has it."""
        _, batch, size = x.shape
        before = g.const(np.zeros((1, batch, size)), x.dtype)
        table = g.reshape(join(g, [before, x], 0), ((x.shape[0] + 1) * batch, size))
        places = g.ADD(g.MUL(self.steps(g), batch), g.const(np.arange(batch), INT32))
        if places.const is not None:
            return take(g, table, [int(place) for place in places.const], 0)
        return g.GATHER(table, places, axis=0)


def known_lengths(value: Value | None, steps: int) -> Lengths | None:
    """The lengths, if some sequence may end early."""
    if value is None:
        return None
    if value.const is not None:
        if ((value.const < 0) | (value.const > steps)).any():
            raise InvalidModel(f"sequence_lens lie in [0, {steps}]; got {value.const.tolist()}")
        if (value.const == steps).all():
            return None
    return Lengths(value=value)


def finished(g: Builder, course: Course, lengths: Lengths, turned: Lengths | None) -> Course:
    """End each sequence where it ends: what comes after is no result."""
    last = tuple(lengths.final(g, states) for states in course.history)
    y = turned.reversed(g, course.history[0]) if turned else course.history[0]
    return Course(last=last, history=(lengths.masked(g, y),))
