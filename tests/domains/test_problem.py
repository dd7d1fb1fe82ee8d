"""What a choice of modes costs, and which problems are refused."""

import numpy as np
import pytest

from straightway.domains.problem import Conversion, Mode, NodeModes, Problem, evaluate
from straightway.errors import Bug


def node(name, *modes):
    return NodeModes(name=name, modes=modes)


def problem(*nodes, weights, sources=None, sinks=None, constant=0):
    return Problem(
        nodes=nodes,
        weights=weights,
        sources=sources or {},
        sinks=sinks or {},
        constant=constant,
    )


WANTS_B = node("wants b", Mode(needs={"x": "b"}, gives={}))
WANTS_C = node("wants c", Mode(needs={"x": "c"}, gives={}))


def test_a_conversion_is_paid_once_however_many_want_it():
    three = problem(
        WANTS_B, WANTS_B, WANTS_B, weights={"x": 7}, sources={"x": "a"}, sinks={"x": ("b",)}
    )
    assert evaluate(three, (0, 0, 0)).cost == 7


def test_each_label_is_a_conversion_of_its_own_in_order_of_demand():
    found = evaluate(
        problem(WANTS_C, WANTS_B, weights={"x": 7}, sources={"x": "a"}, sinks={"x": ("a", "d")}),
        (0, 0),
    )
    assert found.cost == 21
    assert found.conversions == tuple(
        Conversion(value="x", given="a", wanted=wanted, weight=7) for wanted in "cbd"
    )


def test_prices_and_the_constant_count():
    source = node(
        "source", Mode(needs={}, gives={"x": "a"}), Mode(needs={}, gives={"x": "b"}, price=5)
    )
    whole = problem(source, WANTS_B, weights={"x": 7}, constant=2)
    assert evaluate(whole, (0, 0)).cost == 9
    assert evaluate(whole, (1, 0)).cost == 5


def test_a_free_conversion_is_listed_and_costs_nothing_not_even_the_constant():
    found = evaluate(problem(WANTS_B, weights={"x": 0}, sources={"x": "a"}, constant=2), (0,))
    assert found.cost == 0
    assert [conversion.wanted for conversion in found.conversions] == ["b"]


def test_results_of_one_node_are_converted_apart():
    split = node("split", Mode(needs={"x": "a"}, gives={"y": "a", "z": "b"}))
    whole = problem(
        split,
        weights={"x": 1, "y": 10, "z": 100},
        sources={"x": "a"},
        sinks={"y": ("b",), "z": ("a",)},
    )
    assert evaluate(whole, (0,)).cost == 110


def test_an_operand_left_out_is_taken_in_any_label():
    shape = node("shape", Mode(needs={}, gives={"s": "a"}))
    assert evaluate(problem(shape, weights={"x": 1}, sources={"x": "b"}), (0,)).cost == 0


def test_numpy_integers_do_not_overflow():
    weights = {"x": np.int64(2**62)}
    whole = problem(WANTS_B, WANTS_C, weights=weights, sources={"x": "a"}, constant=np.int64(2**62))
    assert evaluate(whole, (0, 0)).cost == 2**64


@pytest.mark.parametrize(
    ("nodes", "changes", "message"),
    [
        ([node("empty")], {}, "at least one mode; empty has none"),
        ([node("n", Mode(needs={}, gives={"x": "a"}))], {}, "'x' from a source and n"),
        ([node("n", Mode(needs={"y": "a"}, gives={}))], {}, "'y' lacks a producer"),
        ([], {"sinks": {"y": ("a",)}}, "'y' lacks a producer"),
        ([WANTS_B], {"weights": {}}, "'x' lacks a weight"),
        (
            [node("n", Mode(needs={}, gives={"y": "a"}), Mode(needs={}, gives={"z": "a"}))],
            {},
            r"n \('y',\) in one, \('z',\) in another",
        ),
        ([node("n", Mode(needs={"y": "a"}, gives={"y": "a"}))], {}, "n does"),
        ([], {"weights": {"x": -1}}, "got -1"),
        ([], {"constant": -2}, "got -2"),
        ([node("n", Mode(needs={}, gives={}, price=-3))], {}, "got -3"),
    ],
)
def test_what_does_not_fit_together_is_a_bug(nodes, changes, message):
    with pytest.raises(Bug, match=message):
        problem(*nodes, **{"weights": {"x": 1}, "sources": {"x": "a"}} | changes)
