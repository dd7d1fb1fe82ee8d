"""Reading what was written, and files that want to do harm."""

import struct
import time

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from hypothesis import given, settings, strategies as st
from row_samples import SAMPLES
from row_samples.sample import write_down

from straightway.errors import InvalidModel, InvalidRequest
from straightway.ir import Graph, Node, Op, Quant, Value, edit, tensor_type
from straightway.tflite.read import IDENTIFIER, describe, read
from straightway.tflite.write import write


def two_node_graph() -> Graph:
    """CONV_2D and RELU, int8 weights with a scale per channel."""
    graph = Graph(name="small")
    x = edit.add_input(graph, Value("x", tensor_type(np.float32, (2, 5, 6, 3))))
    w = Value("w", tensor_type(np.int8, (4, 1, 1, 3)), np.ones((4, 1, 1, 3), np.int8))
    w.quant = Quant(scale=np.float32([1, 2, 3, 4]), zero_point=np.zeros(4, np.int64), axis=0)
    b = Value("b", tensor_type(np.float32, (4,)), np.zeros(4, np.float32))
    y, z = (Value(name, tensor_type(np.float32, (2, 5, 6, 4))) for name in "yz")
    attrs = {"strideH": 1, "strideW": 1, "padding": 1, "fusedActivationFunction": 3}
    edit.append(graph, Node(Op(dialect="tflite", name="CONV_2D"), [x, w, b], [y], attrs))
    edit.append(graph, Node(Op(dialect="tflite", name="RELU"), [y], [z]))
    edit.set_outputs(graph, [z])
    return graph


def small() -> bytes:
    return bytes(write(two_node_graph()).data)


def test_what_was_written_is_read(tmp_path):
    path = tmp_path / "small.tflite"
    path.write_bytes(small())
    found = read(path)
    assert found.size_bytes == len(small())
    (graph,) = found.subgraphs
    assert found.main is graph
    assert [o.kind for o in graph.operators] == ["CONV_2D", "RELU"]
    tensors = [graph.tensors[k] for k in graph.operators[0].inputs]
    assert [t.name for t in tensors] == ["x", "w", "b"]
    assert [t.constant_bytes for t in tensors] == [0, 12, 16]
    assert [t.dtype for t in tensors] == ["float32", "int8", "float32"]
    assert tensors[0].shape == tensors[0].signature == (2, 5, 6, 3)
    assert tensors[0].quant is None
    assert tensors[1].quant.scale.tolist() == [1, 2, 3, 4]
    assert tensors[1].quant.axis == 0
    assert graph.operators[0].options["padding"] == 1
    assert graph.operators[0].options["fusedActivationFunction"] == 3
    assert graph.operators[0].version == 5
    (signature,) = found.signatures
    assert signature.inputs == {"x": graph.inputs[0]}
    assert signature.outputs == {"z": graph.outputs[0]}


@pytest.mark.parametrize(
    "sample", [s for s in SAMPLES if s.dtype.kind != "c" and s.op != "RFFT2D"], ids=lambda s: s.op
)
def test_every_row_is_read_back(sample):
    made = write_down(sample)
    found = describe(write(made.graph).data)
    (operator,) = found.main.operators
    assert operator.kind == sample.op
    assert operator.version == sample.row.version(made.node)
    names = [None if v is None else v.name for v in made.node.inputs]
    assert [None if k < 0 else found.main.tensors[k].name for k in operator.inputs] == names
    for value, k in zip(made.node.outputs, operator.outputs, strict=True):
        assert found.main.tensors[k].shape == value.shape
        assert found.main.tensors[k].dtype == value.dtype.name
    for name, value in made.node.attrs.items():
        option = operator.options[name]
        if isinstance(value, Graph):
            assert found.subgraphs[option].name == value.name
        else:
            assert option == pytest.approx(value)


def custom() -> bytes:
    model = schema.ModelT.InitFromPackedBuf(small(), 0)
    model.operatorCodes[1].builtinCode = schema.BuiltinOperator.CUSTOM
    model.operatorCodes[1].deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    model.operatorCodes[1].customCode = b"Mine"
    model.subgraphs[0].tensors[0].shapeSignature = np.int32([-1, 5, 6, 3])
    model.subgraphs[0].tensors[0].isVariable = True
    model.subgraphs[0].operators[0].inputs = np.int32([0, 1, -1])
    return packed(model)


def packed(model) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def test_custom_ops_open_sizes_variables_and_absent_operands():
    main = describe(custom()).main
    assert main.operators[1].kind == "Mine"
    assert main.operators[1].is_custom
    assert not main.operators[0].is_custom
    assert main.operators[0].inputs[2] == -1
    assert main.tensors[0].signature == (-1, 5, 6, 3)
    assert main.tensors[0].is_variable


def test_constants_behind_the_flatbuffer():
    model = schema.ModelT.InitFromPackedBuf(small(), 0)
    model.buffers[1].data, model.buffers[1].offset, model.buffers[1].size = None, 2, 12
    sizes = {t.name: t.constant_bytes for t in describe(packed(model)).main.tensors}
    assert sizes["w"] == 12
    model.buffers[1].size = 1 << 40
    with pytest.raises(InvalidModel, match="a buffer ends at byte"):
        describe(packed(model))


def broken(change) -> bytes:
    model = schema.ModelT.InitFromPackedBuf(small(), 0)
    change(model)
    return packed(model)


def no_subgraph(model):
    model.subgraphs = []


def wrong_code(model):
    model.subgraphs[0].operators[0].opcodeIndex = 9


def wrong_operand(model):
    model.subgraphs[0].operators[0].inputs = np.int32([0, 77, 2])


def negative_operand(model):
    model.subgraphs[0].operators[0].inputs = np.int32([0, -2, 2])


def wrong_buffer(model):
    model.subgraphs[0].tensors[0].buffer = 44


def wrong_input(model):
    model.subgraphs[0].inputs = np.int32([-1])


def wrong_signature(model):
    model.signatureDefs[0].subgraphIndex = 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_subgraph, "this has none"),
        (wrong_code, "2 operator codes; number 9"),
        (wrong_operand, "tensors; number 77"),
        (negative_operand, "tensors; number -2"),
        (wrong_buffer, "buffers; number 44"),
        (wrong_input, "tensors; number -1"),
        (wrong_signature, "1 subgraphs; number 3"),
    ],
)
def test_indices_that_lead_nowhere(change, said):
    with pytest.raises(InvalidModel, match=said):
        describe(broken(change))


@pytest.mark.parametrize(
    "data", [b"", b"TFL3", b"\x00" * 64, b"just text, no model at all", IDENTIFIER * 10]
)
def test_what_is_no_model(data, tmp_path):
    path = tmp_path / "x.tflite"
    path.write_bytes(data)
    with pytest.raises(InvalidModel, match=r"x\.tflite"):
        read(path)


def test_a_directory_is_no_model(tmp_path):
    with pytest.raises(InvalidRequest, match="directory"):
        read(tmp_path)


def test_every_truncation_is_refused_or_read():
    data = small()
    for end in range(len(data)):
        try:
            describe(data[:end])
        except InvalidModel:
            continue


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_flipped_bytes_are_refused_or_read(data):
    raw = bytearray(small())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(8, len(raw) - 1))
        raw[at] = data.draw(st.integers(0, 255))
    try:
        describe(bytes(raw))
    except InvalidModel:
        return


def test_shared_vectors_do_not_multiply():
    """Thousands of tables that all point at one huge vector are refused at once."""
    builder = flatbuffers.Builder(1 << 20)
    shape = builder.CreateNumpyVector(np.zeros(100_000, np.int32))
    schema.TensorStart(builder)
    schema.TensorAddShape(builder, shape)
    tensor = schema.TensorEnd(builder)
    schema.SubGraphStartTensorsVector(builder, 50_000)
    for _ in range(50_000):
        builder.PrependUOffsetTRelative(tensor)
    tensors = builder.EndVector()
    schema.SubGraphStart(builder)
    schema.SubGraphAddTensors(builder, tensors)
    graph = schema.SubGraphEnd(builder)
    schema.ModelStartSubgraphsVector(builder, 1)
    builder.PrependUOffsetTRelative(graph)
    graphs = builder.EndVector()
    schema.ModelStart(builder)
    schema.ModelAddSubgraphs(builder, graphs)
    builder.Finish(schema.ModelEnd(builder), IDENTIFIER)
    start = time.process_time()
    with pytest.raises(InvalidModel, match="honestly"):
        describe(bytes(builder.Output()))
    assert time.process_time() - start < 10


def test_a_vector_longer_than_the_file():
    data = bytearray(small())
    model = schema.Model.GetRootAs(data, 0)
    vector = model._tab.Vector(model._tab.Offset(8))
    data[vector - 4 : vector] = struct.pack("<I", 0xFFFFFFFF)
    with pytest.raises(InvalidModel):
        describe(bytes(data))
