"""Patterns match both ways round, know numbers by value, and say why they fail."""

import numpy as np
import pytest

from straightway.ir import Graph, Node, Op, Source, Value, edit, tensor_type
from straightway.ir.match import Failure, Match, pattern


class Maker:
    """Builds small graphs; every result has the shape of its first operand."""

    def __init__(self, shape=(2, 3)):
        self.graph = Graph()
        self.x = self.input("x", shape)

    def input(self, name, shape=(2, 3)):
        return edit.add_input(self.graph, Value(name, tensor_type("float32", shape)))

    def const(self, number, shape=(), dtype="float32"):
        return edit.constant(self.graph, np.full(shape, number, dtype))

    def __getattr__(self, name):
        return lambda *operands, **attrs: self.node(name, operands, attrs)

    def node(self, name, operands, attrs=None):
        shapes = [v.shape for v in operands if v is not None]
        kind = tensor_type("float32", np.broadcast_shapes(*shapes))
        result = Value(self.graph.fresh(name.lower()), kind)
        origins = frozenset({Source(node=result.name)})
        op = Op(dialect="onnx", name=name, version=17)
        edit.append(self.graph, Node(op, operands, [result], attrs, origins=origins))
        return result


@pytest.fixture
def m():
    return Maker()


@pattern
def silu(p, x):
    return p.Mul(x, p.Sigmoid(x))


@pattern
def halved(p, x):
    return p.either(p.Mul(x, p.const(0.5)), p.Div(x, p.const(2)))


def find(found_pattern, value):
    return found_pattern.match(value.producer)


@pytest.mark.parametrize("swap", [False, True])
def test_commutative_operands_match_both_ways(m, swap):
    gate = m.Sigmoid(m.x)
    y = m.Mul(gate, m.x) if swap else m.Mul(m.x, gate)
    found = find(silu, y)
    assert isinstance(found, Match)
    assert found.values == {"x": m.x}
    assert [node.op.name for node in found.nodes] == ["Mul", "Sigmoid"]
    assert found.root is y.producer


def test_a_match_has_the_origins_of_all_its_nodes(m):
    found = find(silu, m.Mul(m.x, m.Sigmoid(m.x)))
    assert {source.node for source in found.origins} == {"mul", "sigmoid"}


def test_other_operands_keep_their_order(m):
    @pattern
    def difference(p, x):
        return p.Sub(x, p.Relu(x))

    assert find(difference, m.Sub(m.x, m.Relu(m.x)))
    assert not find(difference, m.Sub(m.Relu(m.x), m.x))


def test_a_part_that_stands_twice_is_one_value(m):
    other = m.input("other")
    found = find(silu, m.Mul(other, m.Sigmoid(m.x)))
    assert isinstance(found, Failure)
    assert "another value" in found.reason
    assert not found.complete


def test_a_variable_is_bound_by_trying_on(m):
    """The first choice for x is wrong; it shows only later."""

    @pattern
    def square_of_sum(p, x, y):
        return p.Mul(p.Add(x, y), p.Relu(y))

    y = m.Mul(m.Add(m.x, m.Neg(m.x)), m.Relu(m.x))
    found = find(square_of_sum, y)
    assert found.values["y"] is m.x
    assert found.values["x"].name == "neg"


def test_a_result_used_outside_fails_and_says_by_whom(m):
    gate = m.Sigmoid(m.x)
    y = m.Mul(m.x, gate)
    m.Neg(gate)
    found = find(silu, y)
    assert not found
    assert found.complete
    assert "also used by <Neg@17" in found.reason


def test_a_graph_output_inside_is_used_outside(m):
    gate = m.Sigmoid(m.x)
    y = m.Mul(m.x, gate)
    edit.set_outputs(m.graph, [y, gate])
    found = find(silu, y)
    assert not found
    assert "also used by <ir.exit" in found.reason


def test_the_root_may_be_used_anywhere(m):
    y = m.Mul(m.x, m.Sigmoid(m.x))
    m.Neg(y)
    m.Relu(y)
    assert find(silu, y)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (3,), (2, 3)])
def test_a_uniform_constant_of_any_rank_is_its_number(m, shape):
    assert find(halved, m.Mul(m.x, m.const(0.5, shape)))


def test_a_constant_that_widens_is_not_a_number(m):
    found = find(halved, m.Mul(m.x, m.const(0.5, (1, 1, 1))))
    assert not found
    assert "widens" in found.reason


def test_without_types_only_rank_zero_widens_nothing(m):
    m.x.type = None
    for shape, fits in [((), True), ((1,), False)]:
        constant = m.const(0.5, shape)
        result = Value(m.graph.fresh("y"), None)
        op = Op(dialect="onnx", name="Mul", version=17)
        node = edit.append(m.graph, Node(op, [m.x, constant], [result]))
        assert bool(halved.match(node)) is fits


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.array([0.5, 0.5, 0.4], np.float32), "not 0.5 everywhere"),
        (np.float32(0.25), "is 0.25, not 0.5"),
        (np.float32(np.nan), "is nan, not 0.5"),
        (np.zeros((2, 0), np.float32), "holds no number"),
    ],
)
def test_other_constants_fail_with_what_they_are(m, array, reason):
    constant = edit.constant(m.graph, np.asarray(array))
    result = Value("y", m.x.type)
    op = Op(dialect="onnx", name="Mul", version=17)
    found = halved.match(edit.append(m.graph, Node(op, [m.x, constant], [result])))
    assert reason in found.reason


def test_numbers_are_compared_as_exporters_print_them(m):
    @pattern
    def sixth(p, x):
        return p.Mul(x, p.const(1 / 6))

    assert find(sixth, m.Mul(m.x, m.const(0.166667)))
    assert not find(sixth, m.Mul(m.x, m.const(0.1666)))
    assert find(sixth, m.Mul(m.x, m.const(1 / 6, (), "float16")))


def test_a_runtime_operand_is_no_constant(m):
    found = find(halved, m.Mul(m.x, m.Relu(m.x)))
    assert not found


def test_either_tries_its_options(m):
    assert find(halved, m.Div(m.x, m.const(2)))
    assert not find(halved, m.Div(m.x, m.const(0.5)))
    assert halved.roots == {"Mul", "Div"}


def test_more_operands_than_named_need_a_condition(m):
    @pattern
    def plain(p, x):
        return p.Clip(x)

    @pattern
    def looked_at(p, x):
        return p.Clip(x, where=lambda node: "" if len(node.inputs) == 3 else "too few", label="c")

    y = m.Clip(m.x, m.const(0), m.const(6))
    assert "more than 1 operands" in find(plain, y).reason
    found = find(looked_at, y)
    assert found.labels["c"] is y.producer
    assert find(looked_at, m.Clip(m.x)).reason == "too few"


def test_an_absent_operand_does_not_match(m):
    @pattern
    def clipped(p, x, low):
        return p.Clip(x, low, p.const(6))

    assert not find(clipped, m.Clip(m.x, None, m.const(6)))
    assert find(clipped, m.Clip(m.x, m.const(0), m.const(6)))


def test_a_pattern_ends_in_a_node():
    with pytest.raises(TypeError, match="must end in a node"):
        pattern(lambda _p, x: x)


def test_a_node_with_two_results_ends_no_match(m):
    op = Op(dialect="onnx", name="Mul", version=17)
    results = [Value("a", m.x.type), Value("b", m.x.type)]
    node = edit.append(m.graph, Node(op, [m.x, m.x], results))
    assert "2 results" in silu.match(node).reason


def test_many_choices_stay_fast(m):
    """Each level has two orders and two options; the wrong ones are cut at once."""

    @pattern
    def tower(p, x):
        part = x
        for _ in range(12):
            part = p.either(p.Add(part, p.Relu(part)), p.Mul(part, p.Neg(part)))
        return part

    value = m.x
    for _ in range(12):
        value = m.Add(m.Relu(value), value)
    assert find(tower, value)
