"""Mixed precision: the ops that compute with floats or int16 so that no more is lost than is allowed.

The error of every rounding is measured alone (`sensitivity`). A factor turns errors into bytes; for each
factor one cut (`quant.placement`) finds the ops that are better off with floats. The least factor is
taken by which the model, with those roundings switched off, loses no more than is allowed; what that
gives is rounded and measured as a whole, and where it should still lose more, the factor is raised.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidRequest
from straightway.flow import files
from straightway.flow.accuracy import Accuracy, with_shares
from straightway.flow.calibration import Sample
from straightway.flow.sensitivity import Advance, Sensitivity, Switchboard, measure
from straightway.flow.tally import decibels
from straightway.ir import Graph, Node
from straightway.onnx_io.write import to_bytes
from straightway.quant.assignment import Assignment
from straightway.quant.placement import Errors, float_price, wide_price
from straightway.quant.rounded_model import Model
from straightway.quant.sensitivity import is_on, switched
from straightway.quant.spelling import opset_for
from straightway.report.quantity import plural
from straightway.run.process import Child

Assign = Callable[[Errors | None], Assignment]
# factors: halves of powers of two, from what moves nothing to where every error outweighs all borders
FINEST = 64
STEPS = 2 * FINEST
LARGEST = 2**60


SAMPLES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The roundings of a model, measured alone, and what runs it with any of them."""

    sensitivity: Sensitivity
    board: Switchboard
    assignment: Assignment

    def loss(self, given: Assignment) -> float:
        """The greatest relative error of an output, its root mean square, with what is left to round."""
        on = np.array([is_on(one, given) for one in self.sensitivity.roundings], np.bool_)
        return float(np.sqrt(self.board.error(on).max(initial=0.0)))


@contextmanager
def measured(
    child: Child,
    model: Model,
    given: Assignment,
    samples: Sequence[Sample],
    advance: Advance,
) -> Iterator[Measured]:
    """Measure each rounding of a model, whose graph gets switches; the board is open inside."""
    made = switched(model)
    with files.scratch("switched.onnx", to_bytes(made.graph, opset_for(given.dtypes), {})) as path:
        board = Switchboard(child=child, path=path, samples=samples, count=len(made.roundings))
        found = measure(board, made.roundings, given, advance)
        yield Measured(sensitivity=found, board=board, assignment=given)


def within(found: Measured, graph: Graph, assign: Assign, allowed: float) -> Iterator[Assignment]:
    """Assignments that should lose no more than `allowed`, those with the least borders first.

    `allowed` is a relative error, its root mean square. Raises InvalidRequest where no output is of
    floats.
    """
    if not found.sensitivity.outputs:
        raise InvalidRequest("--max-loss is of outputs that are floats; the model has none")
    nodes = list(graph.nodes)
    errors = found.sensitivity.errors()
    whole = sum(value.known_type.size for value in graph.values()) / max(float(errors.sum()), 1e-30)

    def at(step: int) -> Assignment:
        factor = whole * 2.0 ** ((step - FINEST) / 2)
        return assign(found.sensitivity.weighed(nodes, factor))

    low, high = 0, STEPS
    # what has no floats comes first whatever was measured: on more samples it may keep to the limit
    first = [found.assignment]
    keeps = found.loss(found.assignment) <= allowed
    if keeps:
        high = 0
    while low < high:
        middle = (low + high) // 2
        if found.loss(at(middle)) <= allowed:
            high = middle
        else:
            low = middle + 1
    if not keeps:
        first += _between(found, nodes, assign, (at(max(low - 1, 0)), at(low)), allowed)
    steps = (at(step) for step in range(low, STEPS + 1))
    last = map(assign, [_all(found.assignment, nodes)])
    seen: set[tuple[frozenset[Node], ...]] = set()
    for plan in itertools.chain(first, steps, last):
        sides = frozenset(plan.floats), frozenset(plan.wide)
        if sides not in seen:
            seen.add(sides)
            yield plan


def _between(
    found: Measured,
    nodes: Sequence[Node],
    assign: Assign,
    ends: tuple[Assignment, Assignment],
    allowed: float,
) -> list[Assignment]:
    """Assignments between one that loses too much and the next that does not, the cheapest first.

    One factor may move a large part of a graph at once. Of the nodes in which the two differ, the first
    or the last in order are taken, as few as keep to the limit.
    """
    less, more = ends
    apart = [
        node
        for node in nodes
        if (node in more.floats and node not in less.floats)
        or (node in more.wide and node not in less.wide)
    ]

    def with_some(some: Sequence[Node]) -> Assignment:
        kept = [node for node in less.floats if node not in found.assignment.floats]
        floats = [*kept, *(node for node in some if node in more.floats)]
        wide = {node for node in some if node in more.wide} | (set(less.wide) - set(floats))
        return assign(Errors(nodes=dict.fromkeys(floats, LARGEST), wide=wide))

    plans = []
    for order in (apart, apart[::-1]):
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if found.loss(with_some(order[:middle])) <= allowed:
                high = middle
            else:
                low = middle + 1
        plans.append(with_some(order[:low]))
    plans = [plan for plan in plans if _price(plan) < _price(more)]
    return sorted(plans, key=_price)


def _price(plan: Assignment) -> int:
    return sum(map(float_price, plan.floats)) + sum(map(wide_price, plan.wide))


def _all(given: Assignment, nodes: Sequence[Node]) -> Errors:
    """Errors that outweigh everything."""
    values, constants = dict.fromkeys(given.schemes, LARGEST), dict.fromkeys(nodes, LARGEST)
    return Errors(values=values, nodes=constants)


def shared(near: Accuracy, found: Sensitivity, given: Assignment) -> Accuracy:
    """Give each node its share of the end error, and say how it was measured."""
    on = np.array([is_on(one, given) for one in found.roundings], np.bool_)
    alone = found.alone[on].sum(axis=0)
    whole = "" if not on.all() else f", all together {_decibels(found.together)}"
    note = (
        "shares: each rounding switched on alone, a node's are those of its constants and results; on "
        f"{plural(found.samples, 'sample')} their errors sum to {_decibels(alone)}{whole}"
    )
    return with_shares(near, found.shares(given), note)


def _decibels(energies: np.ndarray) -> str:
    """Of relative energies, one an output, the mean."""
    return f"{decibels(1.0, float(energies.mean()) if energies.size else 0.0):.1f} dB"
