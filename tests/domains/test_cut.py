"""Minimum cuts against scipy's flows, and placements by cut against enumeration."""

import random

import numpy as np
import pytest
from random_problems import carrier, enumerated, parts_of, small
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from straightway.domains.cut import FlowNetwork, solve_by_cut
from straightway.domains.problem import Mode, NodeModes, Problem, evaluate
from straightway.domains.terms import Part, cost_of


def flow_network(capacities, scale=1):
    network = FlowNetwork()
    for _ in range(len(capacities) - 2):
        network.add_node()
    for (tail, head), capacity in np.ndenumerate(capacities):
        if capacity:
            network.add_edge(tail, head, int(capacity) * scale)
    return network


@pytest.mark.parametrize("scale", [1, 3 * 2**30, 2**70])
def test_a_minimum_cut_is_a_maximum_flow_at_any_size_of_the_capacities(scale):
    rng = np.random.default_rng(1)
    for size in range(2, 42):
        capacities = rng.integers(1, 50, (size, size)) * (rng.random((size, size)) < 4 / size)
        np.fill_diagonal(capacities, 0)
        flow, sides = flow_network(capacities, scale).minimum_cut()
        assert flow == scale * int(maximum_flow(csr_matrix(capacities), 0, 1).flow_value)
        across = [edge for edge in np.argwhere(capacities) if not sides[edge[0]] and sides[edge[1]]]
        assert flow == scale * sum(int(capacities[tail, head]) for tail, head in across)
        assert (sides[0], sides[1]) == (False, True)


def test_parallel_edges_add_up():
    network = FlowNetwork()
    for capacity in (1, 2, 3):
        network.add_edge(0, 1, capacity)
    assert network.minimum_cut()[0] == 6


def test_a_long_way_needs_no_recursion():
    network = FlowNetwork()
    last = 0
    for _ in range(20_000):
        node = network.add_node()
        network.add_edge(last, node, 5)
        last = node
    network.add_edge(last, 1, 4)
    flow, sides = network.minimum_cut()
    assert flow == 4
    assert sum(sides) == 1


def test_with_two_labels_the_cut_is_the_minimum():
    rng = random.Random(2)
    exact = frustrated = 0
    while exact < 500:
        problem = small(rng, 2, nodes=8)
        parts, cost = parts_of(problem)
        found = [solve_by_cut(part) for part in parts]
        if None in found:
            frustrated += 1
            continue
        choice = [0] * len(problem.nodes)
        for part, (modes, paid) in zip(parts, found, strict=True):
            assert cost_of(part, modes) == paid
            cost += paid
            for node, mode in modes.items():
                choice[node] = mode
        assert evaluate(problem, choice).cost == cost == enumerated(problem)
        exact += 1
    assert frustrated < 150


def test_fan_out_to_both_labels_takes_two_auxiliary_nodes():
    nodes = (
        NodeModes(name="producer", modes=tuple(carrier([], ["x"], "ab"))),
        *[
            NodeModes(name=f"{k}{n}", modes=tuple(carrier(["x"], [f"{k}{n}"], "ab")))
            for n in range(3)
            for k in "ab"
        ],
    )
    weights = {"x": 10} | {f"{k}{n}": 4 for n in range(3) for k in "ab"}
    sinks = {f"{k}{n}": (k,) for n in range(3) for k in "ab"}
    problem = Problem(nodes=nodes, weights=weights, sources={}, sinks=sinks)
    [part], _ = parts_of(problem)
    modes, cost = solve_by_cut(part)
    assert cost == 10  # once for all three, not 12 after them, not 30
    assert [modes[node] for node in range(1, 7)] == [0, 1] * 3


def test_three_modes_are_too_many():
    problem = Problem(
        nodes=(NodeModes(name="n", modes=tuple(carrier([], ["x"], "abc"))),),
        weights={"x": 1},
        sources={},
        sinks={"x": ("a", "b")},
    )
    assert solve_by_cut(parts_of(problem)[0][0]) is None


def test_literals_that_can_not_agree_are_refused():
    """`n` wants either x in b or y in b, `m` gives both in b or neither: no turning helps."""
    problem = Problem(
        nodes=(
            NodeModes(name="m", modes=tuple(carrier([], ["x", "y"], "ab"))),
            NodeModes(
                name="n",
                modes=(Mode(needs={"x": "b"}, gives={}), Mode(needs={"y": "b"}, gives={})),
            ),
        ),
        weights={"x": 1, "y": 1},
        sources={},
        sinks={"x": ("a",)},
    )
    assert solve_by_cut(parts_of(problem)[0][0]) is None


def test_prices_alone_decide_where_nothing_is_demanded():
    part = Part(alive={4: 0b101}, prices={4: [7, 0, 6]}, terms=())
    assert solve_by_cut(part) == ({4: 2}, 6)
