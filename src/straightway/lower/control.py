"""If becomes IF, Loop and Scan become WHILE: what `control_unroll` could not write out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from straightway.errors import NotYet
from straightway.ir import Graph, Node, TensorType, Value
from straightway.lower.builder import Builder, Inner
from straightway.lower.control_graphs import INT32, counted, inner, repeated, splice
from straightway.lower.control_scan import read
from straightway.lower.declare import case, lower, need, run
from straightway.passes.control import BATCHED_UNTIL

COUNTER = TensorType(dtype=np.dtype(np.int64), shape=())
HOLDS = np.array(True)
TRUTH = "() => (float[2] y) { y = Constant<value = float[2] {1.0, 2.0}>() }"


@lower(
    "If",
    samples=[
        case(
            cond=run(True, bool),
            then_branch=f"then {TRUTH}",
            else_branch=f"else {TRUTH.replace('1.0', '3.0')}",
        ),
        case(
            cond=run([[False]], bool),
            then_branch="then () => (float[1,1] y, float[1,1] z) "
            "{ y = Cast<to = 1>(cond) z = Neg(y) }",
            else_branch="else () => (float[1,1] y, float[1,1] z) "
            "{ n = Not(cond) y = Cast<to = 1>(n) z = Exp(y) }",
            outputs=2,
        ),
    ],
    refuses=[
        case(
            cond=run(True, bool),
            then_branch=f"then {TRUTH}",
            else_branch="else () => (float[1] y) { y = Constant<value = float[1] {1.0}>() }",
        ),
    ],
)
def if_(g: Builder, cond: Value, /, *, then_branch: Any, else_branch: Any) -> list[Value]:
    """Both branches are given all that one of them reads."""
    first, second = (g.inside(branch, []) for branch in (then_branch, else_branch))
    for a, b in zip(first.graph.outputs, second.graph.outputs, strict=True):
        if a.type != b.type:
            raise NotYet(
                f"both branches must give the same; '{a.name}' is {a.type}, '{b.name}' is {b.type}"
            )
    given = list(dict.fromkeys((*first.captured, *second.captured)))
    graphs = [_branch(g, name, given, one) for name, one in (("then", first), ("else", second))]
    results = g.IF(cond, *given, then_branch=graphs[0], else_branch=graphs[1])
    return results if isinstance(results, list) else [results]


def _branch(g: Builder, name: str, given: Sequence[Value], branch: Inner) -> Graph:
    places = [given.index(value) for value in branch.captured]
    return inner(g, name, given, lambda b, inputs: splice(b, branch, [inputs[k] for k in places]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A result that gets a row each turn, along an axis: the `index`th of those; `rows` before."""

    index: int
    rows: Value
    axis: int
    backwards: bool = False

    def written(self, g: Builder, rows: Value, row: Value, place: Value) -> Value:
        """Put one row into its place."""
        shape = list(row.shape)
        shape.insert(self.axis, 1)
        begin = [g.const(np.zeros(1), INT32)] * rows.rank
        begin[self.axis] = g.reshape(g.cast(place, INT32), (1,))
        start = g.CONCATENATION(*begin, axis=0) if rows.rank > 1 else begin[0]
        return g.DYNAMIC_UPDATE_SLICE(rows, g.reshape(row, shape), start)


def blank(g: Builder, kind: TensorType) -> Value:
    """Rows that are to be written. Raises NotYet where nobody says how many."""
    if not kind.is_static:
        raise NotYet(
            f"a result has as many rows as there are turns, which must be known; it is {kind}",
            remedy="let the number of turns be a constant of the model, or declare the result's shape",
        )
    return g.const(np.zeros(kind.dims), kind.dtype)


def collected(
    states: Sequence[Value], rows: Iterable[Row], found: Sequence[Value]
) -> dict[int, Value]:
    """The results by their places: states first, then what was collected, as far as it is wanted."""
    places = [*range(len(states)), *(len(states) + row.index for row in rows)]
    return dict(zip(places, found, strict=True))


def check_carried(before: Sequence[Value], after: Sequence[Value]) -> None:
    """Raise NotYet where a turn changes the type of what the next one takes."""
    for first, second in zip(before, after, strict=False):
        if first.type != second.type:
            maker = f"node '{second.producer.name}'" if second.producer else "the body"
            raise NotYet(
                f"what a turn hands on must keep its type; '{first.name}' is {first.type}, {maker} "
                f"makes it {second.type}",
                remedy="fix the number of turns, so that they can be written out",
            )


@lower(
    "Loop",
    samples=[
        case(
            m=run(3, np.int64),
            v_initial=[(2, 3)],
            body="body (int64 i, bool c, float[2,3] a) => (bool d, float[2,3] b) "
            "{ d = Identity(c) b = Add(a, a) }",
        ),
        case(
            m=run([5], np.int64),
            cond=run(True, bool),
            v_initial=[run(1.0), run([0.0, 0.0])],
            body="body (int64 i, bool c, float a, float[2] z) => "
            "(bool d, float b, float[2] z1, float[2] r) "
            "{ b = Add(a, a) k = Constant<value = float {5.0}>() d = Less(b, k) "
            "f = Cast<to = 1>(i) z1 = Add(z, f) r = Mul(z1, b) }",
            outputs=3,
        ),
        case(
            cond=run(False, bool),
            v_initial=[(2,)],
            body="body (int64 i, bool c, float[2] a) => (bool d, float[2] b) "
            "{ d = Not(c) b = Add(a, a) }",
        ),
    ],
    refuses=[
        case(
            m=run(3, np.int64),
            v_initial=[(2,)],
            body="body (int64 i, bool c, float[n] a) => (bool d, float[m] b) "
            "{ d = Identity(c) b = Concat<axis = 0>(a, a) }",
        ),
        case(
            v_initial=[(2,)],
            body="body (int64 i, bool c, float[2] a) => (bool d, float[2] b) "
            "{ d = Identity(c) b = Add(a, a) }",
        ),
    ],
)
def loop(
    g: Builder,
    trips: Value | None = None,
    condition: Value | None = None,
    /,
    *states: Value,
    body: Any,
    out: list[TensorType],
    node: Node,
) -> list[Value | None]:
    """Turns until they are all done, or until the body says so."""
    inside = g.inside(body, [COUNTER, HOLDS, *(value.known_type for value in states)])
    goes_on, *results = inside.graph.outputs
    size = len(states)
    check_carried(inside.graph.inputs[1 : 1 + size], results)
    if trips is None and goes_on.const is not None and goes_on.const.all():
        raise NotYet("nothing ends the loop: there is no count, and its condition always holds")
    rows = [
        Row(index=k, rows=blank(g, out[size + k]), axis=0)
        for k, value in enumerate(node.outputs[size:])
        if value.uses
    ]
    begins = g.const(HOLDS) if condition is None else g.reshape(condition, ())
    first = [g.const(0, COUNTER.dtype), begins]
    limit = [] if trips is None else [g.reshape(trips, ())]

    def more(b: Builder, now: list[Value], same: list[Value]) -> Value:
        return b.LOGICAL_AND(now[1], b.LESS(now[0], same[0])) if limit else now[1]

    def turn(b: Builder, now: list[Value], same: list[Value]) -> list[Value]:
        number, _, *before = now
        goes, *after = splice(b, inside, [number, *before[:size], *same[len(limit) :]])
        new = [
            row.written(b, old, after[size + row.index], number)
            for row, old in zip(rows, before[size:], strict=True)
        ]
        return [b.ADD(number, 1), b.reshape(goes, ()), *after[:size], *new]

    carried = [*first, *states, *(row.rows for row in rows)]
    found = repeated(g, carried, [*limit, *inside.captured], more, turn)[len(first) :]
    by_place = collected(states, rows, found)
    return [by_place.get(k) for k in range(len(out))]


@lower(
    "Scan",
    needs=[
        need(
            lambda node: node.op.version > BATCHED_UNTIL,
            "turns over a batch, as Scan had them before opset 9, must be few and known; got "
            "{node.op}",
            possible=True,
        )
    ],
    samples=[
        case(
            initial_state_and_scan_inputs=[(3,), (5, 3)],
            num_scan_inputs=1,
            outputs=2,
            body="body (float[3] s, float[3] x) => (float[3] t, float[3] y) "
            "{ t = Add(s, x) y = Mul(t, x) }",
        ),
        case(
            initial_state_and_scan_inputs=[(2,), (2, 5), (5, 2, 3)],
            num_scan_inputs=2,
            scan_input_axes=[-1, 0],
            scan_input_directions=[1, 0],
            scan_output_axes=[0, -1],
            scan_output_directions=[0, 1],
            outputs=3,
            body="body (float[2] s, float[2] x, float[2,3] z) => "
            "(float[2] t, float[2] y, float[2,3] w) { t = Add(s, x) y = Mul(t, x) w = Neg(z) }",
        ),
    ],
    refuses=[
        case(
            initial_state_and_scan_inputs=[(1, 3), (1, 5, 3)],
            num_scan_inputs=1,
            opset=8,
            outputs=2,
            body="body (float[3] s, float[3] x) => (float[3] t, float[3] y) "
            "{ t = Add(s, x) y = Mul(t, x) }",
        ),
    ],
)
def scan(
    g: Builder,
    *given: Value,
    body: Any,
    num_scan_inputs: int,
    scan_input_axes: Any = None,
    scan_output_axes: Any = None,
    scan_input_directions: Any = None,
    scan_output_directions: Any = None,
    directions: Any = None,
    out: list[TensorType],
    node: Node,
) -> list[Value | None]:
    """A turn for each position along the axes that are scanned."""
    scanning = read(node)
    size = scanning.states
    states, scanned = given[:size], given[size:]
    axes = [axis % x.rank for axis, x in zip(scanning.axes, scanned, strict=True)]
    count = scanned[0].shape[axes[0]]
    elements = [_element(x, axis) for x, axis in zip(scanned, axes, strict=True)]
    inside = g.inside(body, [*(value.known_type for value in states), *elements])
    check_carried(inside.graph.inputs[:size], inside.graph.outputs)
    rows = [
        Row(
            index=k,
            rows=blank(g, out[size + k]),
            axis=scanning.result_axes[k] % out[size + k].rank,
            backwards=scanning.result_backwards[k],
        )
        for k, value in enumerate(node.outputs[size:])
        if value.uses
    ]

    def turn(b: Builder, number: Value, now: list[Value], same: list[Value]) -> list[Value]:
        places = (number, b.SUB(b.const(count - 1, INT32), number))
        taken = [
            b.GATHER(x, places[backwards], axis=axis)
            for x, axis, backwards in zip(same, axes, scanning.backwards, strict=False)
        ]
        after = splice(b, inside, [*now[:size], *taken, *same[len(scanned) :]])
        new = [
            row.written(b, old, after[size + row.index], places[row.backwards])
            for row, old in zip(rows, now[size:], strict=True)
        ]
        return [*after[:size], *new]

    carried = [*states, *(row.rows for row in rows)]
    found = counted(g, count, carried, [*scanned, *inside.captured], turn)
    by_place = collected(states, rows, found)
    return [by_place.get(k) for k in range(len(out))]


def _element(x: Value, axis: int) -> TensorType:
    """One position along an axis, which vanishes."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return TensorType(dtype=x.dtype, shape=shape)
