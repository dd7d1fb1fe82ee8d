"""Equal things become one, unused ones go, and nothing is expanded or padded without need."""

import numpy as np
import pytest
from models import check, graph_of, names, only

from straightway.ir import edit
from straightway.ir.verify import verify
from straightway.passes import broadcast, dead, dedup, fold, padding
from straightway.passes.types import nested


def swept(step, text, opset=17, **constants):
    return check(text, opset, steps=[fold.run, step.run], tolerance=1e-6, **constants)


def test_equal_nodes_become_one_along_chains():
    text = """(float[2] x) => (y) {
        a = Neg(x)  b = Neg(x)  c = Exp(a)  d = Exp(b)  y = Add(c, d) }"""
    graph = swept(dedup, text)
    assert names(graph) == ["Neg", "Exp", "Add"]
    assert len(set(graph.last.inputs)) == 1


def test_attributes_operands_and_arity_tell_nodes_apart():
    text = """(float[2,4] x) => (y) {
        a = Softmax<axis=0>(x)  b = Softmax<axis=1>(x)  c = Neg(a)  d = Neg(b)
        s, t = Split<axis=1>(x)  u, v, w, z = Split<axis=1>(x)
        y = Sum(c, d) }"""
    text = text.replace("u, v, w, z = Split<axis=1>(x)", "")
    graph = swept(dedup, text)
    assert names(graph).count("Softmax") == 2


def test_integers_and_floats_in_attributes_differ():
    graph = graph_of(
        "(float[2] x) => (y) { a = LeakyRelu<alpha=0.0>(x)  b = LeakyRelu<alpha=-0.0>(x)"
        "  y = Add(a, b) }"
    )
    fold.run(graph)
    dedup.run(graph)
    assert names(graph).count("LeakyRelu") == 2


def test_outputs_stay_apart():
    text = "(float[2] x) => (y, z) { y = Neg(x)  z = Neg(x) }"
    assert names(swept(dedup, text)) == ["Neg", "Neg"]


def test_an_output_may_take_over():
    text = "(float[2] x) => (y, z) { a = Neg(x)  y = Exp(a)  z = Neg(x) }"
    graph = swept(dedup, text)
    assert names(graph) == ["Neg", "Exp"]
    assert [value.name for value in graph.outputs] == ["y", "z"]


def test_random_nodes_stay_apart():
    graph = graph_of(
        """(float[2] x) => (y) {
            a = RandomNormalLike(x)  b = RandomNormalLike(x)  y = Add(a, b) }"""
    )
    fold.run(graph)
    assert dedup.run(graph) == []
    assert names(graph) == ["RandomNormalLike", "RandomNormalLike", "Add"]


def test_equal_constants_become_one():
    a = np.arange(5000, dtype=np.float32)
    text = "(float[5000] x) => (y) { p = Add(x, a)  q = Mul(p, b)  y = Sub(q, c) }"
    other = a.copy()
    other[1234] += 1
    graph = swept(dedup, text, a=a, b=a.copy(), c=other)
    add, mul, sub = graph.nodes
    assert add.inputs[1] is mul.inputs[1]
    assert sub.inputs[1] is not add.inputs[1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.float32([0.0]), np.float32([-0.0])),
        (np.float32([1.0]), np.float64([1.0])),
        (np.float32([1.0]), np.float32([[1.0]])),
    ],
)
def test_constants_that_only_look_equal_stay_apart(first, second):
    graph = graph_of("(float[1] x) => (y) { y = Relu(x) }")
    constants = [edit.constant(graph, array) for array in (first, second)]
    for constant in constants:
        node = graph.first
        node.inputs.append(None)
        edit.set_input(node, len(node.inputs) - 1, constant)
    assert dedup.run(graph) == []


def test_constants_that_are_nan_are_equal():
    graph = graph_of(
        "(float[1] x) => (y) { a = Add(x, p)  y = Add(a, q) }",
        p=np.float32([np.nan]),
        q=np.float32([np.nan]),
    )
    dedup.run(graph)
    assert graph.first.inputs[1] is graph.last.inputs[1]


def test_merged_nodes_keep_all_origins():
    graph = graph_of("(float[2] x) => (y) { a = Neg(x)  b = Neg(x)  y = Add(a, b) }")
    dedup.run(graph)
    assert {source.node for source in graph.first.origins} == {"a", "b"}


def test_unused_nodes_go_backwards():
    text = "(float[2] x) => (y) { a = Neg(x)  b = Exp(a)  c = Add(a, b)  y = Relu(x) }"
    graph = swept(dead, text)
    assert names(graph) == ["Relu"]
    assert graph.inputs[0].users() == [graph.first]


def test_what_only_a_branch_uses_is_used():
    text = """(float[2] x, bool c) => (y) {
        a = Neg(x)  u = Exp(x)
        y = If(c) < then_branch = f () => (t) { q = Abs(x)  t = Relu(a) },
                    else_branch = g () => (e) { e = Exp(a) } > }"""
    graph = swept(dead, text)
    assert names(graph) == ["Neg", "If"]
    assert names(nested(graph)[1]) == ["Relu"]


def test_a_dead_condition_takes_what_only_it_used():
    text = """(float[2] x, bool c) => (y) {
        a = Neg(x)
        z = If(c) < then_branch = f () => (t) { t = Relu(a) },
                    else_branch = g () => (e) { e = Exp(a) } >
        y = Abs(x) }"""
    graph = swept(dead, text)
    assert names(graph) == ["Abs"]
    verify(graph)


def test_a_node_with_one_used_result_stays():
    text = "(float[4] x) => (y) { a, b = Split<axis=0>(x)  y = Neg(b) }"
    assert names(swept(dead, text, 13)) == ["Split", "Neg"]


def test_an_expand_before_a_sum_is_not_needed():
    text = "(float[1,1,8] x, float[2,4,8] z) => (y) { a = Expand(x, s)  y = Add(a, z) }"
    graph = swept(broadcast, text, s=np.array([2, 4, 8]))
    assert only(graph, "Add").inputs[0] is graph.inputs[0]


def test_an_expand_that_widens_the_result_stays():
    text = "(float[1,8] x, float[1,8] z) => (y) { a = Expand(x, s)  y = Add(a, z) }"
    graph = swept(broadcast, text, s=np.array([4, 8]))
    assert only(graph, "Add").inputs[0] is only(graph, "Expand").output


def test_one_of_two_expands_of_a_product_stays():
    text = """(float[1,8] x, float[4,1] z) => (y) {
        a = Expand(x, s)  b = Expand(z, s)  y = Where(c, a, b) }"""
    graph = swept(broadcast, text, s=np.array([4, 8]), c=np.array(True))
    widths = [value.shape for value in only(graph, "Where").inputs[1:]]
    assert widths == [(1, 8), (4, 1)]


def test_an_expand_before_another_operator_stays():
    text = "(float[1,8] x) => (y) { a = Expand(x, s)  y = Concat<axis=0>(a, a) }"
    assert names(swept(broadcast, text, s=np.array([4, 8]))) == ["Expand", "Concat"]


W = np.random.default_rng(1).standard_normal((4, 3, 3, 2)).astype(np.float32)
IMAGE = "(float[2,3,7,6] x) => (y) {{ a = Pad{}  y = Conv{}(a, w) }}"


@pytest.mark.parametrize(
    ("conv", "pads"),
    [("", (1, 2, 3, 0)), ("<pads=[1,0,0,1]>", (2, 2, 3, 1)), ('<auto_pad="VALID">', (1, 2, 3, 0))],
)
def test_zeros_before_a_convolution_become_its_pads(conv, pads):
    text = IMAGE.format("(x, p)", conv)
    graph = swept(padding, text, w=W, p=np.array([0, 0, 1, 2, 0, 0, 3, 0]))
    assert names(graph) == ["Conv"]
    assert graph.first.attrs["pads"] == pads
    assert len(graph.first.origins) == 2


def test_pads_were_an_attribute():
    text = IMAGE.format("<pads=[0,0,1,1,0,0,1,1]>(x)", "")
    assert names(swept(padding, text, 10, w=W)) == ["Conv"]


@pytest.mark.parametrize(
    ("pad", "conv", "amounts"),
    [
        ("(x, p, v)", "", [0, 0, 1, 1, 0, 0, 1, 1]),
        ('<mode="reflect">(x, p)', "", [0, 0, 1, 1, 0, 0, 1, 1]),
        ("(x, p)", "", [0, 0, -1, 1, 0, 0, 1, 1]),
        ("(x, p)", "", [1, 0, 1, 1, 0, 0, 1, 1]),
        ("(x, p)", '<auto_pad="SAME_UPPER">', [0, 0, 1, 1, 0, 0, 1, 1]),
    ],
)
def test_other_pads_stay(pad, conv, amounts):
    text = IMAGE.format(pad, conv)
    constants = {"v": np.float32(1)} if "v" in pad else {}
    graph = swept(padding, text, w=W, p=np.array(amounts), **constants)
    assert names(graph) == ["Pad", "Conv"]


def test_a_pad_with_another_user_stays():
    text = "(float[2,3,7,6] x) => (y, z) { a = Pad(x, p)  y = Conv(a, w)  z = Neg(a) }"
    graph = swept(padding, text, w=W, p=np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    assert names(graph) == ["Pad", "Conv", "Neg"]
