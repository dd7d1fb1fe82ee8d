"""Running .tflite files in the child: numbers, order of inputs, partitions, refusals, deaths."""

import numpy as np
import pytest
import tiny_models as tiny

from straightway.errors import InvalidModel, InvalidRequest, ToolFailed
from straightway.run import litert
from straightway.run.process import Child


@pytest.fixture(scope="module")
def child():
    with Child(engines=["litert"]) as one:
        yield one


def test_both_kernel_sets_agree_and_say_where_ops_ran(child, tmp_path):
    path = tiny.conv_net(tmp_path / "m.tflite")
    x = np.random.default_rng(0).normal(size=(1, 10, 12, 3)).astype(np.float32)
    fast = child.call(litert.run(path, [x]))
    plain = child.call(litert.run(path, {"x": x}, delegate=False))
    np.testing.assert_allclose(fast.outputs[0], plain.outputs[0], rtol=1e-4, atol=1e-6)
    assert fast.names == ("y",)
    assert [op.kind for op in fast.ops] == [
        "CONV_2D", "CONV_2D", "ADD", "RESHAPE", "FULLY_CONNECTED", "SOFTMAX",
    ]  # fmt: skip
    assert fast.placement.partitions == ((0, 1, 2, 3, 4, 5),)
    assert plain.placement.partitions == ()
    assert plain.placement.outside == (0, 1, 2, 3, 4, 5)
    assert fast.ops[0].outputs[0].shape == (1, 10, 12, 8)
    assert fast.ops[4].inputs[2].shape == ()  # the absent bias


def test_an_op_that_xnnpack_lacks_splits_the_graph(child, tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite", size=6)
    x = np.array([1, -2, 3, -4, 5, -6], np.float32)
    ran = child.call(litert.run(path, [x]))
    np.testing.assert_array_equal(ran.outputs[0], -np.cumsum(np.abs(x)))
    assert ran.placement.partitions == ((0,), (2,))
    assert ran.placement.outside == (1,)


def test_interior_values_come_by_index(child, tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite", size=3)
    x = np.array([1, -2, 3], np.float32)
    ran = child.call(litert.run(path, [x], interior=[2, 3]))
    np.testing.assert_array_equal(ran.interior[0], [1, 2, 3])
    np.testing.assert_array_equal(ran.interior[1], [1, 3, 6])
    assert ran.named().keys() == {"y"}


def test_an_open_dimension_takes_the_size_of_the_array(child, tmp_path):
    path = tiny.conv_net(tmp_path / "m.tflite", open_batch=True)
    x = np.ones((3, 10, 12, 3), np.float32)
    assert child.call(litert.run(path, [x])).outputs[0].shape == (3, 5)


def test_a_fixed_dimension_is_not_resized(child, tmp_path):
    path = tiny.split_net(tmp_path / "m.tflite", size=2)
    x = np.ones(5, np.float32)
    with pytest.raises(InvalidRequest, match=r"shape \[2\]; got \[5\]"):
        child.call(litert.run(path, [x]))


def test_inputs_by_name_may_come_in_any_order(child, tmp_path):
    made = tiny.Tiny()
    a, b = made.tensor((2,), name="a"), made.tensor((2,), name="b")
    y = made.tensor((2,), name="y")
    made.op(tiny.B.SUB, [a, b], [y], tiny.options("SubOptions"))
    made.graph.inputs, made.graph.outputs = [a, b], [y]
    path = made.save(tmp_path / "m.tflite")
    given = {"b": np.array([1, 2], np.float32), "a": np.array([10, 20], np.float32)}
    np.testing.assert_array_equal(child.call(litert.run(path, given)).outputs[0], [9, 18])


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([], "1 inputs; got 0"),
        ([np.zeros((1, 10, 12, 4), np.float32)], r"shape \[1, 10, 12, 3\]; got \[1, 10, 12, 4\]"),
        ([np.zeros((1, 10, 12, 3), np.int32)], "refuses input x"),
        ({"z": np.zeros((1, 10, 12, 3), np.float32)}, "inputs are x; got z"),
    ],
)
def test_wrong_inputs_are_the_callers_fault(child, tmp_path, inputs, says):
    path = tiny.conv_net(tmp_path / "m.tflite")
    with pytest.raises(InvalidRequest, match=says):
        child.call(litert.run(path, inputs))


def test_garbage_is_no_model(child, tmp_path):
    path = tmp_path / "m.tflite"
    path.write_bytes(b"garbage, and not even much of it")
    with pytest.raises(InvalidModel, match=r"can't load m\.tflite"):
        child.call(litert.run(path, []))


def test_an_unknown_custom_op_is_named(child, tmp_path):
    path = tiny.custom_net(tmp_path / "m.tflite")
    with pytest.raises(ToolFailed, match="Nobody"):
        child.call(litert.run(path, [np.zeros(4, np.float32)]))


def test_an_abort_becomes_an_error_and_the_next_call_works(tmp_path):
    bad = tiny.aborting_net(tmp_path / "bad.tflite")
    good = tiny.split_net(tmp_path / "good.tflite", size=2)
    zeros = np.zeros(4, np.int8)
    with Child() as child:
        first = child.pid
        with pytest.raises(
            ToolFailed, match=r"bad\.tflite: the child process ended with signal SIG"
        ):
            child.call(litert.run(bad, [zeros, zeros], delegate=False))
        ran = child.call(litert.run(good, [np.ones(2, np.float32)]))
        np.testing.assert_array_equal(ran.outputs[0], [-1, -2])
        assert child.pid != first
