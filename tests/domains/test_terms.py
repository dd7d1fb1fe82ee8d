"""Terms of a problem, and what may be left out of them."""

from random_problems import carrier

from straightway.domains.problem import NodeModes, Problem
from straightway.domains.terms import (
    Literal,
    Part,
    Term,
    cost_of,
    drop_dominated,
    fold,
    modes_in,
    split,
    terms_of,
)

TERM = Term(5, Literal(0, 0b01), (Literal(1, 0b01), Literal(2, 0b10)), always=False)


def test_modes_of_a_bit_set():
    assert modes_in(0b1101) == [0, 2, 3]


def test_terms_leave_out_what_costs_nothing():
    problem = Problem(
        nodes=(NodeModes(name="n", modes=tuple(carrier(["x", "f"], ["y"], "ab"))),),
        weights={"x": 3, "f": 0, "y": 4},
        sources={"x": "a", "f": "a"},
        sinks={"y": ("b", "c")},
        constant=1,
    )
    assert terms_of(problem) == [
        Term(4, None, (Literal(0, 0b10),), always=False),  # x in b; in a it is given, f is free
        Term(5, Literal(0, 0b10), (), always=True),
        Term(5, None, (), always=True),
    ]


def test_folding_decides_what_the_open_modes_decide():
    assert fold([TERM], {0: 0b11, 1: 0b11, 2: 0b11}) == ([TERM], 0)
    assert fold([TERM], {0: 0b01, 1: 0b11, 2: 0b11}) == ([], 0)  # given in any case
    assert fold([TERM], {0: 0b11, 1: 0b10, 2: 0b01}) == ([], 0)  # demanded by nobody
    assert fold([TERM], {0: 0b10, 1: 0b01, 2: 0b11}) == ([], 5)  # demanded, and never given
    assert fold([TERM], {0: 0b11, 1: 0b01, 2: 0b11}) == ([Term(5, TERM.producer, (), True)], 0)
    assert fold([TERM], {0: 0b10, 1: 0b10, 2: 0b11}) == (
        [Term(5, None, TERM.consumers[1:], False)],
        0,
    )


def dominated(terms, prices):
    [left] = drop_dominated(terms, [prices], {0: (1 << len(prices)) - 1}).values()
    return modes_in(left)


def test_of_equal_modes_the_first_stays():
    assert dominated([], [0, 0, 0]) == [0]


def test_a_dearer_mode_goes_if_it_gives_and_spares_nothing():
    gives_in_1 = Term(5, Literal(0, 0b10), (), always=True)
    needs_in_1 = Term(5, None, (Literal(0, 0b10),), always=False)
    assert dominated([], [2, 1]) == [1]
    assert dominated([gives_in_1], [0, 1]) == [0, 1]
    assert dominated([gives_in_1], [1, 1]) == [1]
    assert dominated([needs_in_1], [0, 0]) == [0]
    assert dominated([needs_in_1], [1, 0]) == [0, 1]
    assert dominated([gives_in_1, needs_in_1], [0, 0]) == [0, 1]


def test_parts_share_no_term():
    alive = {0: 3, 1: 3, 2: 3, 3: 3, 4: 1}
    other = Term(2, None, (Literal(3, 1),), always=False)
    first, second = split([other, TERM], [[0, 0]] * 5, alive)
    assert (list(first.alive), first.terms) == ([0, 1, 2], (TERM,))
    assert (list(second.alive), second.terms) == ([3], (other,))


def test_the_cost_of_a_choice():
    part = Part(alive={0: 3, 1: 3, 2: 3}, prices=[[0, 1], [0, 0], [0, 10]], terms=(TERM,))
    assert cost_of(part, {0: 0, 1: 0, 2: 0}) == 0
    assert cost_of(part, {0: 1, 1: 0, 2: 0}) == 6
    assert cost_of(part, {0: 1, 1: 1, 2: 0}) == 1
    assert cost_of(part, {0: 1, 1: 1, 2: 1}) == 16
