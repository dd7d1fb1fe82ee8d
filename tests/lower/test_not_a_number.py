"""A NaN passes comparisons with constants, also where no delegate takes them."""

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnx import TensorProto, helper, numpy_helper, save

from straightway.flow.convert import convert

X = np.array([np.nan, -2, 0.5, 9], np.float32)
LOW, HIGH = np.float32(-0.5), np.float32(2)


@pytest.mark.parametrize(
    ("op", "bounds", "bounded"),
    [
        ("Max", [LOW], np.maximum(X, LOW)),
        ("Min", [LOW], np.minimum(X, LOW)),
        ("Clip", [LOW, HIGH], np.clip(X, LOW, HIGH)),
    ],
)
def test_a_nan_stays_beside_constants(op, bounds, bounded, tmp_path):
    names = [f"bound{place}" for place in range(len(bounds))]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)],
        [numpy_helper.from_array(np.asarray(b), n) for b, n in zip(bounds, names, strict=True)],
    )
    imports = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=imports, ir_version=10), tmp_path / "m.onnx")
    convert(tmp_path / "m.onnx", tmp_path / "m.tflite", verify=False)
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    engine = Interpreter(str(tmp_path / "m.tflite"), experimental_op_resolver_type=plain)
    engine.allocate_tensors()
    engine.set_tensor(engine.get_input_details()[0]["index"], X)
    engine.invoke()
    found = engine.get_tensor(engine.get_output_details()[0]["index"])
    assert np.array_equal(found, bounded, equal_nan=True)


@pytest.mark.parametrize(("op", "oracle"), [("Sinh", np.sinh), ("Cosh", np.cosh)])
def test_hyperbolic_functions_end_where_floats_do(op, oracle, tmp_path):
    x = np.array([0.0, 1e-3, 1, -20, 88.9, -89.4], np.float32)
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
    )
    imports = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=imports, ir_version=10), tmp_path / "m.onnx")
    convert(tmp_path / "m.onnx", tmp_path / "m.tflite", verify=False)
    engine = Interpreter(str(tmp_path / "m.tflite"))
    engine.allocate_tensors()
    engine.set_tensor(engine.get_input_details()[0]["index"], x)
    engine.invoke()
    found = engine.get_tensor(engine.get_output_details()[0]["index"])
    assert np.allclose(found, oracle(x.astype(np.float64)), rtol=2e-5, atol=2e-7)
