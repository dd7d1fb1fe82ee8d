"""Models of unusual graphs are given eight bits, or refused with a reason."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from straightway.errors import InvalidRequest
from straightway.flow.convert import Request, convert
from straightway.flow.quantize import quantize
from straightway.flow.quantize_request import QuantizeRequest
from straightway.tflite.read import describe

RNG = np.random.default_rng(5)
SHAPE = (1, 4, 6, 5)
FILTERS = RNG.normal(0, 0.3, (4, 4, 3, 3)).astype(np.float32)
PADS = [1, 1, 1, 1]


def conv(x, result):
    return helper.make_node("Conv", [x, "w"], [result], name=f"n_{result}", pads=PADS)


def info(name, shape=SHAPE, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(path, nodes, outputs, **constants):
    held = [
        numpy_helper.from_array(np.asarray(a), n) for n, a in {"w": FILTERS, **constants}.items()
    ]
    graph = helper.make_graph(nodes, "g", [info("x")], outputs, held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def branch(op):
    return helper.make_graph([helper.make_node(op, ["c"], [op])], op, [], [info(op)])


@pytest.fixture
def conditional(tmp_path):
    """An If that reads the result of a convolution, and asks for its sum."""
    nodes = [
        conv("x", "c"),
        helper.make_node("ReduceSum", ["c"], ["s"], keepdims=0),
        helper.make_node("Greater", ["s", "zero"], ["positive"]),
        helper.make_node(
            "If", ["positive"], ["y"], then_branch=branch("Relu"), else_branch=branch("Sigmoid")
        ),
    ]
    return save(tmp_path / "m.onnx", nodes, [info("y")], zero=np.float32(0))


def random(**options):
    return QuantizeRequest(random=2, **options)


def test_graphs_inside_read_what_is_rounded(conditional, tmp_path):
    done = quantize(conditional, tmp_path / "q.onnx", random())
    assert not any("CONV" in reason for reason in done.floats.values())
    found = convert(tmp_path / "q.onnx", tmp_path / "q.tflite")
    assert found.verification.equal
    text = [remark.text for remark in found.remarks]
    assert any("1 CONV_2D" in one for one in text)


def test_outputs_may_be_inputs(tmp_path):
    path = save(tmp_path / "m.onnx", [conv("x", "y")], [info("y"), info("x")])
    quantize(path, tmp_path / "q.onnx", random())
    assert [v.name for v in onnx.load(tmp_path / "q.onnx").graph.output] == ["y", "x"]
    assert convert(tmp_path / "q.onnx").verification.equal


def test_rounded_models_are_not_rounded_again(tmp_path):
    path = save(tmp_path / "m.onnx", [conv("x", "y")], [info("y")])
    quantize(path, tmp_path / "q.onnx", random())
    with pytest.raises(InvalidRequest, match=r"quantized already \(2 values .* convert"):
        quantize(tmp_path / "q.onnx", tmp_path / "again.onnx", random())


def test_the_target_is_that_of_quantizing(tmp_path):
    """Ethos-U takes integers in and out; another target is meant where one is named."""
    path = save(tmp_path / "m.onnx", [conv("x", "y")], [info("y")])
    quantize(path, tmp_path / "q.onnx", random(target="ethos-u55-128"))
    own = convert(tmp_path / "q.onnx")
    other = convert(tmp_path / "q.onnx", request=Request(target="litert"))
    assert [input_type(one) for one in (own, other)] == ["int8", "float32"]


def input_type(conversion):
    main = describe(conversion.data).main
    return main.tensors[main.inputs[0]].dtype


def compared(path, op, scales, zero=3):
    """A QDQ model that compares two inputs."""
    constants = {"z": np.int8(zero)}
    nodes = []
    for name, scale in zip("ab", scales, strict=True):
        constants[f"s{name}"] = np.float32(scale)
        nodes += [
            helper.make_node("QuantizeLinear", [name, f"s{name}", "z"], [f"{name}q"]),
            helper.make_node("DequantizeLinear", [f"{name}q", f"s{name}", "z"], [f"{name}d"]),
        ]
    nodes.append(helper.make_node(op, ["ad", "bd"], ["y"], name="compare"))
    held = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    kind = info("y", (40, 50), TensorProto.BOOL)
    graph = helper.make_graph(nodes, "g", [info(n, (40, 50)) for n in "ab"], [kind], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("op", ["Greater", "Equal"])
@pytest.mark.parametrize(
    ("scales", "integer"),
    [((0.03, 0.03), True), ((1.0, 1.0), False), ((0.03, 0.02), False), ((0.001, 0.001), False)],
)
def test_comparisons_tell_apart_what_the_model_does(tmp_path, op, scales, integer):
    found = convert(compared(tmp_path / "m.onnx", op, scales))
    assert found.verification.equal
    assert integer == any(f"1 {op.upper()}" in remark.text for remark in found.remarks)
