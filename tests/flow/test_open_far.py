"""Sizes far from the small ones that are tried first: what these leave at 1 is no constant."""

import numpy as np
from onnx import helper
from open_models import assert_equal_at, floats, save

import straightway
from straightway.flow.samples import distant, ladders


def test_a_sequence_that_small_widths_leave_at_one_stays_open(tmp_path, child):
    """A text recogniser: columns after strides are steps, which add up with their own mirror."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[4, 4], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["c"], strides=[2, 4], pads=[1, 1, 1, 1]),
        helper.make_node("ReduceMean", ["c"], ["d"], axes=[2], keepdims=0),
        helper.make_node("Transpose", ["d"], ["e"], perm=[0, 2, 1]),
        helper.make_node("Transpose", ["d"], ["f"], perm=[2, 0, 1]),
        helper.make_node("Transpose", ["f"], ["g"], perm=[1, 0, 2]),
        helper.make_node("Add", ["e", "g"], ["h"]),
        helper.make_node("MatMul", ["h", "m"], ["y"]),
    ]
    constants = {"w": floats(6, 3, 3, 3), "v": floats(8, 6, 3, 3), "m": floats(8, 5)}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["N", 3, 16, "W"]}, ["y"], constants)
    done = straightway.convert(path, child=child)
    feeds = [{"x": floats(n, 3, 16, w)} for n, w in ((1, 320), (2, 16), (3, 97))]
    assert_equal_at(path, done.data, *feeds)


def test_the_third_sample_is_far_and_the_rest_as_it_was():
    symbols = {"N": [("x", 0)], "W": [("x", 3)]}
    for samples in ladders(symbols):
        made = distant(symbols, samples)
        assert made[2]["W"] >= 5 * samples[2]["W"]
        assert made[2]["N"] == samples[2]["N"]
        assert np.all([made[k] == samples[k] for k in (0, 1, 3)])
