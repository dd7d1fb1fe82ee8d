"""Moves at the ends of a file: on the side of the integers, with the same numbers."""

import numpy as np
import pytest
from random_graphs import run_written

from straightway.domains.borders import narrow
from straightway.ir import Graph, Node, Op, Value, edit, tensor_type
from straightway.ir.graph import Quant
from straightway.ir.verify import verify

SCALE = Quant(scale=np.array([0.05], np.float32), zero_point=np.array([3]))
MOVES = {"RESHAPE": (6, 4), "TRANSPOSE": (1, 0)}


def chain(*names):
    """Ops one after the other on a tensor [4, 6]; moved ones change its shape."""
    graph = Graph(name="ends")
    integers = names[0] == "DEQUANTIZE"
    value = edit.add_input(
        graph, Value("x", tensor_type(np.int8 if integers else np.float32, (4, 6)))
    )
    value.quant = SCALE if integers else None
    for k, name in enumerate(names):
        inputs, attrs, shape, dtype = [value], {}, value.shape, value.dtype
        if name in MOVES:
            operand = np.array(MOVES[name], np.int32)
            inputs.append(edit.constant(graph, operand, "operand"))
            attrs = {"newShape": operand} if name == "RESHAPE" else {}
            shape = tuple(operand) if name == "RESHAPE" else value.shape[::-1]
        else:
            dtype = {"QUANTIZE": np.int8, "DEQUANTIZE": np.float32}.get(name, dtype)
        result = Value(f"v{k}", tensor_type(dtype, tuple(int(d) for d in shape)))
        result.quant = SCALE if result.dtype == np.int8 else None
        edit.append(
            graph, Node(Op(dialect="tflite", name=name), inputs, [result], attrs, name=name)
        )
        value = result
    edit.set_outputs(graph, [value])
    return graph


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("two", [False, True], ids=["one move", "two moves"])
def test_moves_stand_on_the_side_of_the_integers(move, two):
    moves = [move, "TRANSPOSE"] if two else [move]
    before, after = (chain("DEQUANTIZE", *moves) for _ in range(2))
    narrow(after)
    verify(after, typed=True)
    assert [n.op.name for n in after.nodes] == [*moves, "DEQUANTIZE"]
    x = np.random.default_rng(0).integers(-100, 100, (4, 6)).astype(np.int8)
    for got, want in zip(run_written(after, [x]), run_written(before, [x]), strict=True):
        np.testing.assert_array_equal(got, want)
    assert [v.name for v in after.outputs] == [v.name for v in before.outputs]


def test_what_others_use_and_scales_of_channels_stay():
    graph = chain("DEQUANTIZE", "RESHAPE")
    edit.set_outputs(graph, [*graph.outputs, graph.first.output])
    narrow(graph)
    assert [n.op.name for n in graph.nodes] == ["DEQUANTIZE", "RESHAPE"]
    graph = chain("DEQUANTIZE", "TRANSPOSE")
    each = Quant(scale=np.full(4, 0.1, np.float32), zero_point=np.zeros(4, np.int64), axis=0)
    graph.inputs[0].quant = each
    narrow(graph)
    assert [n.op.name for n in graph.nodes] == ["DEQUANTIZE", "TRANSPOSE"]
