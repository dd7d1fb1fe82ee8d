"""Tensors of rank 0, without elements, and of more than six dimensions: of fixed and of open sizes."""

import numpy as np
import pytest
from onnx.helper import make_node
from open_models import assert_equal_at, floats, run, save

import straightway


def check(tmp_path, child, nodes, shape, constants, *feeds):
    path = save(tmp_path / "m.onnx", nodes, {"x": shape}, ["y"], constants)
    done = straightway.convert(path, child=child)
    assert_equal_at(path, done.data, *({"x": feed} for feed in feeds))
    return done


def test_rank_0_stays_rank_0(tmp_path, child):
    nodes = [make_node("Mul", ["x", "two"], ["m"]), make_node("Sigmoid", ["m"], ["y"])]
    done = check(tmp_path, child, nodes, [], {"two": np.float32(2)}, floats())
    (y,) = run(done.data, {"x": floats()})
    assert y.shape == ()


@pytest.mark.parametrize("shape", [[3, 4], ["N", 4], ["N", "T"]])
def test_everything_reduced_has_rank_0(tmp_path, child, shape):
    nodes = [
        make_node("ReduceMax", ["x"], ["greatest"], keepdims=0),
        make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        make_node("Add", ["greatest", "total"], ["y"]),
    ]
    done = check(tmp_path, child, nodes, shape, {}, floats(3, 4))
    (y,) = run(done.data, {"x": floats(3, 4)})
    assert y.shape == ()


@pytest.mark.parametrize("batch", [2, "N"])
def test_parts_without_elements_vanish(tmp_path, child, batch):
    nodes = [
        make_node("Slice", ["x", "one", "one", "one"], ["nothing"]),
        make_node("Relu", ["nothing"], ["still"]),
        make_node("Concat", ["still", "x", "still"], ["y"], axis=1),
    ]
    check(tmp_path, child, nodes, [batch, 3, 4], {"one": np.array([1])}, floats(2, 3, 4))


@pytest.mark.parametrize("batch", [2, "N"])
@pytest.mark.parametrize(
    "nodes",
    [
        [make_node("Relu", ["x"], ["y"])],
        [make_node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=1)],
        [make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2, 6, 4, 5]),
         make_node("Neg", ["t"], ["y"])],
        [make_node("Mul", ["x", "c"], ["y"])],
        [make_node("Concat", ["x", "x"], ["y"], axis=4)],
        [make_node("Softmax", ["x"], ["y"], axis=-1)],
        [make_node("Reshape", ["x", "shape"], ["r"]), make_node("Neg", ["r"], ["y"])],
    ],
    ids=["Relu", "ReduceMean", "Transpose", "Mul", "Concat", "Softmax", "Reshape"],
)  # fmt: skip
def test_seven_dimensions_become_fewer(tmp_path, child, nodes, batch):
    constants = {"c": floats(3, 1, 2, 3, 1, 2), "shape": np.array([0, 6, 6, 2])}
    used = {name for node in nodes for name in node.input}
    check(
        tmp_path,
        child,
        nodes,
        [batch, 3, 2, 2, 3, 1, 2],
        {name: array for name, array in constants.items() if name in used},
        floats(2, 3, 2, 2, 3, 1, 2),
    )
