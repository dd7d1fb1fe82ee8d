"""Layouts of whole graphs: right numbers in every mode, at least cost, fast, any rank."""

import itertools

import numpy as np
import pytest
from random_graphs import assert_same, random_graph, run_written

from straightway.domains.atoms import Atoms
from straightway.domains.layout import lay_out, problem_of, write_modes
from straightway.domains.orders import Orders
from straightway.domains.problem import evaluate
from straightway.domains.solve import solve
from straightway.ir import Graph, Value, edit, tensor_type
from straightway.ir.verify import verify
from straightway.lower.builder import Builder
from straightway.tflite.write import write

CHUNK = 25


def names(graph: Graph) -> list[str]:
    return [f"out{k}" for k in range(len(graph.outputs))]


@pytest.mark.parametrize("first", range(0, 400, CHUNK))
def test_random_graphs_compute_the_same(first):
    for seed in range(first, first + CHUNK):
        graph = random_graph(seed)
        layout = lay_out(graph, names(graph))
        verify(layout.graph, typed=True)
        assert_same(graph, layout.graph, seed)


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_every_mode_of_every_node_computes_the_same(first):
    """One node after the other runs in each of its modes, the others in their first."""
    tried = 0
    for seed in range(first, first + 30):
        graph = random_graph(seed, 9)
        orders = Orders(graph, Atoms(graph))
        nodes = problem_of(orders).nodes
        for k, node in enumerate(nodes):
            for mode in node.modes[1:]:
                modes = [mode if j == k else n.modes[0] for j, n in enumerate(nodes)]
                store = write_modes(orders, modes, names(graph))
                assert_same(graph, store.target, seed)
                tried += 1
    assert tried > 50


def test_no_choice_of_modes_costs_less():
    compared = 0
    for seed in range(300):
        graph = random_graph(seed, 5)
        problem = problem_of(Orders(graph, Atoms(graph)))
        counts = [range(len(node.modes)) for node in problem.nodes]
        if np.prod([len(c) for c in counts]) > 3000:
            continue
        best = min(evaluate(problem, choice).cost for choice in itertools.product(*counts))
        solution = solve(problem)
        assert solution.cost == best
        assert solution.minimal
        compared += 1
    assert compared > 150


@pytest.mark.parametrize("seed", range(40))
def test_written_transposes_are_the_planned_ones(seed):
    graph = random_graph(seed)
    layout = lay_out(graph, names(graph))
    written = [node for node in layout.graph.nodes if node.op.name == "TRANSPOSE"]
    assert [c.node for c in layout.plan.conversions] == written
    assert layout.plan.bound_bytes <= layout.plan.cost_bytes


def image_graph(shape=(2, 3, 8, 9)) -> tuple[Graph, Builder, Value]:
    graph = Graph(name="image")
    x = edit.add_input(graph, Value("x", tensor_type(np.float32, shape)))
    return graph, Builder(graph), x


def test_channels_last_io_needs_no_conversion():
    graph, g, x = image_graph()
    rng = np.random.default_rng(0)
    weights = g.const(rng.standard_normal((5, 3, 3, 3)).astype(np.float32))
    bias = g.const(rng.standard_normal(5).astype(np.float32))
    attrs = {"strides": (1, 1), "dilations": (1, 1), "padding": "SAME"}
    edit.set_outputs(graph, [g.CONV_2D(x, weights, bias, **attrs)])
    kept = lay_out(graph, ["y"])
    assert len(kept.plan.conversions) == 2
    moved = lay_out(graph, ["y"], channels_last_io=True)
    assert not moved.plan.conversions
    assert moved.graph.inputs[0].shape == (2, 8, 9, 3)
    array = rng.standard_normal((2, 3, 8, 9)).astype(np.float32)
    (first,) = run_written(kept.graph, [array])
    (second,) = run_written(moved.graph, [np.ascontiguousarray(array.transpose(0, 2, 3, 1))])
    np.testing.assert_allclose(first, second.transpose(0, 3, 1, 2), rtol=1e-5, atol=1e-5)


def test_reshape_that_mixes_dimensions_is_a_barrier_and_still_right():
    graph, g, x = image_graph((2, 3, 4, 5))
    y = g.reshape(g.transpose(x, (0, 2, 3, 1)), (2, 5, 12))
    z = g.reshape(g.transpose(y, (0, 2, 1)), (2, 3, 4, 5))
    edit.set_outputs(graph, [g.SOFTMAX(z, axis=1)])
    layout = lay_out(graph, ["y"])
    assert_same(graph, layout.graph, 3)


def test_what_is_stored_at_another_size_is_told_where_its_order_is_the_models():
    """Which of the joined dimensions has grown does not show in the stored rows."""
    graph = Graph()
    g = Builder(graph)
    rows = edit.add_input(graph, Value("x", tensor_type("float32", (6, 20))))
    edit.set_outputs(graph, [g.NEG(g.reshape(rows, (2, 3, 4, 5)))])
    layout = lay_out(graph, ["y"])
    grown = np.arange(10 * 20, dtype=np.float32).reshape(10, 20)
    assert np.array_equal(layout.restore(rows, grown, (10, 20)), grown)
    assert layout.restore(rows, grown, (10, 21)) is None


@pytest.mark.parametrize("name", ["REDUCE_MAX", "SUM"])
@pytest.mark.parametrize("axes", [(0, 1, 2), (2,), (1,), (0, 2)])
def test_a_reduced_dimension_may_lie_in_pieces(name, axes):
    graph, g, x = image_graph((1, 6, 5, 7))  # heads, rows, channels of a head
    heads = g.reshape(g.transpose(g.RELU(x), (0, 2, 1, 3)), (1, 5, 42))
    edit.set_outputs(graph, [getattr(g, name)(heads, axes=axes, keep_dims=False)])
    assert_same(graph, lay_out(graph, ["y"]).graph, 1)


def test_unchanged_input_and_constant_outputs_become_tensors_of_their_own():
    graph, g, x = image_graph()
    y = g.RELU(x)
    edit.set_outputs(graph, [x, y, y, g.const(np.arange(6, dtype=np.float32))])
    layout = lay_out(graph, ["a", "b", "c", "d"])
    verify(layout.graph, typed=True)
    assert [v.name for v in layout.graph.outputs] == ["a", "b", "c", "d"]
    assert len(set(layout.graph.outputs)) == 4
    assert_same(graph, layout.graph, 5)


def long_graph(blocks: int) -> Graph:
    graph, g, x = image_graph((1, 8, 6, 7))
    rng = np.random.default_rng(0)
    weights = g.const(rng.standard_normal((8, 8, 1, 1)).astype(np.float32))
    attrs = {"strides": (1, 1), "dilations": (1, 1), "padding": "VALID"}
    for k in range(blocks):
        y = g.RELU(g.CONV_2D(x, weights, None, **attrs))
        if k % 10 == 0:
            y = g.reshape(g.transpose(g.reshape(y, (1, 2, 4, 6, 7)), (0, 2, 1, 3, 4)), x.shape)
        x = g.ADD(x, y) if k % 3 else y
    edit.set_outputs(graph, [x])
    return graph


@pytest.mark.timed
def test_five_thousand_nodes_in_two_seconds(least_cpu_s):
    graph = long_graph(1850)
    count = sum(1 for _ in graph.nodes)
    assert count >= 5000

    def lay(graph):
        assert solve(problem_of(Orders(graph, Atoms(graph)))).minimal

    assert least_cpu_s(lay, lambda: graph) < 2


def test_the_same_file_every_time():
    graph = random_graph(11)
    first = write(lay_out(graph, names(graph)).graph).data
    assert first == write(lay_out(graph, names(graph)).graph).data
