"""Files of other converters are fed and read in their own order of dimensions."""

import numpy as np
import pytest
from straightway.tflite.read import Description

import arrangement
from arrangement import Unlike
from straightway.flow.verify import Reference

RANDOM = np.random.default_rng(0)
X = RANDOM.random((1, 3, 5, 7), np.float32)
TOKENS = RANDOM.integers(0, 9, (1, 6))
Y = RANDOM.random((1, 4, 5, 2), np.float32)


class File:
    """Stands in for a description: tensors with name, shape and dtype."""

    def __init__(self, *inputs):
        self.inputs = [Tensor(*one) for one in inputs]


class Tensor:
    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype = name, shape, dtype


def checks(names, outputs):
    expected = Reference(optimised={"y:0": Y}, plain={"y:0": Y})
    return list(arrangement.checks(expected, names, outputs))


def test_descriptions_have_what_is_read():
    assert {"inputs", "outputs"} <= set(Description.__dataclass_fields__)


def test_inputs_follow_names_shapes_and_types():
    file = File(("ids", (1, 6), np.int32), ("x_0", (1, 5, 7, 3), np.float32))
    fed = arrangement.stored(file, {"x:0": X, "ids": TOKENS})
    assert list(fed) == ["ids", "x_0"]
    assert fed["ids"].dtype == np.int32
    np.testing.assert_array_equal(fed["x_0"], X.transpose(0, 2, 3, 1))


def test_the_model_s_own_order_comes_first():
    file = File(("x", (1, 3, 5, 7), np.float32))
    np.testing.assert_array_equal(arrangement.stored(file, {"x": X})["x"], X)


def test_an_input_of_another_shape_is_told():
    with pytest.raises(Unlike, match="input x is"):
        arrangement.stored(File(("x", (1, 7, 5, 3), np.float32)), {"x": X})


def test_outputs_are_compared_in_the_order_that_fits():
    assert checks(["y_0"], [Y.transpose(0, 2, 3, 1)])[0].equal
    wrong = Y.transpose(0, 2, 3, 1) + 1
    assert not checks(["y_0"], [wrong])[0].equal


def test_outputs_without_the_name_are_taken_by_position():
    assert checks(["Identity"], [Y])[0].equal


def test_an_output_of_another_shape_is_told():
    with pytest.raises(Unlike, match="output y:0 is"):
        checks(["y_0"], [Y[:, :2]])
