"""RNN, GRU and LSTM: every direction, activation and initial state, and sequences of unlike lengths.

TFLite's own sequence kernels are not used: their states are variable tensors, which keep what the run
before left in them, and UNIDIRECTIONAL_SEQUENCE_LSTM takes twice the time (57 µs for 8 steps of 128
cells, 491 µs for 16 of 256; see `recurrent_sequence` for the other forms).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Node, Value
from straightway.lower import recurrent_sequence
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, run
from straightway.lower.recurrent_lengths import finished, known_lengths
from straightway.lower.recurrent_plan import (
    Half,
    Operands,
    Options,
    Plan,
    check_shapes,
    half,
    piece,
    plan_gru,
    plan_lstm,
    plan_rnn,
)
from straightway.lower.recurrent_sequence import MOST_STEPS, Course, Task
from straightway.lower.selection import join

Planner = Callable[[Builder, Value, Half, int], Plan]


def compute(
    g: Builder, given: Operands, options: Options, planner: Planner, node: Node
) -> list[Value | None]:
    """Run each direction; Y is None where nobody reads it."""
    check_shapes(given, options)
    if options.layout:
        given = replace(
            given,
            x=g.transpose(given.x, (1, 0, 2)),
            states=tuple(s and g.transpose(s, (1, 0, 2)) for s in given.states),
        )
    lengths = known_lengths(given.lengths, given.x.shape[0])
    kept = len(given.states) if lengths else int(bool(node.outputs[0].uses))
    courses = []
    for index, backwards in enumerate(options.directions):
        turned = lengths if backwards else None
        x = turned.reversed(g, given.x) if turned else given.x
        plan = planner(g, x, half(g, given, index), index)
        task = Task(
            projected=plan.projected,
            states=initial(g, given, index),
            kept=kept,
            backwards=backwards and turned is None,
            is_open=options.layout in g.open_dims,
        )
        g.note(recurrent_sequence.form(task, plan.cell))
        course = recurrent_sequence.run(g, plan.cell, task)
        courses.append(finished(g, course, lengths, turned) if lengths else course)
    results = gathered(g, courses, options, kept)[: len(node.outputs)]
    for declared, found in zip(node.outputs, results, strict=False):
        if declared.uses and found is not None and found.type != declared.type:
            raise InvalidModel(
                f"a result is {found.type}; '{declared.name}' is declared {declared.type}"
            )
    return results


def initial(g: Builder, given: Operands, direction: int) -> tuple[Value, ...]:
    """The states before the first step."""
    shape = (given.x.shape[1], given.r.shape[2])
    return tuple(
        g.const(np.zeros(shape), given.x.dtype) if state is None else piece(g, state, direction)
        for state in given.states
    )


def gathered(
    g: Builder, courses: Sequence[Course], options: Options, kept: int
) -> list[Value | None]:
    """Put the directions together, in the layout that is asked for."""
    y = None
    if kept:
        all_of_h = [course.history[0] for course in courses]
        parts = [g.reshape(h, (h.shape[0], 1, *h.shape[1:])) for h in all_of_h]
        y = join(g, parts, 1)
        y = g.transpose(y, (2, 0, 1, 3)) if options.layout else y
    states = []
    for same in zip(*(course.last for course in courses), strict=True):
        state = join(g, [g.reshape(s, (1, *s.shape)) for s in same], 0)
        states.append(g.transpose(state, (1, 0, 2)) if options.layout else state)
    return [y, *states]


def floats(*shape: int) -> np.ndarray:
    """Make weights of a sample."""
    size = int(np.prod(shape))
    return np.sin(np.arange(1, size + 1, dtype=np.float32) * 1.7).reshape(shape) * np.float32(0.8)


STEPS, BATCH, INPUTS, CELLS = 4, 3, 5, 6


def weights(gates: int, directions: int = 1) -> dict[str, Any]:
    """Constant weights and biases of a sample."""
    return {
        "w": floats(directions, gates * CELLS, INPUTS),
        "r": floats(directions, gates * CELLS, CELLS),
        "b": floats(directions, 2 * gates * CELLS),
        "hidden_size": CELLS,
    }


def at_run_time(gates: int) -> dict[str, Any]:
    """The same, given with the input."""
    return {k: run(v) if isinstance(v, np.ndarray) else v for k, v in weights(gates).items()}


X = (STEPS, BATCH, INPUTS)
BOTH: dict[str, Any] = {"direction": "bidirectional"}
BACK: dict[str, Any] = {"direction": "reverse"}
LENGTHS = np.array([4, 0, 2], np.int32)
STATE = floats(1, BATCH, CELLS)
PEEPHOLES = floats(1, 3 * CELLS)
# longer than what is written out, and no multiple of the steps that a turn takes
LONG = (MOST_STEPS * 2 + 1, 2, INPUTS)


@lower(
    "RNN",
    samples=[
        case(x=X, **weights(1), outputs=2),
        case(x=X, **weights(1, 2), **BOTH, initial_h=(2, BATCH, CELLS), outputs=2),
        case(x=X, **{**weights(1), "b": None}, initial_h=STATE, clip=0.5),
        case(x=X, **at_run_time(1), **BACK, sequence_lens=run(LENGTHS, np.int32), outputs=2),
        case(x=LONG, **weights(1), **BACK, outputs=2),
        *(
            case(x=X, **weights(1), activations=[name], activation_alpha=[0.3], opset=14)
            for name in ("LeakyRelu", "Elu", "ThresholdedRelu")
        ),
        *(
            case(
                x=X,
                **weights(1),
                activations=[name],
                activation_alpha=[0.3],
                activation_beta=[0.6],
            )
            for name in ("HardSigmoid", "ScaledTanh", "Affine")
        ),
        *(case(x=X, **weights(1), activations=[n]) for n in ("Relu", "Softsign", "Softplus")),
    ],
)
def rnn(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    /,
    *,
    options: Options,
    node: Node,
) -> list[Value | None]:
    """See `compute`."""
    given = Operands(gates=1, x=x, w=w, r=r, b=b, lengths=sequence_lens, states=(initial_h,))
    functions = options.functions(["Tanh"])

    def planner(g: Builder, x: Value, weights: Half, direction: int) -> Plan:
        return plan_rnn(g, x, weights, functions[direction])

    return compute(g, given, options, planner, node)


@lower(
    "GRU",
    samples=[
        case(x=X, **weights(3), outputs=2),
        case(x=X, **weights(3), linear_before_reset=1, outputs=2),
        case(x=X, **weights(3, 2), **BOTH, linear_before_reset=1, initial_h=(2, BATCH, CELLS)),
        case(x=X, **{**weights(3), "b": None}, **BACK, initial_h=STATE, linear_before_reset=1),
        case(x=X, **weights(3), initial_h=(1, BATCH, CELLS), clip=0.5, outputs=2),
        case(x=X, **weights(3), sequence_lens=LENGTHS, linear_before_reset=1, outputs=2),
        case(x=X, **weights(3, 2), **BOTH, sequence_lens=run(LENGTHS, np.int32), outputs=2),
        case(x=X, **at_run_time(3), linear_before_reset=1, outputs=2),
        case(x=LONG, **weights(3, 2), **BOTH, linear_before_reset=1, outputs=2),
        case(x=LONG, **at_run_time(3), linear_before_reset=1),
        case(x=X, **weights(3), layout=1, outputs=2),
        case(
            x=X,
            **weights(3),
            activations=["HardSigmoid", "ScaledTanh"],
            activation_alpha=[0.3, 0.9],
            activation_beta=[0.4, 0.8],
        ),
    ],
)
def gru(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    /,
    *,
    options: Options,
    linear_before_reset: int = 0,
    node: Node,
) -> list[Value | None]:
    """See `compute`."""
    given = Operands(gates=3, x=x, w=w, r=r, b=b, lengths=sequence_lens, states=(initial_h,))
    functions = options.functions(["Sigmoid", "Tanh"])

    def planner(g: Builder, x: Value, weights: Half, direction: int) -> Plan:
        return plan_gru(g, x, weights, functions[direction], reset_last=bool(linear_before_reset))

    return compute(g, given, options, planner, node)


@lower(
    "LSTM",
    samples=[
        case(x=X, **weights(4), outputs=3),
        case(x=X, **weights(4, 2), **BOTH, initial_h=(2, BATCH, CELLS), outputs=3),
        case(x=X, **weights(4), initial_h=STATE, initial_c=(1, BATCH, CELLS), p=PEEPHOLES),
        case(x=X, **weights(4), **BACK, p=PEEPHOLES, clip=0.5, outputs=3),
        case(x=X, **weights(4), initial_c=STATE, input_forget=1, p=PEEPHOLES, outputs=3),
        case(x=X, **weights(4), **BACK, sequence_lens=run(LENGTHS, np.int32), outputs=3),
        case(x=X, **weights(4), sequence_lens=LENGTHS, outputs=3),
        case(x=X, **at_run_time(4), p=run(PEEPHOLES), outputs=3),
        case(x=LONG, **weights(4), outputs=3),
        case(x=LONG, **at_run_time(4), p=run(PEEPHOLES), **BACK),
        case(x=X, **weights(4), layout=1),
        case(
            x=X,
            **weights(4),
            activations=["Sigmoid", "Elu", "LeakyRelu"],
            activation_alpha=[0.3, 0.2],
            outputs=3,
        ),
    ],
)
def lstm(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    x: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    sequence_lens: Value | None = None,
    initial_h: Value | None = None,
    initial_c: Value | None = None,
    p: Value | None = None,
    /,
    *,
    options: Options,
    input_forget: int = 0,
    node: Node,
) -> list[Value | None]:
    """See `compute`."""
    given = Operands(
        gates=4,
        x=x,
        w=w,
        r=r,
        b=b,
        lengths=sequence_lens,
        states=(initial_h, initial_c),
        peephole=p,
    )
    functions = options.functions(["Sigmoid", "Tanh", "Tanh"])

    def planner(g: Builder, x: Value, weights: Half, direction: int) -> Plan:
        peephole = p and piece(g, p, direction)
        return plan_lstm(g, x, weights, functions[direction], peephole, coupled=bool(input_forget))

    return compute(g, given, options, planner, node)
