"""What a choice of modes costs, as a sum of terms: one for each value and label wanted of it.

A term's weight is paid where some consumer demands the label and the producer does not give it.
Sets of modes are bit sets in an `int`, so that a problem restricted to some of its modes has the
same form, only smaller.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from straightway.domains.problem import Label, Problem, ValueId


class Literal(NamedTuple):
    """Holds where `node` runs in one of `modes`, a bit set."""

    node: int
    modes: int


class Term(NamedTuple):
    """`weight` is paid if a consumer's literal holds, or `always`, unless the producer's holds."""

    weight: int
    producer: Literal | None
    consumers: tuple[Literal, ...]
    always: bool

    def literals(self) -> tuple[Literal, ...]:
        """Return the producer's literal, if any, then the consumers'."""
        return self.consumers if self.producer is None else (self.producer, *self.consumers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Nodes that can be placed without looking at any others.

    `alive` maps each node to its open modes, at least two; `prices` is indexed by node and mode.
    `terms` are folded: each literal is of a node in `alive`, and holds in some of its open modes,
    but not in all.
    """

    alive: Mapping[int, int]
    prices: Sequence[Sequence[int]]
    terms: tuple[Term, ...]


def modes_in(bits: int) -> list[int]:
    """Return the modes of a bit set in ascending order."""
    return [mode for mode in range(bits.bit_length()) if bits >> mode & 1]


def cost_of(part: Part, choice: Mapping[int, int]) -> int:
    """Price one mode for each node of the part."""
    paid = sum(part.prices[node][choice[node]] for node in part.alive)
    for term in part.terms:
        demanded = term.always or any(modes >> choice[node] & 1 for node, modes in term.consumers)
        producer = term.producer
        if demanded and not (producer and producer.modes >> choice[producer.node] & 1):
            paid += term.weight
    return paid


def terms_of(problem: Problem) -> list[Term]:
    """Return the terms of a whole problem; a conversion that is free has none."""
    given: dict[tuple[ValueId, Label], Literal] = {}
    demanded: dict[tuple[ValueId, Label], dict[int, int]] = {}
    for number, node in enumerate(problem.nodes):
        for bit, mode in enumerate(node.modes):
            for key in mode.gives.items():
                before = given.get(key, Literal(number, 0))
                given[key] = Literal(number, before.modes | 1 << bit)
            for key in mode.needs.items():
                consumers = demanded.setdefault(key, {})
                consumers[number] = consumers.get(number, 0) | 1 << bit
    sinks = dict.fromkeys(
        (value, label) for value, labels in problem.sinks.items() for label in labels
    )
    weights = {value: problem.conversion_cost(value) for value in problem.weights}
    return [
        Term(
            weight=weights[value],
            producer=given.get((value, label)),
            consumers=tuple(
                Literal(node, modes) for node, modes in demanded.get((value, label), {}).items()
            ),
            always=(value, label) in sinks,
        )
        for value, label in demanded | sinks
        if weights[value] and (value, label) not in problem.sources.items()
    ]


def fold(terms: Sequence[Term], alive: Mapping[int, int]) -> tuple[list[Term], int]:
    """Restrict terms to the modes in `alive`: what is left of them, and what is paid anyhow."""
    left: list[Term] = []
    paid = 0
    for term in terms:
        producer = term.producer
        if producer is not None:
            open_modes = alive[producer.node]
            held = producer.modes & open_modes
            if held == open_modes:
                continue
            producer = Literal(producer.node, held) if held else None
        consumers: tuple[Literal, ...] = ()
        always = term.always or any(not alive[node] & ~modes for node, modes in term.consumers)
        if not always:
            consumers = tuple(
                Literal(node, modes & alive[node])
                for node, modes in term.consumers
                if modes & alive[node]
            )
        if always and producer is None:
            paid += term.weight
        elif always or consumers:
            left.append(Term(term.weight, producer, consumers, always))
    return left, paid


def drop_dominated(
    terms: Sequence[Term], prices: Sequence[Sequence[int]], alive: Mapping[int, int]
) -> dict[int, int]:
    """Return `alive` without modes that another replaces at no cost, whatever other nodes do.

    A mode replaces another if its price is no higher, it needs no label (of `terms`) that the other
    does not, and gives every label that the other gives. Of two equal modes the first stays.
    """
    needs: dict[int, list[int]] = {node: [] for node in alive}
    gives: dict[int, list[int]] = {node: [] for node in alive}
    for term in terms:
        for node, modes in term.consumers:
            needs[node].append(modes)
        if term.producer:
            gives[term.producer.node].append(term.producer.modes)
    left = dict(alive)
    for node, bits in alive.items():
        for mode in modes_in(bits):
            if not left[node] >> mode & 1:
                continue
            worse = sum(
                1 << other for other in modes_in(bits) if prices[node][other] >= prices[node][mode]
            )
            for modes in needs[node]:
                worse &= modes if modes >> mode & 1 else -1
            for modes in gives[node]:
                worse &= -1 if modes >> mode & 1 else ~modes
            left[node] &= ~worse | 1 << mode
    return left


def split(
    terms: Sequence[Term], prices: Sequence[Sequence[int]], alive: Mapping[int, int]
) -> list[Part]:
    """Return the parts that share no term; nodes without a choice are in none."""
    leader = {node: node for node, bits in alive.items() if bits.bit_count() > 1}

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    for term in terms:
        first, *rest = term.literals()
        for literal in rest:
            leader[find(literal.node)] = find(first.node)
    members: dict[int, dict[int, int]] = {}
    grouped: dict[int, list[Term]] = {}
    for node in leader:
        members.setdefault(find(node), {})[node] = alive[node]
    for term in terms:
        grouped.setdefault(find(term.literals()[0].node), []).append(term)
    return [
        Part(alive=nodes, prices=prices, terms=tuple(grouped.get(root, ())))
        for root, nodes in members.items()
    ]
