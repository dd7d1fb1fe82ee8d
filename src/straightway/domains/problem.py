"""The placing of domains: how each node runs, and which values must be converted.

A domain is anything that a value can be stored in: an order of its dimensions, a number type, a
place. Here it is an opaque, hashable label. Each node runs in one of its modes; a mode needs its
operands and gives its results in certain labels. Where a value is demanded in a label that its
producer does not give, it is converted: once for each such label, however many consumers want it.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import TypeAlias

from straightway.errors import Bug

ValueId: TypeAlias = Hashable
Label: TypeAlias = Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One way to run a node: the label of each operand and result, and what it costs extra.

    An operand that `needs` leaves out is taken in any label. `price` has the unit of the weights.
    """

    needs: Mapping[ValueId, Label]
    gives: Mapping[ValueId, Label]
    price: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeModes:
    """A node and the ways to run it, the usual one first."""

    name: str
    modes: tuple[Mode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A graph whose nodes await a mode each.

    `weights` says what one conversion of a value costs (bytes, or any other unit; 0 is free),
    `sources` the label of each value that no node produces, `sinks` the labels in which the graph's
    results are demanded. `constant` is added to each conversion that is not free, so that ties go
    to fewer conversions. A source of several possible labels is a node that needs nothing. Raises
    `Bug` where the parts do not fit together.
    """

    nodes: tuple[NodeModes, ...]
    weights: Mapping[ValueId, int]
    sources: Mapping[ValueId, Label]
    sinks: Mapping[ValueId, tuple[Label, ...]]
    constant: int = 0

    def __post_init__(self) -> None:
        """Check what the solver relies on."""
        produced = dict.fromkeys(self.sources, "a source")
        for node in self.nodes:
            for value in _results(node):
                if value in produced:
                    places = f"{produced[value]} and {node.name}"
                    raise Bug(f"a value comes from one place; {value!r} from {places}")
                produced[value] = node.name
        for value in _demanded(self):
            if value not in produced or value not in self.weights:
                lack = "a weight" if value in produced else "a producer"
                raise Bug(f"a demanded value has a weight and a producer; {value!r} lacks {lack}")
        prices = [mode.price for node in self.nodes for mode in node.modes]
        least = min([self.constant, *prices, *self.weights.values()])
        if least < 0:
            raise Bug(f"weights, prices and the constant are not negative; got {least}")

    def conversion_cost(self, value: ValueId) -> int:
        """Return what one conversion of `value` costs, with the constant."""
        weight = index(self.weights[value])
        return weight + index(self.constant) if weight else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A value to be converted; `weight` is the cost without the constant, 0 if it is free."""

    value: ValueId
    given: Label
    wanted: Label
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a choice of modes costs, constants included, and all its conversions, free ones too."""

    cost: int
    conversions: tuple[Conversion, ...]


def evaluate(problem: Problem, choice: Sequence[int]) -> Assignment:
    """Price one mode index for each node, straight from the definition.

    The conversions stand in the order in which the nodes, then the sinks, demand them.
    """
    chosen = [node.modes[mode] for node, mode in zip(problem.nodes, choice, strict=True)]
    given = dict(problem.sources)
    demanded: dict[tuple[ValueId, Label], None] = {}
    for mode in chosen:
        given.update(mode.gives)
        demanded.update(dict.fromkeys(mode.needs.items()))
    for value, labels in problem.sinks.items():
        demanded.update(dict.fromkeys((value, label) for label in labels))
    conversions = tuple(
        Conversion(
            value=value, given=given[value], wanted=label, weight=index(problem.weights[value])
        )
        for value, label in demanded
        if given[value] != label
    )
    cost = sum(index(mode.price) for mode in chosen)
    cost += sum(problem.conversion_cost(conversion.value) for conversion in conversions)
    return Assignment(cost=cost, conversions=conversions)


def _results(node: NodeModes) -> tuple[ValueId, ...]:
    """Return the node's results, which each of its modes must label and none may need."""
    if not node.modes:
        raise Bug(f"a node has at least one mode; {node.name} has none")
    results = node.modes[0].gives.keys()
    for mode in node.modes:
        if mode.gives.keys() != results:
            found = f"{tuple(results)} in one, {tuple(mode.gives)} in another"
            raise Bug(f"each mode labels the same results; {node.name} {found}")
        if not results.isdisjoint(mode.needs):
            raise Bug(f"a node does not need its own results; {node.name} does")
    return tuple(results)


def _demanded(problem: Problem) -> dict[ValueId, None]:
    """Return every value that a mode or a sink may demand, in order."""
    needs = (value for node in problem.nodes for mode in node.modes for value in mode.needs)
    return dict.fromkeys(needs) | dict.fromkeys(problem.sinks)
