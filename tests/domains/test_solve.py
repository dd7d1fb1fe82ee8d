"""The whole solver against enumeration and an integer program; its time; its determinism."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from random_problems import carrier, enumerated, network, programmed, small

from straightway.domains.problem import Mode, NodeModes, Problem, evaluate
from straightway.domains.solve import solve
from straightway.errors import Bug


def test_two_labels_are_always_solved_exactly():
    rng = random.Random(6)
    for _ in range(500):
        problem = small(rng, 2, nodes=8)
        solution = solve(problem)
        assert solution.cost == solution.bound == enumerated(problem)
        assert solution.minimal
        found = evaluate(problem, solution.choice)
        assert (found.cost, found.conversions) == (solution.cost, solution.conversions)


def test_three_and_four_labels_are_solved_exactly_while_tables_fit():
    rng = random.Random(7)
    methods = set()
    for number in range(300):
        problem = small(rng, 3 + number % 2)
        solution = solve(problem)
        methods.add(solution.method)
        assert solution.cost == solution.bound == enumerated(problem)
    assert methods == {"cut", "elimination"}


@pytest.mark.parametrize("largest_table", [1, 16])
def test_with_small_tables_the_bound_is_honest_and_the_answer_good(largest_table):
    rng = random.Random(8)
    reached = expanded = 0
    for number in range(300):
        problem = small(rng, 3 + number % 2)
        solution = solve(problem, largest_table=largest_table)
        least = enumerated(problem)
        assert solution.bound <= least <= solution.cost
        assert solution.minimal == (solution.bound == solution.cost)
        reached += solution.cost == least
        expanded += solution.method == "expansion"
    assert expanded > 20
    assert reached > 0.95 * 300


@pytest.mark.parametrize("seed", range(4))
def test_networks_against_an_integer_program(seed):
    for label_count in (2, 3, 4):
        problem = network(200, label_count, seed, reach=8, fixed=0.04)
        solution = solve(problem)
        assert solution.minimal
        assert solution.cost == programmed(problem)


@pytest.mark.parametrize("seed", range(3))
def test_a_network_too_wide_for_tables_is_bounded_and_nearly_minimal(seed):
    problem = network(150, 4, seed, reach=100, fixed=0.05)
    solution = solve(problem, largest_table=64)
    least = programmed(problem)
    assert solution.method == "expansion"
    assert solution.bound <= least <= solution.cost <= 1.02 * least
    assert solution.bound > 0.5 * least


@pytest.mark.parametrize("scale", [3 * 2**30, 2**62, 2**64])
def test_no_weight_is_too_large(scale):
    """Weights beyond 32 bit, sums beyond 64 bit: where all is scaled, only the cost is."""
    for seed in range(60):
        usual = solve(small(random.Random(seed), 2 + seed % 3))
        large = solve(small(random.Random(seed), 2 + seed % 3, scale=scale))
        assert large.minimal
        assert large.cost == scale * usual.cost


def solved(problem):
    assert solve(problem).minimal


@pytest.mark.timed
@pytest.mark.parametrize("label_count", [2, 4])
def test_five_thousand_nodes_take_less_than_two_seconds(label_count, least_cpu_s):
    assert least_cpu_s(solved, lambda: network(5_000, label_count)) < 2


@pytest.mark.timed
@pytest.mark.parametrize("label_count", [2, 4])
def test_time_grows_about_linearly(label_count, least_cpu_s):
    once, eightfold = (
        least_cpu_s(solved, lambda size=size: network(size, label_count, fixed=0.01))
        for size in (1_000, 8_000)
    )
    assert eightfold < 3 * 8 * once  # were it quadratic: 64; a larger one has less of the cache


def test_the_answer_does_not_depend_on_hash_seeds():
    """Two processes, two seeds; string labels, whose hashes differ; all three methods."""
    script = (
        "from random_problems import network; from straightway.domains.solve import solve;"
        "problems = [network(150, labels, reach=100) for labels in (2, 3, 4)];"
        "print([solve(each, largest_table=size) for each in problems for size in (64, 2**20)])"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert all(method in outputs[0] for method in ("cut", "elimination", "expansion"))
    assert outputs[0] == outputs[1]


def test_a_graph_without_a_choice_costs_what_it_costs():
    nodes = (NodeModes(name="n", modes=(Mode(needs={"x": "b"}, gives={"y": "b"}, price=3),)),)
    problem = Problem(
        nodes=nodes, weights={"x": 10, "y": 20}, sources={"x": "a"}, sinks={"y": ("a", "b")}
    )
    solution = solve(problem)
    assert (solution.choice, solution.cost, solution.minimal) == ((0,), 33, True)
    assert solution.method == "cut"
    assert len(solution.conversions) == 2


def test_an_empty_graph_costs_nothing():
    solution = solve(Problem(nodes=(), weights={}, sources={}, sinks={}))
    assert (solution.choice, solution.cost, solution.minimal) == ((), 0, True)


def test_ties_go_to_fewer_conversions():
    """One conversion of ten bytes or two of five: the constant decides."""
    fork = NodeModes(name="fork", modes=tuple(carrier(["x"], ["y", "z"], "ab")))
    weights = {"x": 10, "y": 5, "z": 5}
    sinks = {"y": ("b",), "z": ("b",)}
    problem = Problem(nodes=(fork,), weights=weights, sources={"x": "a"}, sinks=sinks, constant=1)
    assert [conversion.value for conversion in solve(problem).conversions] == ["x"]


def test_a_free_source_takes_the_label_that_is_wanted():
    source = NodeModes(name="input", modes=tuple(carrier([], ["x"], "abc")))
    problem = Problem(nodes=(source,), weights={"x": 10}, sources={}, sinks={"x": ("c",)})
    assert solve(problem).choice == (2,)


def test_modes_that_are_never_better_do_not_count():
    """Four modes, but only two that differ in what they need at what price: a cut suffices."""
    modes = (
        *carrier(["x"], [], "ab"),
        Mode(needs={"x": "b"}, gives={}),
        Mode(needs={"x": "a", "f": "b"}, gives={}, price=1),
    )
    nodes = (
        NodeModes(name="producer", modes=tuple(carrier([], ["x"], "ab"))),
        *[NodeModes(name=f"n{number}", modes=modes) for number in range(3)],
    )
    problem = Problem(
        nodes=nodes, weights={"x": 10, "f": 0}, sources={"f": "a"}, sinks={"x": ("b",)}
    )
    solution = solve(problem)
    assert (solution.choice, solution.cost) == ((1, 1, 1, 1), 0)
    assert solution.method == "cut"


def test_a_bound_above_the_cost_is_a_bug(monkeypatch):
    monkeypatch.setattr("straightway.domains.solve.solve_by_cut", lambda _: ({0: 0, 1: 1}, 99))
    nodes = (
        NodeModes(name="m", modes=tuple(carrier([], ["x"], "ab"))),
        NodeModes(name="n", modes=tuple(carrier(["x"], [], "ab"))),
    )
    problem = Problem(nodes=nodes, weights={"x": 10}, sources={}, sinks={"x": ("b",)})
    with pytest.raises(Bug, match="its bound 99; got 10"):
        solve(problem)
