"""Inspecting: each refusal has its cause, and what it says to do instead makes the model convert."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from straightway.flow.convert import Request
from straightway.flow.inspect import inspect

FLOAT = TensorProto.FLOAT
DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "ai.onnx.ml", "my.ops")


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs, outputs, name=f"{op}_{outputs[0]}", **attrs)


def info(name, shape=(2, 3), element=FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def inspected(folder, nodes, inputs, outputs, constants=(), *, opset=17):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants]
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in DOMAINS)]
    path = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return inspect(path, Request())


X, Y = [info("x")], [info("y")]
ADD = ([node("Add", ["x", "n"], ["y"])], Y)
NORMAL = (("s", np.ones(3, np.float32)),)
SIDES = (("w", np.array([3, 0])),)
PLACE = [
    node("ReduceMax", ["x"], ["m"], keepdims=0),
    node("Cast", ["m"], ["i"], to=TensorProto.INT64),
]
# what is refused, what of it is said, what is said to work instead, and the model that does so
CASES = {
    "unknown": (
        ([node("Other", ["x"], ["y"], domain="my.ops")], X, Y),
        "is no operator of ONNX's, and the model has no function",
        "ONNX's operators",
        ([node("Relu", ["x"], ["y"])], X, Y),
    ),
    "too old": (
        ([node("ImageDecoder", ["x"], ["y"])], [info("x", [9], TensorProto.UINT8)], Y),
        "since opset 20 of its domain; the model's is 17",
        "opset 20",
        None,
    ),
    "runtime's own": (
        ([node("BiasAdd", ["x", "s", "x"], ["y"], domain="com.microsoft")], X, Y, NORMAL),
        "an operator of ONNX Runtime's own",
        "as it was before",
        ([node("Add", ["x", "s"], ["a"]), node("Add", ["a", "x"], ["y"])], X, Y, NORMAL),
    ),
    "runtime's layout": (
        ([node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")], X, Y),
        "a layout for one CPU",
        "'extended' at most",
        ([node("Identity", ["x"], ["y"])], X, Y),
    ),
    "random": (
        ([node("RandomNormalLike", ["x"], ["n"]), *ADD[0]], X, Y),
        "its numbers are random",
        "as an input",
        (ADD[0], [*X, info("n")], Y),
    ),
    "sequence": (
        ([*PLACE, node("SplitToSequence", ["x"], ["q"]), node("SequenceAt", ["q", "i"], ["y"])], X, [info("y", [1, 3])]),
        "holds sequences",
        "tensors in their place",
        ([*PLACE, node("Gather", ["x", "i"], ["y"])], X, [info("y", [3])]),
    ),
    "training": (
        ([node("BatchNormalization", ["x", *"ssss"], ["y", "m", "v"], training_mode=1)], X, Y, NORMAL),
        "training_mode must be 0",
        "for inference",
        ([node("BatchNormalization", ["x", *"ssss"], ["y"])], X, Y, NORMAL),
    ),
    "empty": (
        ([node("Split", ["x", "w"], ["y", "z"], axis=1)], X, [*Y, info("z", [2, 0])], SIDES),
        "hands out no empty tensor",
        "leave 'z' out",
        ([node("Split", ["x", "w"], ["y", "z"], axis=1)], X, Y, SIDES),
    ),
    "no lowering": (
        ([node("Relu", ["x"], ["b"]), node("MaxRoiPool", ["b", "r"], ["y"], pooled_shape=[2, 2])],
         [info("x", [1, 2, 8, 8]), info("r", [3, 5])], [info("y", [3, 2, 2, 2])]),
        "no lowering for MaxRoiPool@17 so far",
        "split the model there",
        ([node("Relu", ["x"], ["b"])], [info("x", [1, 2, 8, 8])], [info("b", [1, 2, 8, 8])]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_to_work_works(name, tmp_path):
    refused, text, remedy, instead = CASES[name]
    opset = 20 if instead is None else 17
    found = inspected(tmp_path, *refused)
    assert found.verdict.startswith("refused: ")
    remarks = [remark for remark in found.refusals if text in remark.text]
    assert remarks
    assert all(remedy in remark.remedy for remark in remarks)
    assert text in found.causes
    if instead is None:
        assert "since opset" not in inspected(tmp_path, *refused, opset=opset).causes
    else:
        assert inspected(tmp_path, *instead).verdict.startswith("converts: ")


def test_nodes_of_one_cause_stand_together(tmp_path):
    nodes = [
        node("Det", ["x"], ["a"]),
        node("Det", ["x"], ["b"]),
        node("Other", ["x"], ["c"], domain="my.ops"),
        node("Add", ["a", "b"], ["y"]),
    ]
    found = inspected(tmp_path, nodes, [info("x", [2, 4, 4])], [info("y", [2]), info("c", None)])
    assert found.verdict == "refused: 3 of 4 nodes can't be converted"
    assert [bool(fate.refused) for fate in found.fates] == [True, True, True, False]
    assert found.fates[3].waits
    assert "Det@17: 'Det_a', 'Det_b'" in found.causes
    assert found.causes.count("must have at most three rows") == 1


def test_a_map_is_refused_at_the_node_that_makes_it(tmp_path):
    made = onnx.ValueInfoProto(name="z")
    made.type.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    nodes = [
        node("Sigmoid", ["x"], ["p"]),
        node("ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]
    found = inspected(tmp_path, nodes, X, [made])
    assert [fate.becomes for fate in found.fates] == [("LOGISTIC",), ()]
    assert "zipmap" in found.fates[1].remedy
    assert inspected(tmp_path, nodes[:1], X, [info("p")]).verdict.startswith("converts")


def test_what_goes_in_and_out_is_refused_with_every_node_shown(tmp_path):
    kind = TensorProto.COMPLEX64
    found = inspected(
        tmp_path,
        [node("Identity", ["x"], ["y"])],
        [info("x", element=kind)],
        [info("y", element=kind)],
    )
    assert len(found.fates) == 1
    assert found.verdict.startswith("refused: none of 1 nodes, but")
    assert all("imaginary" in remark.remedy for remark in found.refusals)


def test_a_type_computed_in_another_is_not_exact(tmp_path):
    wide = [info("x", element=TensorProto.DOUBLE)]
    found = inspected(
        tmp_path, [node("Exp", ["x"], ["y"])], wide, [info("y", element=TensorProto.DOUBLE)]
    )
    assert [(fate.exact, fate.numbers) for fate in found.fates] == [
        (False, "float64 computed in float32")
    ]
    assert inspected(tmp_path, [node("Exp", ["x"], ["y"])], X, Y).fates[0].exact
