"""The sweep types every value, folds what is constant, and takes the branch that is known."""

import numpy as np
import onnx
import pytest
from evaluate_graph import evaluate, ingest_model, run
from models import assert_same, check, graph_of, model, names, only
from onnx import helper

from straightway.errors import InvalidModel
from straightway.ir import tensor_type
from straightway.ir.verify import verify
from straightway.passes import fold
from straightway.passes.types import nested


def swept(text, opset=17, **constants):
    return check(text, opset, steps=[fold.run], **constants)


def test_shapes_of_static_values_fold():
    graph = swept(
        """(float[2,8,4,4] x) => (y) {
            s = Shape(x)  b = Gather(s, zero)  u = Unsqueeze(b, axes)
            t = Concat<axis=0>(u, rest)  y = Reshape(x, t) }""",
        zero=np.int64(0),
        axes=np.array([0]),
        rest=np.array([-1]),
    )
    assert names(graph) == ["Reshape"]
    assert graph.outputs[0].type == tensor_type("float32", (2, 128))


def test_a_part_of_a_shape_folds_with_start_and_end():
    graph = swept("(float[2,3,5] x) => (y) { y = Shape<start=-2, end=3>(x) }")
    np.testing.assert_array_equal(only(graph, "Identity").inputs[0].const, [3, 5])


def test_size_folds():
    graph = swept("(float[2,3,5] x) => (y) { y = Size(x) }")
    assert only(graph, "Identity").inputs[0].const == 30


def test_known_sizes_of_a_dynamic_shape_fold():
    """Only the number of columns is open."""
    graph = swept(
        """(float[3,4] x) => (y, z) {
            i = NonZero(x)  s = Shape(i)  y = Gather(s, zero)  z = Gather(s, one) }""",
        zero=np.int64(0),
        one=np.int64(1),
        feeds=[np.eye(3, 4, dtype=np.float32)],
    )
    assert names(graph).count("Gather") == 1
    assert graph.outputs[0].producer.inputs[0].const == 2


def test_dynamic_dimensions_stay_open_and_keep_their_rank():
    graph = swept(
        """(float[3,4] x) => (y) {
            i = NonZero(x)  s = Shape(i)  f = Cast<to=1>(i)  y = Reshape(f, s) }""",
        feeds=[np.eye(3, 4, dtype=np.float32)],
    )
    kind = graph.outputs[0].type
    assert kind.rank == 2
    assert not kind.is_static


def test_what_the_file_declares_fills_what_inference_leaves_open():
    text = """(float[3,4] x, int64[2] s) => (float[6,2] y) <float[6,2] r>
        { r = Reshape(x, s)  y = Relu(r) }"""
    graph = graph_of(text)
    fold.run(graph)
    assert graph.outputs[0].type == tensor_type("float32", (6, 2))


def test_constants_take_no_nodes():
    graph = swept(
        """(float[2] x) => (y) {
            a = Constant<value_floats=[1.0, 2.0]>()  b = Constant<value_float=3.0>()
            c = Add(a, b)  y = Mul(x, c) }"""
    )
    assert names(graph) == ["Mul"]
    np.testing.assert_array_equal(graph.first.inputs[1].const, [4, 5])


def test_a_constant_output_keeps_its_name_and_a_node():
    text = "(float[2] x) => (y, z) { y = Constant<value_floats=[1.0, 2.0]>()  z = Add(x, y) }"
    graph = swept(text)
    assert names(graph) == ["Identity", "Add"]
    assert only(graph, "Add").inputs[1].const is not None
    before = [value.name for value in graph.values()]
    assert fold.run(graph) == []
    assert [value.name for value in graph.values()] == before


def test_one_of_several_results_may_be_an_output():
    text = "(float[2] x) => (b, z) { a, b = Split<axis=0>(c, s)  z = Add(x, a) }"
    graph = swept(text, c=np.arange(4, dtype=np.float32), s=np.array([2, 2]))
    assert sorted(names(graph)) == ["Add", "Identity"]


def test_contradicting_operands_name_the_node():
    graph = graph_of("(float[2,3] x, float[4,5] z) => (y) { y = MatMul(x, z) }")
    with pytest.raises(InvalidModel, match=r"node 'y' \(MatMul@17\).*[Ii]ncompatible"):
        fold.run(graph)


def test_unknown_operators_stay_without_type():
    proto = model("(float[2] x) => (y) { a = Relu(x)  y = Relu(a) }")
    proto.graph.node[0].domain = "com.example"
    proto.graph.node[0].op_type = "Unheard"
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    graph = ingest_model(proto)
    fold.run(graph)
    verify(graph)
    assert [node.output.type for node in graph.nodes] == [None, None]


@pytest.mark.parametrize("op", ["GreaterOrEqual", "LessOrEqual"])
def test_comparisons_that_onnx_spells_out_have_a_type(op):
    graph = swept(f"(float[2,1] x, float[3] z) => (y) {{ y = {op}(x, z) }}", 12)
    assert graph.outputs[0].type == tensor_type("bool", (2, 3))


def test_such_comparisons_are_checked():
    graph = graph_of("(float[2] x, float[3] z) => (y) { y = LessOrEqual(x, z) }", 12)
    with pytest.raises(InvalidModel, match="node 'y'"):
        fold.run(graph)


IF = """(float[2,3] x, bool c) => (y) {
    k = Neg(x)
    y = If(c) <
        then_branch = a () => (t) { r = Relu(k)  t = Add(r, one) },
        else_branch = b () => (e) { r = Abs(k)  e = Mul(r, two) }
    > }"""
NUMBERS = {"one": np.ones(3, np.float32), "two": np.full(3, 2, np.float32)}


def with_condition(taken):
    return IF.replace(", bool c", ""), {"c": np.array(taken), **NUMBERS}


@pytest.mark.parametrize(("taken", "ops"), [(True, ["Relu", "Add"]), (False, ["Abs", "Mul"])])
def test_a_constant_condition_takes_its_branch(taken, ops):
    text, constants = with_condition(taken)
    graph = swept(text, **constants)
    assert names(graph) == ["Neg", *ops]
    assert only(graph, "Neg").output.users() == [only(graph, ops[0])]
    verify(graph, typed=True)


def test_what_was_inside_the_other_branch_uses_nothing_any_more():
    text, constants = with_condition(True)
    graph = swept(text, **constants)
    live = set(graph.nodes)
    for value in graph.values():
        assert {user for user, _ in value.uses} <= live | {graph.exit}


def test_a_branch_that_only_returns_what_is_outside():
    text = """(float[2] x) => (y, z) {
        y = Relu(x)
        z = If(c) <
            then_branch = a () => (t) { t = Identity(y) },
            else_branch = b () => (e) { e = Neg(y) }
        > }"""
    graph = swept(text, c=np.array(True))
    assert names(graph) == ["Relu", "Identity"]


def test_nested_conditions_unfold():
    text = """(float[2] x) => (y) {
        y = If(c) <
            then_branch = a () => (t) {
                n = Not(c)
                t = If(n) <
                    then_branch = d () => (u) { u = Neg(x) },
                    else_branch = f () => (v) { v = Exp(x) }
                > },
            else_branch = b () => (e) { e = Relu(x) }
        > }"""
    assert names(swept(text, c=np.array(True))) == ["Exp"]


@pytest.mark.parametrize("taken", [True, False])
def test_a_runtime_condition_keeps_both_branches_typed(taken):
    feeds = [np.full((2, 3), -2, np.float32), np.array(taken)]
    graph = swept(IF, feeds=feeds, **NUMBERS)
    assert names(graph) == ["Neg", "If"]
    assert graph.outputs[0].type == tensor_type("float32", (2, 3))
    for inner in nested(graph)[1:]:
        assert all(value.type is not None for node in inner.nodes for value in node.outputs)


def test_constants_fold_inside_branches():
    text = IF.replace("one)", "three)").replace("{ r = Relu", "{ three = Add(one, two)  r = Relu")
    graph = swept(text, feeds=[np.ones((2, 3), np.float32), np.array(True)], **NUMBERS)
    assert "Add" in names(nested(graph)[1])
    assert len(names(nested(graph)[1])) == 2


def test_a_branch_that_cannot_run_gives_way():
    """A matrix product in the second branch does not fit these shapes: it could only fail."""
    text = """(float[2,3] x, bool c) => (y) {
        y = If(c) <
            then_branch = a () => (t) { t = Relu(x) },
            else_branch = b () => (e) { e = MatMul(x, w) }
        > }"""
    graph = graph_of(text, w=np.zeros((5, 3), np.float32))
    remarks = fold.run(graph)
    assert names(graph) == ["Relu"]
    assert any("the other is taken" in remark.text for remark in remarks)
    assert any("MatMul" in remark.op for remark in remarks)


LOOP = """(float[2] x, int64 m) => (y, z) {
    y, z = Loop(m, go, x) <
        body = b (int64 i, bool c, float[2] s) => (d, t, o) {
            d = Identity(c)  k = Shape(s)  f = Cast<to=1>(k)  t = Add(s, f)  o = Neg(t) }
    > }"""


def test_a_loop_whose_values_keep_their_types_is_typed():
    feeds = [np.ones(2, np.float32), np.int64(3)]
    graph = swept(LOOP, feeds=feeds, go=np.array(True))
    y, z = graph.outputs
    assert y.type == tensor_type("float32", (2,))
    assert (z.type.dtype, z.type.shape[1:]) == (np.float32, (2,))
    body = nested(graph)[1]
    assert "Shape" not in names(body)


def test_a_loop_whose_values_grow_stays_as_it_is():
    text = """(float[2] x, int64 m) => (y) {
        y = Loop(m, go, x) <
            body = b (int64 i, bool c, float[n] s) => (d, t) {
                d = Identity(c)  t = Concat<axis=0>(s, s)  k = Shape(s) }
        > }"""
    feeds = [np.ones(2, np.float32), np.int64(3)]
    graph = swept(text, feeds=feeds, go=np.array(True))
    assert "Shape" in names(nested(graph)[1])


def test_a_scan_is_typed():
    text = """(float[5,2] x, float[2] h) => (y, z) {
        y, z = Scan<num_scan_inputs=1>(h, x) <
            body = b (float[2] s, float[2] e) => (t, o) { t = Add(s, e)  o = Neg(t) }
        > }"""
    text = text.replace("Scan<num_scan_inputs=1>(h, x) <", "Scan(h, x) < num_scan_inputs = 1,")
    graph = swept(text)
    assert graph.outputs[0].type == tensor_type("float32", (2,))
    assert graph.outputs[1].type == tensor_type("float32", (5, 2))


def test_folding_is_counted():
    graph = graph_of("() => (y) { a = Neg(c)  y = Relu(a) }", c=np.ones(2, np.float32))
    (remark,) = fold.run(graph)
    assert (remark.kind, remark.numbers["nodes"]) == ("done", 2)
    assert "1 Neg" in remark.text


def test_the_result_runs_as_before_after_many_shape_nodes():
    """Views, as exporters write them: everything about shapes goes."""
    text = """(float[2,6,4] x) => (y) {
        s = Shape(x)  n = Gather(s, zero)  c = Gather(s, one)
        h = Div(c, two)  a = Unsqueeze(n, axes)  b = Unsqueeze(h, axes)
        t = Concat<axis=0>(a, b, rest)  r = Reshape(x, t)  y = Transpose<perm=[0,2,1]>(r) }"""
    numbers = {"zero": np.int64(0), "one": np.int64(1), "two": np.int64(2)}
    graph = swept(text, axes=np.array([0]), rest=np.array([-1]), **numbers)
    assert names(graph) == ["Reshape", "Transpose"]


def test_a_model_with_a_wrong_declaration_is_typed_by_inference():
    proto = model("(float[2,3] x) => (float[9,9] y) { y = Relu(x) }")
    graph = ingest_model(proto)
    fold.run(graph)
    assert graph.outputs[0].type == tensor_type("float32", (2, 3))


def test_strings_move_but_are_not_computed():
    proto = helper.make_model(
        helper.make_graph(
            [helper.make_node("Gather", ["words", "i"], ["y"])],
            "g",
            [helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [1])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.STRING, [1])],
            [helper.make_tensor("words", onnx.TensorProto.STRING, [2], [b"a", b"b"])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=10,
    )
    graph = ingest_model(proto)
    fold.run(graph)
    feeds = [np.array([1])]
    assert graph.outputs[0].dtype == object
    assert run(proto, feeds)[0].tolist() == ["b"]
    assert_same([np.array(evaluate(graph, feeds)[0] == "b")], [np.array([True])])


def test_too_few_operands_are_refused():
    proto = model("(float[2] x) => (y) { y = Pow(x, x) }")
    del proto.graph.node[0].input[1]
    with pytest.raises(InvalidModel, match="at least 2 operands; it has 1"):
        fold.run(ingest_model(proto))


def test_a_split_into_other_numbers_is_refused():
    graph = graph_of("(float[4] x) => (y, z) { y, z = Split<axis=0, num_outputs=1>(x) }", 18)
    with pytest.raises(InvalidModel, match="num_outputs is 1; it has 2"):
        fold.run(graph)


@pytest.mark.parametrize("op", ["If", "Loop"])
def test_an_empty_condition_is_refused(op):
    body = "<then_branch = t () => (a) {a = Neg(x)}, else_branch = e () => (b) {b = Abs(x)}>(none)"
    if op == "Loop":
        body = "<body = l (int64 i, bool c, float[2] a) => (c, b) {b = Neg(a)}>(, none, x)"
    graph = graph_of(f"(float[2] x) => (y) {{ y = {op}{body} }}", none=np.zeros(0, bool))
    with pytest.raises(InvalidModel, match="is one number; got 'none'"):
        fold.run(graph)
