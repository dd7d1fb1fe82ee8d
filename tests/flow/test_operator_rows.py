"""The rows of a report where ops have bodies: each microsecond once, and the same sum everywhere."""

import numpy as np
import pytest
from onnx import TensorProto, helper

import straightway
from onnx_io.small_models import model, node, save, tensor, weights
from straightway.flow.operator_rows import operator_rows
from straightway.report.html import render_html
from straightway.report.quantity import percent
from straightway.report.summary import accounted_share


def loop_model():
    """Four turns of x · w, then a product: the number of turns is an input."""
    body = helper.make_graph(
        [
            node("Identity", "again", "go_on"),
            node("MatMul", "state w", "next"),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("again", TensorProto.BOOL, []),
            tensor("state", [64, 64]),
        ],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), tensor("next", [64, 64])],
    )
    loop = helper.make_node("Loop", ["turns", "", "x"], ["z"], name="n_z", body=body)
    turns = helper.make_tensor_value_info("turns", TensorProto.INT64, [])
    return model(
        [loop, node("MatMul", "z w", "y")],
        [tensor("x", [64, 64]), turns],
        [tensor("y", [64, 64])],
        {"w": weights(64, 64) / 64},
    )


def branch_model():
    """x · w or x · v, by an input; then a running sum."""
    branches = {
        f"{name}_branch": helper.make_graph(
            [node("MatMul", f"x {matrix}", f"{name}_y")], name, [], [tensor(f"{name}_y", [64, 64])]
        )
        for name, matrix in (("then", "w"), ("else", "v"))
    }
    choice = helper.make_node("If", ["which"], ["z"], name="n_z", **branches)
    which = helper.make_tensor_value_info("which", TensorProto.BOOL, [])
    return model(
        [choice, node("Relu", "z", "y")],
        [tensor("x", [64, 64]), which],
        [tensor("y", [64, 64])],
        {"w": weights(64, 64), "v": weights(64, 64)},
    )


CASES = [
    ("WHILE", loop_model, {"turns": np.array(4)}),
    ("IF", branch_model, {"which": np.array(True)}),
]


@pytest.fixture(scope="module", params=CASES)
def deployed(request, tmp_path_factory):
    kind, build, second = request.param
    folder = tmp_path_factory.mktemp("bodies")
    np.savez(folder / "inputs.npz", x=weights(64, 64), **second)
    path = save(build(), folder / "net.onnx")
    return kind, straightway.deploy(path, folder / "out", inputs=folder / "inputs.npz")


def test_what_runs_in_a_body_has_its_own_row_behind_the_op_around_it(deployed):
    kind, done = deployed
    rows = list(done.view.operators)
    owner = next(row for row in rows if row.kind == kind)
    inner = [row for row in rows if row.place.endswith(f" in {kind} #{owner.index}")]
    assert "matrix" in {row.category for row in inner}
    place = rows.index(owner)
    assert rows[place + 1 : place + 1 + len(inner)] == inner
    assert {row.origins for row in inner} == {owner.origins}
    assert len({row.index for row in rows}) == len(rows)


def test_each_event_counts_once_and_all_say_the_same_share(deployed):
    _, done = deployed
    trace, view = done.measurement.trace, done.view
    assert trace.run.operator_level, trace.run.reason
    assert sum(row.time_ns for row in view.operators) == pytest.approx(trace.operator_ns)
    assert sum(item.time_ns for item in view.categories) == pytest.approx(trace.median_ns, rel=1e-4)
    assert sum(row.share for row in view.operators) == pytest.approx(trace.accounted)
    assert accounted_share(view) == pytest.approx(trace.accounted, abs=1e-4)
    assert percent(accounted_share(view)) in render_html(view)
    # The profiler takes its time, but what it takes is told apart from the operators'.
    assert trace.accounted < 1.1 or "the operators sum to" in "".join(view.notes)


def test_without_a_measurement_there_are_the_ops_alone(deployed):
    _, done = deployed
    placement = done.conversion.verification.ran.placement
    rows = operator_rows(done.conversion, placement, None)
    assert [row.index for row in rows] == list(range(len(rows)))
    assert {row.time_ns for row in rows} == {None}
