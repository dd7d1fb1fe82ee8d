"""Convolutions over blocks of columns: every packing computes the same, and few are chosen."""

import numpy as np
import pytest
from random_graphs import run_written

from straightway.domains import packing
from straightway.ir import Graph, Op, Value, edit, tensor_type
from straightway.ir.graph import Node
from straightway.ir.verify import verify

CHUNK = 20
# wide enough to be worth it, few filters
THIN = {"shape": (1, 4, 96, 2), "filters": 1, "kernel": (3, 9)}


def convolution(shape, filters, kernel, *, strides=(1, 1), padding="SAME", seed=0):
    """A written graph with one CONV_2D between an input and an output."""
    rng = np.random.default_rng(seed)
    graph = Graph(name="one")
    x = edit.add_input(graph, Value("x", tensor_type(np.float32, shape)))
    weights = rng.standard_normal((filters, *kernel, shape[3])).astype(np.float32)
    sizes = [
        packing._window(size, k, stride, padding)[0]
        for size, k, stride in zip(shape[1:3], kernel, strides, strict=True)
    ]
    if min(sizes) < 1:
        return None
    result = Value("y", tensor_type(np.float32, (shape[0], *sizes, filters)))
    attrs = {
        "padding": padding,
        "strideH": strides[0],
        "strideW": strides[1],
        "dilationHFactor": 1,
        "dilationWFactor": 1,
        "fusedActivationFunction": "RELU",
    }
    constants = [
        edit.constant(graph, weights, "w"),
        edit.constant(graph, rng.standard_normal(filters).astype(np.float32), "b"),
    ]
    node = Node(Op(dialect="tflite", name="CONV_2D"), [x, *constants], [result], attrs, name="conv")
    edit.append(graph, node)
    edit.set_outputs(graph, [result])
    return graph


def random_convolution(seed):
    rng = np.random.default_rng(seed)
    made = None
    while made is None:
        shape = tuple(int(rng.choice(c)) for c in ((1, 2), (1, 5), (12, 18, 24, 30), (1, 2, 3)))
        kernel = (1 if shape[1] == 1 else int(rng.integers(1, 4)), int(rng.integers(1, 12)))
        made = convolution(
            shape,
            int(rng.choice((1, 2, 5))),
            kernel,
            strides=(int(rng.integers(1, 3)), int(rng.integers(1, 5))),
            padding=str(rng.choice(["SAME", "VALID"])),
            seed=seed,
        )
    return made


@pytest.mark.parametrize("first", range(0, 60, CHUNK))
def test_every_packing_computes_the_same(first):
    tried = 0
    for seed in range(first, first + CHUNK):
        graph = random_convolution(seed)
        x = np.random.default_rng(seed).standard_normal(graph.inputs[0].shape).astype(np.float32)
        (want,) = run_written(graph, [x])
        for number, chosen in enumerate(packing.candidates(packing._columns(graph, graph.first))):
            if number % 3 == seed % 3:
                packed = random_convolution(seed)
                packing._rewrite(packed, packed.first, packing._columns(graph, graph.first), chosen)
                verify(packed, typed=True)
                (got,) = run_written(packed, [x])
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
                tried += 1
    assert tried > CHUNK


def test_few_filters_are_packed_and_the_rest_is_told():
    graph = convolution(**THIN)
    (remark,) = packing.pack(graph)
    assert [node.op.name for node in graph.nodes] == ["RESHAPE", "CONV_2D", "RESHAPE"]
    assert remark.node == "conv"
    assert "1 filters of 2 channels" in remark.text
    assert graph.outputs[0].shape == (1, 4, 96, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"filters": 64, "shape": (1, 4, 96, 64)},
        {"kernel": (1, 1), "shape": (1, 4, 96, 32)},
        {"shape": (1, 4, 97, 2), "padding": "VALID", "kernel": (3, 9), "strides": (1, 89)},
    ],
    ids=["full lanes", "no window", "nothing divides"],
)
def test_what_gains_nothing_is_left(change):
    graph = convolution(**THIN | change)
    assert packing.pack(graph) == []
    assert [node.op.name for node in graph.nodes] == ["CONV_2D"]


def test_dilated_grouped_and_unknown_weights_are_left():
    for spoil in (
        lambda graph: graph.first.attrs.update(dilationWFactor=2),
        lambda graph: setattr(graph.first.inputs[1], "const", None),
        lambda graph: graph.signatures.update({graph.inputs[0]: ((1, 4, 1, 2), (1, 4, -1, 2))}),
    ):
        graph = convolution(**THIN)
        spoil(graph)
        assert packing.pack(graph) == []


def test_an_open_batch_stays_open():
    graph = convolution(**THIN)
    for value, channels in ((graph.inputs[0], 2), (graph.outputs[0], 1)):
        graph.signatures[value] = (1, 4, 96, channels), (-1, 4, 96, channels)
    assert packing.pack(graph)
    first, conv, last = graph.nodes
    assert first.attrs["newShape"][0] == last.attrs["newShape"][0] == -1
    assert graph.signatures[conv.output][1][0] == -1


def test_a_weight_more_saves_multiplications():
    """A single place has nothing to win by weights; many places have."""
    few = packing.choose(packing._columns(g := convolution((1, 1, 16, 64), 3, (1, 64)), g.first))
    many = packing.choose(packing._columns(g := convolution((1, 64, 256, 64), 3, (1, 64)), g.first))
    assert few is None
    assert many.columns > 1
