"""Edges, names, order and origins stay true whatever is edited."""

import numpy as np
import pytest

from straightway.errors import Bug
from straightway.ir import Graph, Node, Op, Source, Value, edit, tensor_type
from straightway.ir.text import to_text
from straightway.ir.verify import verify

F4 = tensor_type("float32", (4,))


def node(name, *inputs, result=None, graph=None, origin=""):
    value = Value(result or name.lower(), F4)
    origins = frozenset({Source(node=origin)}) if origin else frozenset()
    made = Node(Op(dialect="onnx", name=name, version=17), inputs, [value], origins=origins)
    return edit.append(graph, made) if graph is not None else made


@pytest.fixture
def chain():
    """X -> Relu -> Neg, the result returned."""
    graph = Graph(name="chain")
    x = edit.add_input(graph, Value("x", F4))
    relu = node("Relu", x, graph=graph, origin="first")
    neg = node("Neg", relu.output, graph=graph, origin="second")
    edit.set_outputs(graph, [neg.output])
    return graph


def test_uses_and_producers_agree(chain):
    relu, neg = chain.nodes
    (x,) = chain.inputs
    assert x.users() == [relu]
    assert relu.output.producer is relu
    assert relu.output.users() == [neg]
    assert chain.is_output(neg.output)
    assert not chain.is_output(relu.output)
    verify(chain, typed=True)


def test_insert_before_keeps_the_order(chain):
    relu, neg = chain.nodes
    made = edit.insert(chain, node("Exp", relu.output), before=neg)
    edit.set_input(neg, 0, made.output)
    assert [n.op.name for n in chain.nodes] == ["Relu", "Exp", "Neg"]
    assert (made.previous, made.next) == (relu, neg)
    verify(chain)


def test_replace_moves_uses_origins_and_the_output_name(chain):
    _, neg = chain.nodes
    made = edit.insert(chain, node("Abs", neg.inputs[0]), before=neg)
    edit.replace(neg, [made.output], frozenset({Source(node="more")}))
    assert [v.name for v in chain.outputs] == ["neg"]
    assert chain.outputs == [made.output]
    assert {source.node for source in made.origins} == {"second", "more"}
    verify(chain)


def test_a_used_node_is_not_removed(chain):
    relu, _ = chain.nodes
    with pytest.raises(ValueError, match="still used"):
        edit.remove(relu)


def test_removing_while_walking(chain):
    for step in chain.nodes:
        value = step.inputs[0]
        edit.replace(step, [value])
    assert chain.first is None
    assert chain.last is None
    assert chain.outputs == chain.inputs
    verify(chain)


def test_adding_after_the_current_node_is_walked_too(chain):
    seen = []
    for step in chain.nodes:
        seen.append(step.op.name)
        if step.op.name == "Relu":
            edit.insert(chain, node("Exp", step.output), before=step.next)
    assert seen == ["Relu", "Exp", "Neg"]


def test_fresh_names_are_new():
    graph = Graph()
    names = [graph.fresh("a") for _ in range(3)] + [graph.fresh("a_1"), graph.fresh("b")]
    assert len(set(names)) == len(names)
    assert names[0] == "a"


def test_values_come_once_each(chain):
    constant = edit.constant(chain, np.ones(4, np.float32))
    _, neg = chain.nodes
    edit.insert(chain, node("Add", constant, constant), before=neg)
    values = list(chain.values())
    assert len(values) == len(set(values))
    assert constant in values


def test_text_is_stable(chain):
    assert to_text(chain) == (
        "graph chain(%x: f32[4]) -> (%neg)\n"
        "  %relu: f32[4] = Relu@17(%x)\n"
        "  %neg: f32[4] = Neg@17(%relu)\n"
    )


def test_the_verifier_finds_an_unknown_use(chain):
    relu, _ = chain.nodes
    chain.inputs[0].uses.clear()
    with pytest.raises(Bug, match="does not know its use 0"):
        verify(chain)
    edit.set_input(relu, 0, chain.inputs[0])
    verify(chain)


def test_the_verifier_finds_a_wrong_order(chain):
    relu, neg = chain.nodes
    edit.set_input(relu, 0, neg.output)
    with pytest.raises(Bug, match="before it is made"):
        verify(chain)


def test_the_verifier_finds_missing_types(chain):
    _, neg = chain.nodes
    neg.output.type = None
    verify(chain)
    with pytest.raises(Bug, match="has no type"):
        verify(chain, typed=True)


def test_types_know_what_is_static():
    kind = tensor_type("float32", (2, "N"))
    assert str(kind) == "f32[2,N]"
    assert not kind.is_static
    with pytest.raises(ValueError, match="unknown dimensions"):
        _ = kind.dims
    assert tensor_type("int8", (2, 3)).size_bytes == 6
