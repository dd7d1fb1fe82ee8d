"""Expansion leaves no move to one frame that would pay."""

import random
from itertools import pairwise

from random_problems import carrier, least, parts_of, small

from straightway.domains.cut import solve_by_cut
from straightway.domains.elimination import solve_by_elimination
from straightway.domains.expansion import improve
from straightway.domains.problem import NodeModes, Problem
from straightway.domains.terms import Literal, Part, Term, cost_of


def test_a_whole_frame_moves_where_no_single_node_would():
    """Ten carriers between two places that want c: from all in a, every step alone costs more."""
    names = [f"v{number}" for number in range(11)]
    nodes = [
        NodeModes(name=gives, modes=tuple(carrier([needs], [gives], "abc")))
        for needs, gives in pairwise(names)
    ]
    problem = Problem(
        nodes=tuple(nodes),
        weights=dict.fromkeys(names, 10) | {"v0": 3, "v10": 3},
        sources={"v0": "c"},
        sinks={"v10": ("c", "b")},
    )
    [part], _ = parts_of(problem)
    assert improve(part, dict.fromkeys(part.alive, 0)) == dict.fromkeys(part.alive, 2)


def test_never_worse_and_mostly_the_minimum():
    rng = random.Random(5)
    parts = [part for _ in range(200) for part in parts_of(small(rng, 4, nodes=5))[0]]
    reached = 0
    for part in parts:
        start, _ = solve_by_elimination(part, largest_table=1)
        improved = cost_of(part, improve(part, start))
        assert least(part) <= improved <= cost_of(part, start)
        reached += improved == least(part)
    assert reached > 0.9 * len(parts)


def test_where_no_cut_expresses_a_move_finer_ones_do():
    """Node 1 in mode 1 wants both labels of node 0, which gives one in each mode."""
    terms = (
        Term(3, Literal(0, 0b10), (Literal(1, 0b10),), always=False),
        Term(3, Literal(0, 0b01), (Literal(1, 0b10),), always=False),
    )
    part = Part(alive={0: 0b11, 1: 0b11}, prices=[[5, 0], [5, 0]], terms=terms)
    assert solve_by_cut(part) is None
    assert improve(part, {0: 0, 1: 0}) == {0: 1, 1: 1}
