"""A factor and a shift a channel are a depthwise convolution where channels come last anyway."""

import numpy as np
import pytest

from straightway.ir import Graph, Value, edit, tensor_type
from straightway.ir.verify import verify
from straightway.lower.builder import Builder
from straightway.passes import depthwise

FACTOR = np.linspace(0.5, 2, 6, dtype=np.float32)
SHIFT = np.linspace(-1, 1, 6, dtype=np.float32)


def scaled(
    *, factor: np.ndarray, shift: np.ndarray, behind: bool = True, twice: bool = False
) -> Graph:
    """X [2, 6, 5, 5] times a factor plus a shift, behind a convolution and a RELU."""
    graph = Graph(name="g")
    x = edit.add_input(graph, Value("x", tensor_type(np.float32, (2, 6, 5, 5))))
    g = Builder(graph)
    if behind:
        weights = g.const(np.ones((6, 6, 1, 1), np.float32))
        options = {"strides": (1, 1), "dilations": (1, 1), "padding": "VALID"}
        x = g.RELU(g.CONV_2D(x, weights, g.const(np.zeros(6, np.float32)), **options))
    product = g.MUL(g.const(factor), x)
    result = g.ADD(product, g.const(shift))
    edit.set_outputs(graph, [result, product] if twice else [result])
    return graph


def ops(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


@pytest.mark.parametrize("shape", [(6, 1, 1), (1, 6, 1, 1)])
def test_behind_a_convolution_they_are_one_op(shape: tuple[int, ...]) -> None:
    graph = scaled(factor=FACTOR.reshape(shape), shift=SHIFT.reshape(shape))
    (remark,) = depthwise.run(graph)
    verify(graph, typed=True)
    assert remark.numbers == {"nodes": 1}
    assert ops(graph) == ["CONV_2D", "RELU", "DEPTHWISE_CONV_2D"]
    node = graph.outputs[0].producer
    assert node is not None
    _, weights, bias = node.operands()
    assert weights.const is not None
    np.testing.assert_array_equal(weights.const[:, 0, 0, 0], FACTOR)
    np.testing.assert_array_equal(bias.const, SHIFT)


@pytest.mark.parametrize(
    "options",
    [
        {"behind": False},
        {"twice": True},
        {"factor": np.float32(2.0)},
        {"shift": np.ones((6, 5, 1), np.float32)},
        {"shift": np.full((6, 1, 1), np.inf, np.float32)},
        {"factor": np.ones((2, 6, 1, 1), np.float32)},
    ],
)
def test_others_stay(options: dict[str, object]) -> None:
    plain = {"factor": FACTOR.reshape(6, 1, 1), "shift": SHIFT.reshape(6, 1, 1)}
    graph = scaled(**{**plain, **options})
    before = ops(graph)
    assert depthwise.run(graph) == []
    assert ops(graph) == before
