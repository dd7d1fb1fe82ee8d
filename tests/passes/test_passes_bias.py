"""Sums of constants become biases only where a bias computes the same."""

import numpy as np
import pytest

from straightway.ir import Graph, Value, edit, tensor_type
from straightway.ir.verify import verify
from straightway.lower.builder import Builder
from straightway.passes import bias

WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)


def product(added: np.ndarray, *, axis: int = 2, swapped: bool = False) -> Graph:
    """X [2, 3, 3] times weights [4, 3] along `axis`, plus a constant."""
    graph = Graph(name="g")
    x = edit.add_input(graph, Value("x", tensor_type(np.float32, (2, 3, 3))))
    g = Builder(graph)
    y = g.FULLY_CONNECTED(x, WEIGHTS, None, axis=axis)
    operands = (g.const(added), y) if swapped else (y, g.const(added))
    edit.set_outputs(graph, [g.ADD(*operands)])
    return graph


def ops(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((4,), 2), ((1, 1, 4), 2), ((), 2), ((1,), 1), ((4, 1), 1)]
)
def test_a_vector_along_the_axis_is_a_bias(
    shape: tuple[int, ...], axis: int, *, swapped: bool
) -> None:
    added = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    graph = product(added, axis=axis, swapped=swapped)
    (remark,) = bias.run(graph)
    verify(graph, typed=True)
    assert remark.kind == "done"
    assert ops(graph) == ["FULLY_CONNECTED"]
    (node,) = graph.nodes
    assert node.output is graph.outputs[0]
    joined = node.inputs[2]
    assert joined is not None
    np.testing.assert_array_equal(joined.const, np.broadcast_to(added.reshape(-1), 4))


@pytest.mark.parametrize("shape", [(3, 4), (3, 1), (2, 1, 1), (1, 2, 3, 4)])
def test_another_constant_stays_a_sum(shape: tuple[int, ...]) -> None:
    graph = product(np.ones(shape, np.float32))
    assert bias.run(graph) == []
    assert ops(graph) == ["FULLY_CONNECTED", "ADD"]


def test_a_product_that_others_use_keeps_its_value() -> None:
    graph = product(np.ones(4, np.float32))
    first = graph.first
    assert first is not None
    edit.set_outputs(graph, [*graph.outputs, first.output])
    assert bias.run(graph) == []


def test_a_sum_of_two_products_stays() -> None:
    graph = Graph(name="g")
    x = edit.add_input(graph, Value("x", tensor_type(np.float32, (2, 3))))
    g = Builder(graph)
    parts = [g.FULLY_CONNECTED(x, WEIGHTS, None, axis=1) for _ in range(2)]
    edit.set_outputs(graph, [g.ADD(*parts)])
    assert bias.run(graph) == []
