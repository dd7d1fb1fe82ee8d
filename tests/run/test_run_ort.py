"""Running ONNX files in the child."""

import ml_dtypes
import numpy as np
import pytest
import tiny_models as tiny
from onnx import TensorProto, helper, numpy_helper

from straightway.errors import InvalidModel, InvalidRequest, ToolFailed
from straightway.run import ort
from straightway.run.process import Child

X = np.array([[1, 2, 3], [-1, 0, 1]], np.float32)


@pytest.fixture(scope="module")
def child():
    with Child(engines=["onnxruntime"]) as one:
        yield one


def test_outputs_and_interior_values_by_name(child, tmp_path):
    path = tiny.onnx_net(tmp_path / "m.onnx")
    plain = child.call(ort.run(path, {"x": X}))
    assert plain.keys() == {"y"}
    more = child.call(ort.run(path, {"x": X}, extra_outputs=["product", "y"], optimise=False))
    assert list(more) == ["y", "product"]
    np.testing.assert_allclose(more["y"], plain["y"], rtol=1e-5)
    assert more["product"].shape == (2, 700)
    only = child.call(ort.run(path, {"x": X}, extra_outputs=["product"], outputs=["product"]))
    np.testing.assert_allclose(only["product"], more["product"], rtol=1e-5)


def test_onnxruntime_sends_and_keeps_nothing(tmp_path, monkeypatch):
    for name in ("CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)  # it keeps still in CI of itself
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tiny.onnx_net(tmp_path / "m.onnx")
    with Child(engines=["onnxruntime"]) as child:
        child.call(ort.run(path, {"x": X}))
    assert [file.name for file in tmp_path.rglob("*")] == ["m.onnx"]


def test_a_long_name_still_fits_the_appended_message(child, tmp_path):
    name = "n" * 300
    nodes = [helper.make_node("Neg", ["x"], [name]), helper.make_node("Abs", [name], ["y"])]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy"]
    path = tiny.onnx_file(tmp_path / "m.onnx", nodes, value[:1], value[1:])
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(
        child.call(ort.run(path, {"x": x}, extra_outputs=[name]))[name], -x
    )


def test_external_data_is_found_beside_the_file_also_with_interior_values(child, tmp_path):
    inside = tiny.onnx_net(tmp_path / "inside.onnx")
    path = tiny.onnx_net(
        tmp_path / "outside.onnx", save_as_external_data=True, location="data.bin", size_threshold=0
    )
    assert (tmp_path / "data.bin").exists()
    expected = child.call(ort.run(inside, {"x": X}))["y"]
    got = child.call(ort.run(path, {"x": X}, extra_outputs=["product"]))
    np.testing.assert_array_equal(got["y"], expected)


def test_a_changed_file_is_read_again(child, tmp_path):
    path = tmp_path / "m.onnx"
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    x = np.array([1, 2], np.float32)
    for op, expected in (("Neg", -x), ("Exp", np.exp(x))):
        nodes = [helper.make_node(op, ["x"], ["y"], name=op * 9)]
        tiny.onnx_file(path, nodes, value[:1], value[1:])
        np.testing.assert_allclose(child.call(ort.run(path, {"x": x}))["y"], expected, rtol=1e-6)


def test_bfloat16_crosses_the_pipe(child, tmp_path):
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["b"], ["back"], to=TensorProto.FLOAT),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("b", TensorProto.BFLOAT16, [2]),
    ]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [2]),
        helper.make_tensor_value_info("back", TensorProto.FLOAT, [2]),
    ]
    path = tiny.onnx_file(tmp_path / "m.onnx", nodes, inputs, outputs)
    x = np.array([1.5, -2], np.float32)
    got = child.call(ort.run(path, {"x": x, "b": x.astype(ml_dtypes.bfloat16)}))
    assert got["y"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(got["y"].astype(np.float32), x)
    np.testing.assert_array_equal(got["back"], x)


def test_strings_cross_the_pipe(child, tmp_path):
    value = [helper.make_tensor_value_info(n, TensorProto.STRING, [2]) for n in "xy"]
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    path = tiny.onnx_file(tmp_path / "m.onnx", nodes, value[:1], value[1:])
    got = child.call(ort.run(path, {"x": np.array(["é", "b"])}))
    assert got["y"].tolist() == ["é", "b"]


def test_faults_are_told_apart(child, tmp_path):
    garbage = tmp_path / "g.onnx"
    garbage.write_bytes(b"garbage")
    with pytest.raises(InvalidModel, match=r"can't read g\.onnx"):
        child.call(ort.run(garbage, {}))
    with pytest.raises(InvalidModel, match="missing"):
        child.call(ort.run(tmp_path / "missing.onnx", {}))
    path = tiny.onnx_net(tmp_path / "m.onnx")
    with pytest.raises(InvalidRequest, match="refuses the inputs"):
        child.call(ort.run(path, {"x": X[:, :2]}))
    with pytest.raises(InvalidRequest, match="refuses the inputs"):
        child.call(ort.run(path, {}))
    with pytest.raises(ToolFailed, match="nothing_of_that_name"):
        child.call(ort.run(path, {"x": X}, extra_outputs=["nothing_of_that_name"]))


def _timed_as_well_as_run(path, feeds):
    """Prepare and run thrice, in this process; the number of runs that stayed bound is returned."""
    from straightway.run import onnx_engine

    run_once = onnx_engine.prepare({"path": str(path), "inputs": list(feeds)}, list(feeds.values()))
    bound = 0
    for _ in range(3):
        run_once()
        bound += run_once._binding is not None
    return bound


def test_a_timed_run_is_bound_also_where_sizes_depend_on_the_data(tmp_path):
    value = helper.make_tensor_value_info
    node = helper.make_node("NonZero", ["x"], ["y"])
    ends = [value("x", TensorProto.FLOAT, [4])], [value("y", TensorProto.INT64, [1, "n"])]
    path = tiny.onnx_file(tmp_path / "m.onnx", [node], *ends)
    assert _timed_as_well_as_run(path, {"x": np.array([0, 1, 0, 2], np.float32)}) == 3


def test_a_timed_run_whose_sizes_are_random_is_not_bound(tmp_path):
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Bernoulli", ["x"], ["drawn"]),
        helper.make_node("NonZero", ["drawn"], ["y"]),
    ]
    ends = [value("x", TensorProto.FLOAT, [4096])], [value("y", TensorProto.INT64, [1, "n"])]
    path = tiny.onnx_file(tmp_path / "m.onnx", nodes, *ends)
    assert _timed_as_well_as_run(path, {"x": np.full(4096, 0.5, np.float32)}) < 3


def test_a_timed_run_takes_texts(tmp_path):
    value = helper.make_tensor_value_info
    node = helper.make_node("Identity", ["x"], ["y"])
    ends = [[value(name, TensorProto.STRING, [2])] for name in "xy"]
    path = tiny.onnx_file(tmp_path / "m.onnx", [node], *ends)
    assert _timed_as_well_as_run(path, {"x": np.array(["a", "b"], object)}) == 0


def test_a_timed_run_says_what_is_wrong_with_its_inputs(child, tmp_path):
    path = tiny.onnx_net(tmp_path / "m.onnx")
    with pytest.raises(InvalidRequest, match="refuses the inputs"):
        child.call(ort.profile(path, {"x": np.ones((2, 2), np.float32)}, runs=2))


def recurrent(path, op, layout, **attrs):
    """Both directions of a recurrent node, with initial states and lengths, and a value inside."""
    steps, batch, hidden, gates = 4, 2, 3, {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    sizes = {"x": (steps, batch, 5), "h": (2, batch, hidden), "c": (2, batch, hidden)}
    if layout:
        sizes = {name: (b, a, c) for name, (a, b, c) in sizes.items()}
    rng = np.random.default_rng(0)
    stored = {"w": (2, gates * hidden, 5), "r": (2, gates * hidden, hidden)}
    constants = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in stored.items()
    ]
    constants.append(numpy_helper.from_array(np.array([4, 2], np.int32), "lengths"))
    states = ["h", "c"] if op == "LSTM" else ["h"]
    ends = [f"y{name}" for name in ("", *states)]
    node = helper.make_node(
        op,
        ["x", "w", "r", "", "lengths", *states],
        ["inside", *ends[1:]],
        hidden_size=hidden,
        direction="bidirectional",
        **({"layout": 1} if layout else {}),
        **attrs,
    )
    inputs = [helper.make_tensor_value_info(n, 1, sizes[n]) for n in ("x", *states)]
    outputs = [helper.make_tensor_value_info(n, 1, None) for n in ends]
    last = helper.make_node("Neg", ["inside"], ["y"])
    tiny.onnx_file(path, [node, last], inputs, outputs, constants)
    return path


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("RNN", {"clip": 0.5}),
        ("RNN", {"activations": ["LeakyRelu", "Tanh"], "activation_alpha": [0.2]}),
        ("GRU", {"activations": ["Sigmoid", "Relu"] * 2}),
        ("LSTM", {"input_forget": 1, "clip": 0.7}),
    ],
)
def test_a_batch_that_comes_first_changes_no_number(op, attrs, child, tmp_path):
    rng = np.random.default_rng(1)
    names = ("x", "h", "c") if op == "LSTM" else ("x", "h")
    shapes = {"x": (4, 2, 5), "h": (2, 2, 3), "c": (2, 2, 3)}
    feeds = {n: rng.standard_normal(shapes[n]).astype(np.float32) for n in names}
    turned = {n: np.ascontiguousarray(a.swapaxes(0, 1)) for n, a in feeds.items()}
    want = child.call(ort.run(recurrent(tmp_path / "0.onnx", op, 0, **attrs), feeds))
    path = recurrent(tmp_path / "1.onnx", op, 1, **attrs)
    got = child.call(ort.run(path, turned, extra_outputs=["inside"]))
    np.testing.assert_array_equal(got.pop("inside"), -got["y"])
    assert got.keys() == want.keys()
    for name, array in got.items():
        order = (2, 0, 1, 3) if name == "y" else (1, 0, 2)
        np.testing.assert_array_equal(array, want[name].transpose(order))
