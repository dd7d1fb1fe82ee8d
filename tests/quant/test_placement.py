"""The cut that places floats and integers, against every choice there is."""

import itertools

import numpy as np
import pytest

from straightway.ir import Graph, Node, Op, TensorType, Value, edit
from straightway.quant.placement import (
    BYTES_A_MAC,
    CONVERTED_BYTES,
    ISLAND,
    Errors,
    Kernels,
    macs,
    place,
)

REAL = np.dtype(np.float32)


def value(name, size):
    return Value(name, TensorType(dtype=REAL, shape=(1, size)))


def op(graph, name, operands, size, label=""):
    made = value(graph.fresh("v"), size)
    edit.append(graph, Node(Op(dialect="tflite", name=name), operands, [made], name=label or name))
    return made


def random_graph(rng, count):
    """Elementwise ops and reductions of one or two operands."""
    graph = Graph()
    values = [edit.add_input(graph, value("x", int(rng.integers(1, 30))))]
    for k in range(count):
        operands = (
            list(rng.choice(len(values), int(rng.integers(1, 3)), replace=False)) if k else [0]
        )
        picked = [values[i] for i in operands[: len(values)]]
        name = "ADD" if len(picked) > 1 else str(rng.choice(["RELU", "MUL", "MEAN"]))
        values.append(op(graph, name, picked, int(rng.integers(1, 30)), f"n{k}"))
    edit.set_outputs(graph, [values[-1]])
    return graph


def cost_of_sides(graph, sides, errors):
    """The same with three sides."""
    total = 0
    for node in graph.nodes:
        moved = sum(v.known_type.size for v in {*node.operands(), *node.outputs})
        price = {"float": 3 * moved, "int16": moved, "integer": 0}[sides[node]]
        total += price + (errors.nodes.get(node, 0) if sides[node] != "float" else 0)
    for one in graph.values():
        read = {"float" if u is graph.exit else sides[u] for u in one.users()}
        made = "float" if one.producer is None else sides[one.producer]
        total += CONVERTED_BYTES * one.known_type.size * len(read - {made})
        inside = {sides[u] for u in one.users() if u is not graph.exit}
        if one.producer is not None:
            inside.add(made)
        if "integer" in inside:
            total += errors.values.get(one, 0)
    return total


def cost(graph, floats, errors):
    """What a choice costs, straight from the definition."""
    total = 0
    for node in graph.nodes:
        moved = sum(v.known_type.size for v in {*node.operands(), *node.outputs})
        total += 3 * moved if node in floats else errors.nodes.get(node, 0)
    for one in graph.values():
        sides = {True if u is graph.exit else u in floats for u in one.users()}
        made = one.producer is None or one.producer in floats
        if (not made) in sides:
            total += CONVERTED_BYTES * one.known_type.size
        beside = [u in floats for u in one.users() if u is not graph.exit]
        if one.producer is not None:
            beside.append(made)
        if not all(beside):
            total += errors.values.get(one, 0)
    return total


@pytest.mark.parametrize("seed", range(30))
def test_no_choice_costs_less(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 7)
    nodes = list(graph.nodes)
    forced = {nodes[i]: "must" for i in rng.choice(7, int(rng.integers(0, 3)), replace=False)}
    errors = Errors(
        values={v: int(rng.integers(1, 400)) for v in graph.values() if rng.random() < 0.6},
        nodes={n: int(rng.integers(1, 400)) for n in nodes if rng.random() < 0.4},
    )
    found = place(graph, forced, frozenset(), {}, errors)
    chosen = {*forced, *found.floats}
    free = [n for n in nodes if n not in forced]
    choices = itertools.product([False, True], repeat=len(free))
    least = min(
        cost(graph, {*forced, *itertools.compress(free, choice)}, errors) for choice in choices
    )
    assert found.solution.minimal
    assert cost(graph, chosen, errors) == least


@pytest.mark.parametrize("seed", range(12))
def test_no_choice_of_three_sides_costs_less(seed):
    rng = np.random.default_rng(100 + seed)
    graph = random_graph(rng, 6)
    nodes = list(graph.nodes)
    forced = {nodes[i]: "must" for i in rng.choice(6, int(rng.integers(0, 2)), replace=False)}
    wide = {n for n in nodes if n not in forced and rng.random() < 0.2}
    widened = {n for n in nodes if n not in forced and n not in wide and rng.random() < 0.7}
    errors = Errors(
        values={v: int(rng.integers(1, 600)) for v in graph.values() if rng.random() < 0.8},
        nodes={n: int(rng.integers(1, 50)) for n in nodes if rng.random() < 0.4},
    )
    kernels = Kernels(wide=wide, widened=widened)
    found = place(graph, forced, frozenset(), {}, errors, kernels=kernels)
    assert wide <= found.wide <= wide | widened
    open_to = [
        ["float"]
        if n in forced
        else ["int16"]
        if n in wide
        else ["integer", "float", *(["int16"] if n in widened else [])]
        for n in nodes
    ]
    costs = [
        cost_of_sides(graph, dict(zip(nodes, sides, strict=True)), errors)
        for sides in itertools.product(*open_to)
    ]
    assert found.solution.cost == 2 * min(costs)


def test_no_border_is_put_where_a_value_vanishes():
    graph = Graph()
    x = edit.add_input(graph, value("x", 100))
    a = op(graph, "RELU", [x], 100, "first")
    hidden = op(graph, "MEAN", [a], 1, "sum")
    b = op(graph, "RELU", [hidden], 100, "last")
    edit.set_outputs(graph, [b])
    _, middle, last = graph.nodes
    free = place(graph, {last: "must"}, frozenset(), {}).floats
    bound = place(graph, {last: "must"}, frozenset({hidden.name}), {}).floats
    assert middle not in free
    assert middle in bound


def test_products_count_what_they_multiply():
    graph = Graph()
    x = edit.add_input(graph, Value("x", TensorType(dtype=REAL, shape=(1, 6, 9, 9))))
    weights = edit.constant(graph, np.zeros((8, 6, 3, 3), np.float32))
    made = Value("y", TensorType(dtype=REAL, shape=(1, 8, 7, 7)))
    node = edit.append(graph, Node(Op(dialect="tflite", name="CONV_2D"), [x, weights], [made]))
    assert macs(node) == 8 * 7 * 7 * 6 * 3 * 3
    assert 0 < BYTES_A_MAC < 1


@pytest.mark.parametrize("beside", [10, 1_000_000])
def test_integers_among_floats_that_save_next_to_nothing_are_floats(beside):
    graph = Graph()
    x = edit.add_input(graph, value("x", 10))
    large = op(graph, "RELU", [op(graph, "RELU", [x], beside)], beside)
    chain = [op(graph, "RELU", [x], 10, "first")]
    for _ in range(5):
        chain.append(op(graph, "RELU", [chain[-1]], 10))
    chain.append(op(graph, "RELU", [chain[-1]], 10, "last"))
    edit.set_outputs(graph, [large, chain[-1]])
    forced = {chain[0].producer: "must", chain[-1].producer: "must"}
    found = place(graph, forced, frozenset(), {}).floats
    inside = {one.producer for one in chain[1:-1]}
    assert {found.get(node) for node in inside} == {None if beside == 10 else ISLAND}
