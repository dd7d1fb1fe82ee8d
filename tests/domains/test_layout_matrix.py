"""Matrix products with a constant operand: it is stored as the other operand and the result ask."""

import numpy as np
import pytest
from random_graphs import assert_same

from straightway.domains.atoms import Atoms
from straightway.domains.layout import lay_out, problem_of, write_modes
from straightway.domains.orders import Orders
from straightway.ir import Graph, Value, edit, tensor_type
from straightway.lower.builder import Builder


def product(*, first: bool) -> Graph:
    """A constant times an input whose matrix can be stored either way, dimensions split in atoms."""
    graph = Graph(name="g")
    g = Builder(graph)
    rng = np.random.default_rng(5)
    x = edit.add_input(graph, Value("x", tensor_type(np.float32, (2, 6, 20))))
    y = g.RELU(g.transpose(g.reshape(x, (2, 6, 4, 5)), (0, 2, 1, 3)))
    matrix = (
        g.reshape(y, (2, 24, 5)) if first else g.reshape(g.transpose(y, (0, 3, 1, 2)), (2, 5, 24))
    )
    weights = g.const(rng.standard_normal((2, 3, 24) if first else (2, 24, 3)).astype(np.float32))
    made = g.BATCH_MATMUL(weights, matrix) if first else g.BATCH_MATMUL(matrix, weights)
    edit.set_outputs(graph, [g.transpose(made, (0, 2, 1))])
    return graph


@pytest.mark.parametrize("first", [True, False])
def test_constant_operands_in_every_mode(first):
    graph = product(first=first)
    orders = Orders(graph, Atoms(graph))
    nodes = problem_of(orders).nodes
    place = next(k for k, n in enumerate(graph.nodes) if n.op.name == "BATCH_MATMUL")
    assert len(nodes[place].modes) > 1
    for mode in nodes[place].modes:
        modes = [mode if k == place else n.modes[0] for k, n in enumerate(nodes)]
        assert_same(graph, write_modes(orders, modes, ["y"]).target, 1)
    assert_same(graph, lay_out(graph, ["y"]).graph, 2)
