"""TensorFlow Lite Micro and Vela: int8 files run and compiled as devices take them."""

import numpy as np
import pytest

from straightway.errors import InvalidRequest, ToolFailed
from straightway.ir import Graph, Node, Op, Value, edit, tensor_type
from straightway.ir.graph import Quant
from straightway.run import litert, micro, micro_engine, vela
from straightway.run.process import Child
from straightway.tflite.write import write


@pytest.fixture(scope="module")
def child():
    with Child(engines=["litert"]) as child:
        yield child


def save(path, op="ADD", dtype=np.int8, attrs=None):
    """A file of one op on inputs of one shape."""
    graph = Graph(name="one")
    values = [Value(f"x{k}", tensor_type(dtype, (1, 4, 4, 8))) for k in range(2)]
    result = Value("y", tensor_type(dtype, (1, 4, 4, 8)))
    if dtype == np.int8:
        for value in (*values, result):
            value.quant = Quant(scale=np.array([0.1], np.float32), zero_point=np.array([3]))
    for value in values:
        edit.add_input(graph, value)
    attrs = {"fusedActivationFunction": "NONE"} if attrs is None else attrs
    node = Node(Op(dialect="tflite", name=op), values, [result], attrs, name="one")
    edit.append(graph, node)
    edit.set_outputs(graph, [result])
    path.write_bytes(write(graph).data)
    return path


def inputs(dtype=np.int8):
    rng = np.random.default_rng(0)
    return [rng.integers(-100, 100, (1, 4, 4, 8)).astype(dtype) for _ in range(2)]


def test_micro_and_litert_agree(child, tmp_path):
    path = save(tmp_path / "add.tflite")
    (got,) = child.call(micro.run(path, inputs()))
    (want,) = child.call(litert.run(path, inputs(), delegate=False)).outputs
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, want)


def test_an_operator_without_a_kernel_there_is_named(child, tmp_path):
    path = save(tmp_path / "atan2.tflite", "ATAN2", np.float32, {})
    with pytest.raises(ToolFailed, match=r"(?i)atan2"):
        child.call(micro.run(path, inputs(np.float32)))


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ([np.zeros((1, 4, 4, 8), np.float32)], r"input 0 is int8\[1, 4, 4, 8\]; got float32"),
        ([np.zeros((1, 4, 4), np.int8)], r"got int8\[1, 4, 4\]"),
        ([*inputs(), *inputs()], "no input 2"),
    ],
)
def test_inputs_that_do_not_fit_are_told(child, tmp_path, arrays, text):
    with pytest.raises(InvalidRequest, match=text):
        child.call(micro.run(save(tmp_path / "add.tflite"), arrays))


def test_what_is_not_installed_is_named_with_the_line_to_type(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tflite_micro", None)
    with pytest.raises(ToolFailed, match=r"pip install 'straightway\[mcu\]'"):
        micro_engine.run({"path": str(save(tmp_path / "add.tflite"))}, inputs())
    monkeypatch.setattr(vela.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ToolFailed, match=r"pip install 'straightway\[npu\]'"):
        vela.compile_for(tmp_path / "add.tflite")


def test_vela_takes_int8_whole_and_refuses_float(tmp_path):
    taken = vela.compile_for(save(tmp_path / "int8.tflite"))
    assert taken.whole
    assert not taken.refused
    assert taken.cycles > 0
    assert taken.time_s > 0
    assert 0 < taken.sram_bytes < 10_000
    left = vela.compile_for(save(tmp_path / "float.tflite", dtype=np.float32), "ethos-u85-256")
    assert not left.whole
    assert [(one.op, one.name) for one in left.refused] == [("ADD", "y")]
    assert "Float32" in left.refused[0].reason


def test_vela_says_why_it_failed(tmp_path):
    (path := tmp_path / "garbage.tflite").write_bytes(b"no model" * 10)
    with pytest.raises(ToolFailed, match=r"garbage\.tflite"):
        vela.compile_for(path)
    with pytest.raises(InvalidRequest, match="ethos-u55-128"):
        vela.compile_for(path, "ethos-u99-1")
