"""Reading and checking ONNX files, and what their shape functions may be asked."""

import logging
from itertools import pairwise

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnx_io.external_models import beside, external, stored
from onnx_io.small_models import convolutions, model, node, relu_model, save, tensor, weights
from straightway.errors import InvalidModel, InvalidRequest, Unsupported
from straightway.ir import Node, Op, Value, tensor_type
from straightway.onnx_io import check, guard
from straightway.onnx_io.read import array, parse, read
from straightway.onnx_io.schema import infer_types, schema
from straightway.onnx_io.vary import is_uniform, varied
from straightway.onnx_io.weights import Mappings

F4 = np.float32


def test_reading_changes_nothing_and_needs_no_handler(tmp_path, capfd):
    path = save(convolutions(), tmp_path / "m.onnx")
    before = path.read_bytes()
    assert len(list(read(path).graph)) == 9
    assert path.read_bytes() == before
    with pytest.raises(InvalidModel):
        read(
            save(model([node("Add", "x gone", "y")], [tensor("x", [2])], [tensor("y", None)]), path)
        )
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("onnx_ir").handlers


def test_weights_beside_the_model_are_mapped(tmp_path):
    model_file = read(beside(offset="0", length="24")(tmp_path))
    found = array(model_file.graph.initializers["w"].const_value, Mappings())
    np.testing.assert_array_equal(found.reshape(-1).view(np.uint8), np.arange(24))


def test_weights_may_lie_in_a_folder_below(tmp_path):
    (tmp_path / "sub").mkdir()
    stored(tmp_path / "sub")
    path = external(tmp_path, location="./sub/w.bin")
    assert list(read(path).graph.initializers) == ["w"]
    (found,) = check.external_files(parse(path), path)
    assert found.samefile(tmp_path / "sub" / "w.bin")


def test_a_link_that_stays_inside_is_followed(tmp_path):
    stored(tmp_path)
    (tmp_path / "link.bin").symlink_to("w.bin")
    assert list(read(external(tmp_path, location="link.bin")).graph.initializers) == ["w"]


def test_a_model_behind_a_link_finds_its_weights_beside_the_link(tmp_path):
    (tmp_path / "real").mkdir()
    stored(tmp_path / "real")
    path = external(tmp_path / "real", location="w.bin")
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    assert list(read(tmp_path / "alias" / path.name).graph.initializers) == ["w"]


def test_the_file_may_hold_its_own_weights(tmp_path):
    """Some exporters append the weights to the model's own file."""
    path = external(tmp_path, location="m.onnx", length="24")
    path.write_bytes(path.read_bytes())
    assert list(read(path).graph.initializers) == ["w"]


@pytest.mark.parametrize("name", ["node", "input", "operand", "op", "dimension", "metadata"])
def test_names_must_be_text(name, tmp_path):
    marker = "zzzz"
    x = tensor(
        marker if name in ("input", "operand") else "x", [2, marker if name == "dimension" else 3]
    )
    one = helper.make_node(
        marker if name == "op" else "Relu", [x.name], ["y"], name=marker if name == "node" else "n"
    )
    if name == "metadata":
        one.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=marker)
    data = model([one], [x], [tensor("y", None)]).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(data.replace(marker.encode(), b"\xff\xfe\xfd\xfc"))
    with pytest.raises(InvalidModel, match=r"no UTF-8 text: b'\\xff"):
        read(path)


def test_faults_are_told_together_but_not_without_end(tmp_path):
    nodes = [node("Add", f"x gone{k}", f"v{k}") for k in range(9)]
    with pytest.raises(InvalidModel, match=r"'gone0'.*'gone4', which nothing makes and 4 more"):
        read(save(model(nodes, [tensor("x", [2])], [tensor("v0", None)]), tmp_path / "m.onnx"))


@pytest.mark.parametrize("kind", ["input", "initializer"])
def test_names_come_once(kind, tmp_path):
    proto = model(
        [node("Add", "x w", "y")], [tensor("x", [3])], [tensor("y", None)], {"w": weights(3)}
    )
    if kind == "input":
        proto.graph.input.append(tensor("x", [3]))
    else:
        proto.graph.initializer.append(proto.graph.initializer[0])
    with pytest.raises(InvalidModel, match=f"two {kind}s are called"):
        read(save(proto, tmp_path / "m.onnx"))


def test_nothing_is_called_nothing(tmp_path):
    proto = model(
        [node("Relu", "x", "y")], [tensor("x", [3]), tensor("", [3])], [tensor("y", None)]
    )
    with pytest.raises(InvalidModel, match="an input has no name"):
        read(save(proto, tmp_path / "m.onnx"))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.dims.append(2),
        lambda t: t.__setattr__("raw_data", t.raw_data[:-1]),
        lambda t: t.__setattr__("data_type", TensorProto.DOUBLE),
        lambda t: t.__setattr__("data_type", 99),
        lambda t: t.ClearField("raw_data"),
    ],
)
def test_data_must_fit_their_shape_and_type(change, tmp_path):
    proto = model(
        [node("Add", "x w", "y")], [tensor("x", [3])], [tensor("y", None)], {"w": weights(3)}
    )
    change(proto.graph.initializer[0])
    from straightway.ingest.onnx import ingest

    with pytest.raises(InvalidModel):
        ingest(save(proto, tmp_path / "m.onnx"))


def test_a_folder_without_access_is_a_wrong_request(tmp_path, monkeypatch):
    path = save(relu_model(), tmp_path / "m.onnx")

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "read_bytes", refuse)
    with pytest.raises(InvalidRequest, match="Permission denied"):
        read(path)


def test_a_file_that_no_protobuf_holds_is_not_even_opened(tmp_path):
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(InvalidModel, match="external data"):
        read(path)


def calling(count, calls):
    """Functions, each of which calls the one before so often."""
    domain, names = "own", [f"F{k}" for k in range(count)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    proto = model(
        [helper.make_node(names[-1], ["x"], ["y"], domain=domain)],
        [tensor("x", [2])],
        [tensor("y", None)],
    )
    proto.opset_import.append(opsets[1])
    for k, name in enumerate(names):
        values = ["a", *(f"t{i}" for i in range(calls - 1)), "b"]
        op, home = (names[k - 1], domain) if k else ("Relu", "")
        body = [helper.make_node(op, [a], [b], domain=home) for a, b in pairwise(values)]
        proto.functions.append(helper.make_function(domain, name, ["a"], ["b"], body, opsets))
    return proto


def test_functions_are_inlined_however_deep_they_call(tmp_path):
    found = read(save(calling(300, 1), tmp_path / "m.onnx"))
    assert [n.op_type for n in found.graph] == ["Relu"]
    found = read(save(calling(5, 2), tmp_path / "m.onnx"))
    assert [n.op_type for n in found.graph] == ["Relu"] * 32


def test_functions_that_multiply_without_end_are_refused(tmp_path):
    with pytest.raises(Unsupported, match="1,099,511,627,776 nodes when they are inlined"):
        read(save(calling(40, 2), tmp_path / "m.onnx"))


def test_branches_may_lie_deep_in_each_other(tmp_path):
    def nested(depth):
        inner = helper.make_graph([node("Relu", "x", "t0")], "g", [], [tensor("t0", None)])
        for k in range(1, depth):
            one = node("If", "c", f"t{k}", then_branch=inner, else_branch=inner)
            one.attribute[1].g.CopyFrom(
                helper.make_graph([node("Neg", "x", "e")], "e", [], [tensor("e", None)])
            )
            inner = helper.make_graph([one], "g", [], [tensor(f"t{k}", None)])
        return model(
            inner.node, [tensor("x", [2]), tensor("c", [], TensorProto.BOOL)], inner.output
        )

    assert len(list(read(save(nested(28), tmp_path / "m.onnx")).graph)) == 1


def typed(op, shapes, results=1, version=21, **attrs):
    """Ask for the types of one node on floats of these shapes, or on these constants."""
    operands = []
    for k, given in enumerate(shapes):
        const = given if isinstance(given, np.ndarray) else None
        kind = tensor_type(F4, given) if const is None else tensor_type(const.dtype, const.shape)
        operands.append(Value(f"v{k}", kind, const))
    made = Node(
        Op(dialect="onnx", name=op, version=version),
        operands,
        [Value(f"r{k}", None) for k in range(results)],
        attrs,
    )
    return [str(kind) for kind in infer_types(made, {"": version})]


def test_types_are_inferred():
    assert typed("MatMul", [(2, 5), (5, 3)]) == ["f32[2,3]"]
    assert typed("Reshape", [(2, 6), np.array([3, -1])]) == ["f32[3,4]"]
    assert typed("Split", [(2, 6)], 2, axis=1, num_outputs=2) == ["f32[2,3]", "f32[2,3]"]
    assert typed("GatherND", [(2, 3, 4), np.zeros((5, 2), np.int64)]) == ["f32[5,4]"]
    assert typed("LayerNormalization", [(2, 3), (3,)], axis=-1) == ["f32[2,3]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("LayerNormalization", [(2, 3), (3,)], 1, {"axis": 2**31}), "axis 2147483648"),
        (("Split", [(4, 4)], 2, {"axis": 2**63 - 1, "num_outputs": 2}), "axis"),
        (("Split", [(4,)], 2, {"num_outputs": 2**31}), "num_outputs"),
        (("GatherND", [(3, 4), np.zeros((2, 1), np.int64)], 1, {"batch_dims": -1}), "batch_dims"),
        (("GatherND", [(3, 4), np.zeros((2, 9), np.int64)], 1, {}), "indexes 9 dimensions"),
        (("Expand", [(3, 4), (2**40,)], 1, {}), "1,099,511,627,776 dimensions"),
        (("Relu", [(3, -4)], 1, {}), "larger"),
        (("MatMul", [(3, 4), (5, 6)], 1, {}), "Incompatible"),
        (("Softmax", [(3, 4)], 1, {"bogus": 1}), "bogus"),
        (("Softmax", [(3, 4)], 1, {"axis": "one"}), "axis"),
        (("Softmax", [], 1, {}), "input size"),
        (("ReduceMean", [(3, 4)], 1, {"keepdims": -2}), "keepdims is 0 or 1; got -2"),
        (
            ("MaxPool", [(1, 1, 9, 9)], 1, {"kernel_shape": (2**31, 1)}),
            "kernel_shape has numbers of 32",
        ),
        (
            ("ScatterND", [(4, 3), np.zeros((2, 1), np.int64), (2, 3)], 1, {"reduction": "mean"}),
            "'mean'",
        ),
        (("PRelu", [(3, 1, 1), (2, 3, 4, 5)], 1, {}), "can't be broadcast to"),
        (("Add", [(2, 3, 4), (2,)], 1, {"broadcast": 1, "version": 6}), "can't be broadcast to"),
        (
            ("Add", [(2, 3, 4), (3, 4)], 1, {"broadcast": 1, "axis": 2, "version": 6}),
            "can't be broadcast",
        ),
    ],
)
def test_what_no_shape_function_may_be_asked_is_refused(arguments, message):
    op, shapes, results, attrs = arguments
    with pytest.raises(ValueError, match=message):
        typed(op, shapes, results, **attrs)


def test_old_operators_broadcast_at_an_axis():
    assert typed("Add", [(2, 3, 4), (3,)], version=6, broadcast=1, axis=1) == ["f32[2,3,4]"]
    assert typed("Add", [(2, 3, 4), (3, 4)], version=6, broadcast=1) == ["f32[2,3,4]"]
    assert typed("Add", [(2, 3, 4), ()], version=6, broadcast=1) == ["f32[2,3,4]"]
    assert typed("PRelu", [(2, 3, 4), (3, 1)]) == ["f32[2,3,4]"]


def test_every_flag_is_an_attribute_of_onnx():
    known = {name for s in onnx.defs.get_all_schemas_with_history() for name in s.attributes}
    assert known >= guard.FLAGS


def test_schemas_know_their_defaults():
    found = schema(Op(dialect="onnx", name="Conv", version=17))
    assert found.inputs == ("X", "W", "B")
    assert (found.least_inputs, found.variadic) == (2, False)
    assert found.defaults["group"] == 1
    assert schema(Op(dialect="onnx", name="Nonsense", version=17)) is None
    assert schema(Op(dialect="nowhere", name="Conv", version=1)) is None


def test_what_is_of_one_value():
    assert is_uniform(np.full((4, 4), 0.1, F4))
    assert not is_uniform(np.full((4, 3), 0.1, F4))
    assert not is_uniform(np.arange(16, dtype=F4))
    assert not is_uniform(np.full((4, 4), 3))
    assert not is_uniform(np.full((4, 4), np.nan, F4))


def test_the_twin_varies_what_is_of_one_value_and_nothing_else(tmp_path):
    constants = {
        "w": np.full((5, 7), -0.25, F4),
        "v": weights(7, 4),
        "zero": np.zeros((4, 4), F4),
        "large": np.full((4, 4), np.finfo(F4).min, F4),
    }
    nodes = [node("MatMul", "x w", "h"), node("MatMul", "h v", "y")]
    path = save(
        model(nodes, [tensor("x", [2, 5])], [tensor("y", None)], constants), tmp_path / "m.onnx"
    )
    made = onnx.load(varied(path, 0, tmp_path))
    found = {t.name: onnx.numpy_helper.to_array(t) for t in made.graph.initializer}
    np.testing.assert_array_equal(found["v"], constants["v"])
    assert len(np.unique(found["w"])) == 35
    assert ((found["w"] >= -0.25) & (found["w"] <= -0.125)).all()
    assert (found["zero"] > 0).all()
    assert np.isfinite(found["large"]).all()


def test_there_is_no_twin_of_varied_or_distant_weights(tmp_path):
    assert varied(save(convolutions(), tmp_path / "a.onnx"), 0, tmp_path) is None
    assert varied(beside()(tmp_path), 0, tmp_path) is None


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (np.array([5, 7]), np.array([0.5], F4)),
        (np.array([5, 7]), None),
        (np.array([5, 7]), np.array(0.5, F4)),
    ],
)
def test_filled_weights_are_varied_too(shape, value, tmp_path):
    fill = node("ConstantOfShape", "s", "w")
    if value is not None:
        fill.attribute.append(helper.make_attribute("value", onnx.numpy_helper.from_array(value)))
    nodes = [fill, node("MatMul", "x w", "y")]
    path = save(
        model(nodes, [tensor("x", [2, 5])], [tensor("y", None)], {"s": shape}), tmp_path / "m.onnx"
    )
    made = onnx.load(varied(path, 0, tmp_path))
    assert [n.op_type for n in made.graph.node] == ["MatMul"]
    (found,) = [t for t in made.graph.initializer if t.name == "w"]
    assert list(found.dims) == [5, 7]
