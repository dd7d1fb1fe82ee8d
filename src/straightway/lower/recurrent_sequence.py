"""Many steps of a cell, one after the other: written out, or as turns of a WHILE.

Measured on LiteRT 2.3 (one thread, XNNPACK; an LSTM of H cells, microseconds a run):

    steps    H   weights   written out   WHILE: a step a turn   some a turn   turns inside turns
        8   32    16 KiB             4                     11
        8  128   256 KiB            32                     31
       16  256     1 MiB           217                    212
       32  128   256 KiB           123                    109
       32  256     1 MiB           739                    416
     1024   64    64 KiB         4,236                  5,877      32: 1,605
     1024  256     1 MiB        34,180                 52,299      16: 17,980               15,200

A WHILE costs 4 µs and 0.5 µs a turn, and each turn copies all results so far. Each step that is written
out has a copy of the weights of its own, since XNNPACK packs them anew for each op: in whole models,
where other weights want the cache too, more than 2 MiB of copies cost more than a WHILE does.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.control_graphs import INT32, counted
from straightway.lower.recurrent_cell import Cell, States
from straightway.lower.selection import MOST_JOINED, join, part

MOST_STEPS = 32
MOST_COPIES_BYTES = 2**21
TURNS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The states after the last step, and the first few of them after each: [steps, batch, H]."""

    last: States
    history: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a cell goes through: `projected` inputs [steps, batch, …], and the states before.

    `kept` states are remembered step by step; `backwards` begins with the last step. `is_open`: the
    number of steps is another in other runs.
    """

    projected: tuple[Value, ...]
    states: States
    kept: int
    backwards: bool = False
    is_open: bool = False

    @property
    def steps(self) -> int:
        """How many there are."""
        return self.projected[0].shape[0]

    def part(self, g: Builder, begin: int, size: int, states: States) -> "Task":
        """Some of the steps."""
        return replace(
            self,
            projected=tuple(part(g, p, 0, begin, size) for p in self.projected),
            states=states,
        )


def steps_a_turn(steps: int, weight_bytes: int) -> int:
    """How many steps one turn of a WHILE takes; all, where they are written out."""
    if steps <= MOST_STEPS:
        return steps if steps * weight_bytes <= MOST_COPIES_BYTES else 1
    return math.ceil(steps / TURNS)


def form(task: Task, cell: Cell) -> str:
    """Say how the steps will be taken."""
    if task.is_open:
        return "steps run in a WHILE, one a turn: their number is open"
    size = steps_a_turn(task.steps, cell.weight_bytes)
    if size == task.steps:
        return f"{task.steps} steps are written out"
    return f"{task.steps} steps run in a WHILE, {size} a turn"


def run(g: Builder, cell: Cell, task: Task) -> Course:
    """Take all steps."""
    if task.is_open:
        return _in_turns(g, cell, task, 1)
    size = steps_a_turn(task.steps, cell.weight_bytes)
    if size == task.steps:
        return _written_out(g, cell, task)
    whole = task.steps // size * size
    if whole == task.steps:
        return _in_turns(g, cell, task, size)
    return _in_parts(g, cell, task, whole)


def _in_parts(g: Builder, cell: Cell, task: Task, cut: int) -> Course:
    """First the steps before a cut, then those behind it, or the other way round."""
    bounds = [(0, cut), (cut, task.steps - cut)]
    states = task.states
    courses = []
    for begin, size in bounds[::-1] if task.backwards else bounds:
        courses.append(run(g, cell, task.part(g, begin, size, states)))
        states = courses[-1].last
    ordered = courses[::-1] if task.backwards else courses
    history = tuple(join(g, [course.history[k] for course in ordered], 0) for k in range(task.kept))
    return Course(last=states, history=history)


def _written_out(g: Builder, cell: Cell, task: Task) -> Course:
    """One step after the other."""
    states = task.states
    history: list[States] = []
    times = range(task.steps)
    for time in reversed(times) if task.backwards else times:
        now = [g.reshape(part(g, p, 0, time, 1), p.shape[1:]) for p in task.projected]
        states = cell.step(g, now, states)
        history.append(states[: task.kept])
    if task.backwards:
        history.reverse()
    stacked = tuple(_stacked(g, [after[k] for after in history]) for k in range(task.kept))
    return Course(last=states, history=stacked)


def _stacked(g: Builder, values: list[Value]) -> Value:
    """Put results behind each other, in groups that XNNPACK's delegate joins."""
    parts = [g.reshape(value, (1, *value.shape)) for value in values]
    while len(parts) > 1:
        groups = [parts[k : k + MOST_JOINED] for k in range(0, len(parts), MOST_JOINED)]
        parts = [join(g, group, 0) for group in groups]
    return parts[0]


def _in_turns(g: Builder, cell: Cell, task: Task, size: int) -> Course:
    """Turns of `size` steps each."""
    turns = task.steps // size
    blocks = [g.reshape(p, (turns, size, *p.shape[1:])) for p in task.projected]
    rows = (turns, size, *task.states[0].shape)

    def turn(
        inside: Builder, number: Value, carried: list[Value], kept: list[Value]
    ) -> list[Value]:
        place = inside.SUB(inside.const(turns - 1, INT32), number) if task.backwards else number
        now = Task(
            projected=tuple(inside.GATHER(b, place, axis=0) for b in kept[: len(blocks)]),
            states=tuple(carried[: len(task.states)]),
            kept=task.kept,
            backwards=task.backwards,
        )
        found = run(inside, cell.with_tensors(kept[len(blocks) :]), now)
        begin = inside.CONCATENATION(
            inside.reshape(place, (1,)), inside.const(np.zeros(len(rows) - 1), INT32), axis=0
        )
        written = [
            inside.DYNAMIC_UPDATE_SLICE(buffer, inside.reshape(new, (1, *new.shape)), begin)
            for buffer, new in zip(carried[len(task.states) :], found.history, strict=True)
        ]
        return [*found.last, *written]

    # every row will be written: any tensor of the size will do
    blank = g.reshape(part(g, task.projected[0], 2, 0, rows[-1]), rows)
    results = counted(
        g, turns, [*task.states, *[blank] * task.kept], [*blocks, *cell.tensors()], turn
    )
    last, buffers = results[: len(task.states)], results[len(task.states) :]
    history = tuple(g.reshape(b, (task.steps, *task.states[0].shape)) for b in buffers)
    return Course(last=tuple(last), history=history)
