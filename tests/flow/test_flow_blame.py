"""Whose fault: what no check foresaw is the model's if onnxruntime refuses it too, else ours."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import straightway
from onnx_io.small_models import dense, model, node, relu_model, save, tensor, weights
from straightway.errors import Bug, InvalidModel, InvalidRequest, ToolFailed
from straightway.flow import convert as flow
from straightway.flow.blame import UNFORESEEN, blamed
from straightway.flow.reference import Oracle, is_refusal, references
from straightway.ingest.onnx import ShapeRequest

NO_SHAPES = ShapeRequest()


@pytest.fixture
def good(tmp_path):
    return save(dense(), tmp_path / "good.onnx")


@pytest.fixture
def contradictory(tmp_path):
    """No shape function of ONNX looks at the channels of a convolution."""
    proto = model(
        [node("Conv", "x w", "y")],
        [tensor("x", [1, 3, 8, 8])],
        [tensor("y", None)],
        {"w": weights(4, 2, 3, 3)},
    )
    return save(proto, tmp_path / "contradictory.onnx")


def fail(path, error):
    with blamed(path, NO_SHAPES):
        raise error


@pytest.mark.parametrize("kind", [*UNFORESEEN, KeyError, IndexError, ZeroDivisionError])
def test_what_goes_wrong_with_a_good_model_is_a_bug(kind, good):
    with pytest.raises(Bug, match="what is told") as caught:
        fail(good, kind("what is told"))
    assert str(good) in str(caught.value)
    assert caught.value.exit_code == 5
    assert isinstance(caught.value.__cause__, kind)


def test_what_goes_wrong_with_a_contradictory_model_is_its_fault(contradictory):
    with pytest.raises(InvalidModel, match=r"contradicts itself: .*channels") as caught:
        fail(contradictory, KeyError("x"))
    assert "\n" not in str(caught.value)


def test_a_bug_that_a_check_of_ours_found_is_told_as_it_is(good):
    with pytest.raises(Bug, match="the verifier says so") as caught:
        fail(good, Bug("the verifier says so"))
    assert "Bug:" not in str(caught.value)


@pytest.mark.parametrize("error", [InvalidModel("m"), InvalidRequest("m"), ToolFailed("m")])
def test_what_was_foreseen_passes(error, good):
    with pytest.raises(type(error)) as caught:
        fail(good, error)
    assert caught.value is error


def test_a_model_that_can_not_be_read_again_is_asked_for_as_a_whole(tmp_path):
    proto = model([node("Relu", "x", "y")], [tensor("x", ["N"])], [tensor("y", None)])
    with pytest.raises(Bug):
        fail(save(proto, tmp_path / "m.onnx"), ValueError("x"))
    proto.graph.node[0].op_type = "Nonsense"
    with pytest.raises(InvalidModel, match="Nonsense"):
        fail(save(proto, tmp_path / "m.onnx"), ValueError("x"))


def test_convert_and_deploy_raise_only_errors_of_the_tree(good, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise StopIteration

    monkeypatch.setattr(flow, "translate", fail)
    for function in (straightway.convert, straightway.deploy):
        with pytest.raises(Bug, match="StopIteration"):
            function(good, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_too_little_memory_is_no_bug(good, monkeypatch):
    def fail(*_, **__):
        raise MemoryError("Unable to allocate 3.64 TiB")

    monkeypatch.setattr(flow, "translate", fail)
    with pytest.raises(ToolFailed, match=r"does not fit in the memory.*TiB"):
        straightway.convert(good, verify=False)


def test_the_reference_is_asked_twice_for_each_set(good, child):
    rng = np.random.default_rng(0)
    sets = [{"x": rng.random((2, 5), np.float32)} for _ in range(3)]
    found = references(Oracle(child, good), sets)
    assert len(found) == 3
    for one, arrays in zip(found, sets, strict=True):
        want = np.maximum(arrays["x"] @ weights(5, 7) + weights(7, seed=1), 0) @ weights(
            7, 4, seed=2
        )
        np.testing.assert_allclose(one.plain["y"], want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(one.optimised["y"], want, rtol=1e-4, atol=1e-5)


def test_a_model_that_the_reference_refuses_is_invalid(contradictory, child):
    x = np.zeros((1, 3, 8, 8), np.float32)
    with pytest.raises(InvalidModel, match=r"onnxruntime refuses it: .*channels"):
        references(Oracle(child, contradictory), [{"x": x}])


def test_an_output_of_another_type_than_declared_is_invalid(tmp_path, child):
    proto = relu_model()
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    with pytest.raises(InvalidModel, match="int32"):
        straightway.convert(save(proto, tmp_path / "m.onnx"), child=child)


def test_what_the_reference_can_not_do_itself_is_a_failure_of_the_tool(tmp_path, child):
    proto = model(
        [helper.make_node("Nonsense", ["x"], ["y"], domain="ai.onnx.ml")],
        [tensor("x", [2])],
        [tensor("y", None)],
    )
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    with pytest.raises((InvalidModel, ToolFailed)):
        references(
            Oracle(child, save(proto, tmp_path / "m.onnx")), [{"x": np.zeros(2, np.float32)}]
        )


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("onnxruntime can't prepare m.onnx: [ONNXRuntimeError] : 1 : FAIL : bad", True),
        ("onnxruntime can't run the model: [ONNXRuntimeError] : 1 : FAIL : bad", True),
        ("onnxruntime can't prepare m.onnx: 9 : NOT_IMPLEMENTED : Could not find", False),
        ("onnxruntime can't run the model: BFCArena::AllocateRawInternal Failed to allocate", False),
        ("onnxruntime can't prepare m.onnx: tensor(complex64) is not currently registered or supported", False),
        ("onnxruntime on m.onnx: the child process ended with signal SIGSEGV", False),
        ("onnxruntime on m.onnx: no answer in time", False),
    ],
)  # fmt: skip
def test_its_own_limits_are_told_from_refusals(text, refused):
    assert is_refusal(ToolFailed(text)) is refused
