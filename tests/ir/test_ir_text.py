"""The graph as text, its types, and every fault that the verifier knows."""

import ml_dtypes
import numpy as np
import pytest

from straightway.errors import Bug
from straightway.ir import Graph, Node, Op, Value, edit, tensor_type
from straightway.ir.text import node_text
from straightway.ir.types import SHORT_NAMES
from straightway.ir.verify import verify

F4 = tensor_type("float32", (4,))


def made(*inputs, result="y", **attrs):
    op = Op(dialect="onnx", name="Gemm", version=13)
    return Node(op, inputs, [Value(result, F4)], attrs, name="fc")


@pytest.fixture
def graph():
    found = Graph(name="g")
    x = edit.add_input(found, Value("x", F4))
    first = edit.append(found, made(x, result="a"))
    second = edit.append(found, made(first.output, result="b"))
    edit.set_outputs(found, [second.output])
    return found


def test_operands_and_attributes_are_printed_short():
    graph = Graph()
    matrix = edit.constant(graph, np.zeros((3, 4), np.float32))
    number = edit.constant(graph, np.array(2, np.int64))
    text = node_text(
        made(
            Value("x", F4), matrix, None, number,
            alpha=1.5, mode="up", few=np.array([1, 2]), many=np.zeros((3, 4)), inner=Graph(name="body"),
        )
    )  # fmt: skip
    assert text == (
        "%y: f32[4] = Gemm@13(%x, const f32[3,4], none, const i64[] 2) "
        "{alpha=1.5, few=[1, 2], inner=graph body, many=array[3, 4], mode='up'}  # 'fc'"
    )


def test_values_print_their_type_or_a_question_mark():
    assert repr(Value("x", F4)) == "%x: f32[4]"
    assert repr(Value("x", None)) == "%x: ?"
    assert repr(made()) == "<Gemm@13 'fc'>"
    assert str(Op(dialect="com.acme", name="Fancy")) == "com.acme.Fancy"


@pytest.mark.parametrize(("dtype", "short"), SHORT_NAMES.items())
def test_types_have_short_names(dtype, short):
    assert str(tensor_type(dtype, (2, "N", ""))) == f"{short}[2,N,?]"


def test_types_count_elements_and_bytes():
    kind = tensor_type(ml_dtypes.bfloat16, [2, 3, 5])
    assert (kind.rank, kind.size, kind.size_bytes) == (3, 30, 60)
    assert tensor_type("float64", ()).size == 1
    assert tensor_type("float64", (3, 0)).size_bytes == 0


def test_a_value_without_a_type_says_so():
    with pytest.raises(ValueError, match="value 'x' has no type"):
        _ = Value("x", None).shape


def test_a_good_graph_has_no_faults(graph):
    verify(graph, typed=True)


def unlink(graph):
    graph.last.previous = None


def foreign(graph):
    graph.last.graph = Graph()


def twice(graph):
    graph.last.outputs = list(graph.first.outputs)


def orphan(graph):
    graph.last.output.producer = None


def constant_result(graph):
    graph.last.output.const = np.zeros(4, np.float32)


def wrong_last(graph):
    graph.last = graph.first


def lost_output(graph):
    edit.set_outputs(graph, [Value("nobody", F4)])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (unlink, "not linked where it stands"),
        (foreign, "not linked where it stands"),
        (twice, "made twice"),
        (orphan, "not its producer"),
        (constant_result, "a constant and the result"),
        (wrong_last, "the last node is not the last"),
        (lost_output, "uses .*nobody.* before it is made"),
    ],
)
def test_the_verifier_names_each_fault(damage, message, graph):
    damage(graph)
    with pytest.raises(Bug, match=f"graph 'g' is broken: .*{message}"):
        verify(graph)


def test_absent_operands_are_no_fault(graph):
    edit.append(graph, made(None, graph.inputs[0], None, result="c"))
    verify(graph, typed=True)


def test_a_node_can_be_taken_out_of_the_middle(graph):
    first, second = graph.nodes
    edit.replace_uses(first.output, graph.inputs[0])
    edit.remove(first)
    verify(graph)
    assert list(graph.nodes) == [second]
    assert graph.first is graph.last is second


def test_a_producer_takes_over_what_follows(graph):
    first, second = graph.nodes
    result = second.output
    edit.absorb(first, second)
    verify(graph)
    assert first.output is result
    assert graph.outputs == [result]
