"""Elimination against enumeration: exact with large tables, a bound with small ones."""

import random

import pytest
from random_problems import least, parts_of, small

from straightway.domains.elimination import solve_by_elimination
from straightway.domains.terms import cost_of


@pytest.mark.parametrize("scale", [1, 2**59, 2**80])
def test_exact_at_any_size_of_the_weights(scale):
    """The smallest fit 64 bit, the largest do not, and 2**59 does singly but not in sum."""
    rng = random.Random(3)
    for _ in range(40):
        for part in parts_of(small(rng, 3, scale=scale))[0]:
            choice, bound = solve_by_elimination(part, 2**16)
            assert cost_of(part, choice) == bound == least(part)


@pytest.mark.parametrize("largest_table", [1, 8, 30])
def test_small_tables_bound_the_cost_from_below(largest_table):
    rng = random.Random(4)
    short = 0
    for _ in range(100):
        for part in parts_of(small(rng, 3))[0]:
            choice, bound = solve_by_elimination(part, largest_table)
            assert bound <= least(part) <= cost_of(part, choice)
            short += bound < cost_of(part, choice)
    assert short
