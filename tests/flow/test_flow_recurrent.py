"""Recurrent layers in eight bits: integers where steps are written out, floats in loops, both said."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from straightway.flow import recurrent
from straightway.flow.convert import Request, convert
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUTS, CELLS = 6, 8


def layer(path, kind, steps, direction="forward"):
    """A recurrent layer and a product, with weights as trained ones are."""
    rng = np.random.default_rng(3)
    count, gates = (2 if direction == "bidirectional" else 1), GATES[kind]
    biases = np.zeros((count, 2 * gates * CELLS))
    if kind == "LSTM":  # trained cells begin by remembering
        biases[:, 2 * CELLS : 3 * CELLS] = 1
    arrays = {
        "w": rng.normal(size=(count, gates * CELLS, INPUTS)) / np.sqrt(INPUTS),
        "r": rng.normal(size=(count, gates * CELLS, CELLS)) / np.sqrt(CELLS),
        "b": biases,
        "d": rng.normal(size=(CELLS, 5)),
    }
    kept = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    reset = {"linear_before_reset": 1} if kind == "GRU" else {}
    nodes = [
        helper.make_node(
            kind, ["x", "w", "r", "b"], ["h"], "layer", hidden_size=CELLS, direction=direction,
            **reset,
        ),
        helper.make_node("MatMul", ["h", "d"], ["y"], "product"),
    ]  # fmt: skip
    ends = [
        helper.make_tensor_value_info("x", 1, [steps, 1, INPUTS]),
        helper.make_tensor_value_info("y", 1, [steps, count, 1, 5]),
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path


def rounded(folder, kind, steps, direction="forward", target="litert"):
    path = layer(folder / "m.onnx", kind, steps, direction)
    rng = np.random.default_rng(1)
    samples = [{"x": rng.normal(size=(steps, 1, INPUTS)).astype(np.float32)} for _ in range(4)]
    asked = QuantizeRequest(calibration=lambda: iter(samples), target=target, fit=False)
    found = quantize(path, folder / "q.onnx", asked)
    (told,) = (one for one in found.remarks if one.step == recurrent.STEP)
    return found, told


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", list(GATES))
def test_steps_that_are_written_out_compute_with_integers(tmp_path, child, kind, direction):
    found, told = rounded(tmp_path, kind, 5, direction)
    assert told.kind == "done"
    assert told.node == "layer"
    assert "its steps compute with integers" in told.text
    assert told.numbers["sqnr_db"] > 25
    assert found.accuracy.outputs[0].sqnr_db > 25
    made = convert(tmp_path / "q.onnx", request=Request(seeds=(0,)), child=child)
    assert made.verification.equal
    inner = [n for n in made.translation.layout.graph.nodes if n.op.name in ("TANH", "LOGISTIC")]
    assert inner
    assert {n.output.dtype.name for n in inner} == {"int8"}


@pytest.mark.parametrize("target", ["litert", "tflite-micro"])
def test_loops_say_that_they_compute_with_floats(tmp_path, target):
    _, told = rounded(tmp_path, "LSTM", 40, target=target)
    assert told.kind == "missed"
    assert "takes its steps in a loop, which computes with floats" in told.text
    assert told.numbers["sqnr_db"] > 25
