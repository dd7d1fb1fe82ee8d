"""ONNX into the graph: names, types, order, constants, subgraphs, sources."""

from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_io.small_models import convolutions, model, node, relu_model, save, tensor, weights
from straightway.errors import InvalidModel, InvalidRequest, Unsupported
from straightway.ingest.onnx import ShapeRequest, ingest
from straightway.ir import Graph, Source
from straightway.ir.verify import verify

X, Y = [tensor("x", [2, 3])], [tensor("y", None)]


@pytest.fixture
def read(tmp_path):
    """Ingest a model, and check that its graph holds together."""

    def run(proto, **request):
        graph = ingest(save(proto, tmp_path / "m.onnx"), ShapeRequest(**request))
        verify(graph)
        return graph

    return run


def test_nodes_values_and_types_are_those_of_the_file(read):
    graph = read(convolutions())
    assert graph.name == "small"
    assert [str(n.op) for n in graph.nodes][:3] == ["Conv@17", "Relu@17", "MaxPool@17"]
    assert [n.name for n in graph.nodes][:2] == ["n_c", "n_r"]
    assert [v.name for v in graph.inputs] == ["image"]
    assert str(graph.inputs[0].type) == "f32[1,3,10,14]"
    assert graph.output_names == [v.name for v in graph.outputs] == ["probabilities"]
    conv = graph.first
    assert conv.attrs["pads"] == (1, 1, 1, 1)
    np.testing.assert_array_equal(conv.inputs[1].const, weights(8, 3, 3, 3))
    assert graph.opsets == {"": 17}


def test_nodes_are_put_in_order(read):
    nodes = [node("Add", "b a", "y"), node("Relu", "a", "b"), node("Neg", "x", "a")]
    assert [n.op.name for n in read(model(nodes, X, Y)).nodes] == ["Neg", "Relu", "Add"]


def test_an_order_that_is_right_is_kept(read):
    nodes = [node("Neg", "x", "a"), node("Abs", "x", "b"), node("Add", "a b", "y")]
    assert [n.op.name for n in read(model(nodes, X, Y)).nodes] == ["Neg", "Abs", "Add"]


def test_a_long_chain_needs_no_deep_stack(read):
    names = ["x", *(f"v{k}" for k in range(2999)), "y"]
    nodes = [node("Relu", a, b) for a, b in pairwise(names)]
    assert sum(1 for _ in read(model(nodes[::-1], X, Y)).nodes) == 3000


def test_initializers_that_are_also_inputs_are_constants(read):
    proto = model([node("MatMul", "x w", "y")], [*X, tensor("w", [3, 4])], Y, {"w": weights(3, 4)})
    graph = read(proto)
    assert [v.name for v in graph.inputs] == ["x"]
    assert graph.first.inputs[1].const is not None


def test_absent_operands_are_none_and_trailing_ones_are_gone(read):
    nodes = [node("Resize", "x _ scales", "z"), node("Clip", "z _ _", "y")]
    graph = read(model(nodes, X, Y, {"scales": np.array([2, 2], np.float32)}))
    resize, clip = graph.nodes
    assert resize.inputs[1] is None
    assert len(resize.inputs) == 3
    assert len(clip.inputs) == 1


@pytest.mark.parametrize(
    ("op", "operands"), [("Sum", "x x _"), ("Min", "x _ x"), ("Add", "_ x"), ("Conv", "x _ b")]
)
def test_operands_that_must_be_there_are_missed(op, operands, read):
    with pytest.raises(InvalidModel, match=rf"'n_y' \({op}\): operand \d, '.*', may not be absent"):
        read(model([node(op, operands, "y")], X, Y, {"b": weights(3)}))


def test_nodes_without_a_name_are_called_by_their_result(read):
    proto = model([helper.make_node("Relu", ["x"], ["y"])], X, Y)
    assert read(proto).first.name == "y"


def test_the_same_name_outside_and_inside_stays_two_values(read):
    branch = helper.make_graph(
        [node("Relu", "x", "inner"), node("Neg", "inner", "t")], "then", [], [tensor("t", None)]
    )
    other = helper.make_graph([node("Abs", "x", "inner")], "else", [], [tensor("inner", None)])
    nodes = [node("If", "c", "y", then_branch=branch, else_branch=other)]
    graph = read(model(nodes, [*X, tensor("c", [], TensorProto.BOOL)], Y))
    then, alternative = (graph.first.attrs[k] for k in ("then_branch", "else_branch"))
    assert isinstance(then, Graph)
    assert then.first.inputs[0] is graph.inputs[0]
    assert alternative.first.inputs[0] is graph.inputs[0]
    assert then.outputs[0] is not alternative.outputs[0]


def test_a_branch_may_read_what_a_later_node_makes(read):
    branch = helper.make_graph([node("Relu", "late", "t")], "then", [], [tensor("t", None)])
    other = helper.make_graph([node("Neg", "late", "e")], "else", [], [tensor("e", None)])
    nodes = [
        node("If", "c", "y", then_branch=branch, else_branch=other),
        node("Abs", "x", "late"),
    ]
    graph = read(model(nodes, [*X, tensor("c", [], TensorProto.BOOL)], Y))
    assert [n.op.name for n in graph.nodes] == ["Abs", "If"]


def test_constants_of_every_element_type_are_read(read):
    arrays = {
        "f2": np.array([1.5], np.float16),
        "f8": np.array([1.5], np.float64),
        "i1": np.array([-3], np.int8),
        "u8": np.array([2**63], np.uint64),
        "b": np.array([True]),
    }
    found = read(
        model([node("Relu", "x", "y")], X, [*Y, *(tensor(k, None) for k in arrays)], arrays)
    )
    for value in found.outputs[1:]:
        np.testing.assert_array_equal(value.const, arrays[value.name])
        assert value.const.dtype == value.dtype == arrays[value.name].dtype


def test_half_bytes_are_read(read):
    proto = model([node("Relu", "x", "y")], X, [*Y, tensor("q", None)], opset=21)
    proto.graph.initializer.append(helper.make_tensor("q", TensorProto.INT4, [3], [1, -8, 7]))
    value = read(proto).outputs[1]
    assert value.const.astype(np.int8).tolist() == [1, -8, 7]


def test_texts_are_read(read):
    proto = model([node("Identity", "s", "y")], [], Y)
    proto.graph.initializer.append(helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"bc"]))
    assert read(proto).first.inputs[0].const.tolist() == [b"a", b"bc"]


def test_functions_of_the_model_are_inlined(read):
    body = [helper.make_node("Neg", ["a"], ["t"]), helper.make_node("Relu", ["t"], ["b"])]
    proto = model([helper.make_node("Own", ["x"], ["y"], domain="own", name="call")], X, Y)
    proto.functions.append(
        helper.make_function("own", "Own", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    )
    proto.opset_import.append(helper.make_opsetid("own", 1))
    assert [n.op.name for n in read(proto).nodes] == ["Neg", "Relu"]


def test_other_domains_keep_their_name_and_version(read):
    proto = model([helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")], X, Y)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    found = read(proto).first.op
    assert (found.dialect, found.name, found.version) == ("com.microsoft", "Gelu", 1)


def test_the_long_name_of_onnx_s_own_domain_is_the_short_one(read):
    proto = model([helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")], X, Y)
    assert str(read(proto).first.op) == "Relu@17"


STACK = """File "a.py", line 3, in forward
    y = self.body(x)
File "lib/b.py", line 17, in forward
    return x.relu()
"""


@pytest.mark.parametrize(
    ("metadata", "source"),
    [
        ({}, Source(node="n_y", op="Relu")),
        (
            {"pkg.torch.onnx.stack_trace": STACK},
            Source(node="n_y", op="Relu", file="lib/b.py", line=17, code="return x.relu()"),
        ),
        (
            {"pkg.torch.onnx.stack_trace": 'File "a.py", line 3, in forward'},
            Source(node="n_y", op="Relu", file="a.py", line=3),
        ),
        ({"pkg.torch.onnx.stack_trace": "nothing of the kind"}, Source(node="n_y", op="Relu")),
        (
            {"pkg.torch.onnx.name_scopes": "['', 'body', 'body.act', 'relu']"},
            Source(node="n_y", op="Relu", module="body.act"),
        ),
        ({"pkg.torch.onnx.name_scopes": "['relu']"}, Source(node="n_y", op="Relu")),
    ],
)
def test_a_node_knows_where_it_comes_from(metadata, source, read):
    relu = node("Relu", "x", "y")
    for key, value in metadata.items():
        relu.metadata_props.add(key=key, value=value)
    assert read(model([relu], X, Y)).first.origins == {source}


def test_a_source_says_file_line_and_code():
    assert str(Source(node="n", file="a.py", line=3, code="x + 1")) == "a.py:3 x + 1"
    assert str(Source(node="n", module="body.act")) == "body.act"
    assert str(Source(node="n")) == ""


def test_symbols_are_fixed_by_name_wherever_they_stand(read):
    proto = model([node("Add", "x z", "y")], [tensor("x", ["N", 3]), tensor("z", ["N", "M"])], Y)
    graph = read(proto, dims={"N": 5, "M": 3})
    assert [v.shape for v in graph.inputs] == [(5, 3), (5, 3)]


def test_a_shape_fixes_one_input_whole(read):
    proto = model([node("Relu", "x", "y")], [tensor("x", [None, 3, "H"])], Y)
    assert read(proto, shapes={"x": [2, 3, 7]}).inputs[0].shape == (2, 3, 7)
    assert read(proto, shapes={"x": (np.int64(2), 3, 7)}).inputs[0].shape == (2, 3, 7)


def test_a_shape_and_a_symbol_must_agree(read):
    proto = model([node("Relu", "x", "y")], [tensor("x", ["N", 3])], Y)
    assert read(proto, shapes={"x": [2, 3]}, dims={"N": 2}).inputs[0].shape == (2, 3)
    with pytest.raises(InvalidRequest, match=r"--dim N=9 and --shape x=2,3 give 'N' two sizes"):
        read(proto, shapes={"x": [2, 3]}, dims={"N": 9})


def test_an_input_of_unknown_rank_takes_any_shape(read):
    proto = model([node("Relu", "x", "y")], [tensor("x", None)], Y)
    assert str(read(proto, shapes={"x": [2, 3]}).inputs[0].type) == "f32[2,3]"
    assert read(proto, shapes={"x": []}).inputs[0].shape == ()


def test_a_scalar_input_is_static(read):
    assert read(model([node("Relu", "x", "y")], [tensor("x", [])], Y)).inputs[0].shape == ()


@pytest.mark.parametrize("version", [1, 6, 13, 21])
def test_old_opsets_are_read(version, read):
    proto = relu_model()
    proto.opset_import[0].version = version
    assert read(proto).first.op.version == version


def test_the_newest_opset_is_read_and_the_next_refused(read):
    proto = relu_model()
    proto.opset_import[0].version = onnx.defs.onnx_opset_version()
    assert read(proto).first.op.name == "Relu"
    proto.opset_import[0].version += 1
    with pytest.raises(Unsupported, match="newer than the newest known"):
        read(proto)


def test_nothing_is_asked_for_twice():
    with pytest.raises(InvalidRequest, match="mapping"):
        ShapeRequest(dims=[("N", 1)])
    with pytest.raises(InvalidRequest, match="--shape x"):
        ShapeRequest(shapes={"x": "1,2"})


def test_damaged_attributes_of_tensors_are_named(read):
    broken = numpy_helper.from_array(weights(2, 3))
    broken.raw_data = broken.raw_data[:-1]
    with pytest.raises(InvalidModel, match=r"'n_c'.*attribute 'value'"):
        read(model([node("Constant", "", "c", value=broken), node("Add", "x c", "y")], X, Y))


def test_a_cycle_through_a_branch_is_found(read):
    branch = helper.make_graph([node("Relu", "y", "t")], "then", [], [tensor("t", None)])
    other = helper.make_graph([node("Neg", "x", "e")], "else", [], [tensor("e", None)])
    nodes = [node("If", "c", "y", then_branch=branch, else_branch=other)]
    with pytest.raises(InvalidModel, match="wait for each other"):
        read(model(nodes, [*X, tensor("c", [], TensorProto.BOOL)], Y))


@pytest.mark.parametrize("shape", [[2**40], ["M", 2**40], ["M", 2**20, 2**20]])
def test_an_input_that_is_too_large_at_any_size_is_refused(read, shape):
    net = model([node("Relu", "x", "y")], [tensor("x", shape)], Y)
    with pytest.raises(Unsupported, match="at most 2,147,483,647 elements; input 'x'"):
        read(net, keep_open=True)
