"""`convert`: what is given, what comes out, and that it is the same every time."""

import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper

import straightway
from onnx_io.small_models import convolutions, dense, model, node, save, tensor, tokens, weights
from straightway.errors import InvalidRequest, Unsupported
from straightway.run import litert


@pytest.fixture
def path(tmp_path):
    return save(convolutions(), tmp_path / "net.onnx")


def test_in_memory_nothing_is_written(path, tmp_path, child):
    made = straightway.convert(path, child=child)
    assert made.path is None
    assert made.data[4:8] == b"TFL3"
    assert made.verification.equal
    assert made.verification.seeds == 3
    assert len(made.verification.outputs) == 3
    assert [p.name for p in tmp_path.iterdir()] == ["net.onnx"]


def test_to_a_file_it_is_the_same(path, tmp_path, child):
    made = straightway.convert(str(path), str(tmp_path / "net.tflite"), child=child)
    assert made.path == tmp_path / "net.tflite"
    assert made.path.read_bytes() == made.data == straightway.convert(path, verify=False).data
    assert made.size_bytes == len(made.data)


def test_what_is_shown_of_a_conversion_fits_a_line(path, child):
    shown = repr(straightway.convert(path, child=child))
    assert "\n" not in shown
    assert path.name in shown
    assert len(shown) < 200 + len(str(path))


def test_without_verification_no_engine_runs(path, monkeypatch):
    monkeypatch.setattr(subprocess, "Popen", None)
    made = straightway.convert(path, verify=False)
    assert made.verification is None
    assert made.arrays == {}


def test_a_child_of_its_own_is_enough(path):
    assert straightway.convert(path, seeds=[5]).verification.seeds == 1


def test_the_bytes_are_the_same_in_every_process(path, tmp_path):
    program = (
        "import sys, hashlib, straightway\n"
        "made = straightway.convert(sys.argv[1], verify=False)\n"
        "print(hashlib.sha256(made.data).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program, str(path)],
            check=True,
            capture_output=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_names_and_order_of_inputs_and_outputs_are_kept(tmp_path, child):
    proto = model(
        [node("Sub", "second first", "b"), node("Add", "first third", "a")],
        [tensor(name, [2, 3]) for name in ("first", "second", "third")],
        [tensor("b", [2, 3]), tensor("a", [2, 3])],
    )
    made = straightway.convert(save(proto, tmp_path / "m.onnx"), tmp_path / "m.tflite", child=child)
    given = {
        name: np.full((2, 3), k, np.float32) for k, name in enumerate(("third", "second", "first"))
    }
    ran = child.call(litert.run(made.path, given))
    assert ran.names == ("b", "a")
    np.testing.assert_array_equal(ran.named()["b"], np.full((2, 3), 1 - 2))
    np.testing.assert_array_equal(ran.named()["a"], np.full((2, 3), 2 + 0))


def test_nhwc_moves_the_channels_of_inputs_and_outputs_last(tmp_path, child):
    proto = model(
        [node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "y")],
        [tensor("x", [2, 3, 5, 7])],
        [tensor("y", [2, 4, 5, 7])],
        {"w": weights(4, 3, 3, 3)},
    )
    path = save(proto, tmp_path / "m.onnx")
    kept = straightway.convert(path, tmp_path / "kept.tflite", child=child)
    moved = straightway.convert(path, tmp_path / "moved.tflite", io="nhwc", child=child)
    assert moved.verification.equal
    assert len(kept.translation.layout.plan.conversions) == 2
    assert not moved.translation.layout.plan.conversions
    x = np.random.default_rng(0).random((2, 3, 5, 7)).astype(np.float32)
    (kept_y,) = child.call(litert.run(kept.path, [x])).outputs
    (moved_y,) = child.call(litert.run(moved.path, [x.transpose(0, 2, 3, 1)])).outputs
    assert kept_y.shape == (2, 4, 5, 7)
    assert moved_y.shape == (2, 5, 7, 4)
    np.testing.assert_allclose(moved_y.transpose(0, 3, 1, 2), kept_y, atol=1e-6)


def test_nhwc_leaves_matrices_alone(tmp_path, child):
    path = save(dense(), tmp_path / "m.onnx")
    made = straightway.convert(path, io="nhwc", child=child)
    assert made.data == straightway.convert(path, verify=False).data


def test_the_users_arrays_are_compared_on(tmp_path, child):
    path = save(dense(), tmp_path / "m.onnx")
    x = np.full((2, 5), 3, np.float32)
    np.savez(tmp_path / "a.npz", x=x)
    for given in (tmp_path / "a.npz", str(tmp_path / "a.npz")):
        made = straightway.convert(path, inputs=given, child=child)
        assert made.verification.seeds == 1
        np.testing.assert_array_equal(made.arrays["x"], x)


def test_the_users_arrays_must_fit(tmp_path, child):
    path = save(dense(), tmp_path / "m.onnx")
    np.savez(tmp_path / "a.npz", x=np.zeros((2, 6), np.float32))
    with pytest.raises(InvalidRequest, match=r"float32\[2, 6\]; the model takes float32\[2, 5\]"):
        straightway.convert(path, tmp_path / "m.tflite", inputs=tmp_path / "a.npz", child=child)
    assert not (tmp_path / "m.tflite").exists()


def test_arrays_that_the_model_refuses_are_no_fault_of_the_file(tmp_path, child):
    path = save(tokens(rows=11), tmp_path / "m.onnx")
    np.savez(
        tmp_path / "a.npz",
        input_ids=np.full((2, 6), 11),
        attention_mask=np.ones((2, 6), np.int64),
    )
    with pytest.raises(InvalidRequest, match="--inputs"):
        straightway.convert(path, inputs=tmp_path / "a.npz", child=child)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimise": True}, "optimise"),
        ({"io": "nchw"}, "nchw"),
        ({"io": None}, "io is"),
        ({"dims": ["N"]}, "mapping"),
        ({"dims": {"N": True}}, "--dim N"),
        ({"shapes": {"x": "2,5"}}, "--shape x"),
        ({"shapes": {"x": 5}}, "--shape x"),
        ({"shapes": {"x": [2, None]}}, "--shape x"),
        ({"seeds": []}, "seeds"),
        ({"seeds": "012"}, "seeds"),
        ({"seeds": 3}, "seeds"),
        ({"seeds": [-1]}, "seeds"),
        ({"inputs": {"x": 1}}, "inputs"),
    ],
)
def test_wrong_options_are_named(options, message, tmp_path):
    path = save(dense(), tmp_path / "m.onnx")
    with pytest.raises(InvalidRequest, match=message):
        straightway.convert(path, **options)


def test_steps_are_told(path, child):
    told = []
    straightway.convert(path, step=told.append, child=child)
    assert told == ["reading", "converting", "comparing with onnxruntime"]


def test_a_model_without_nodes_hands_its_input_on(tmp_path, child):
    proto = model([], [tensor("x", [2, 3])], [tensor("x", [2, 3])])
    made = straightway.convert(save(proto, tmp_path / "m.onnx"), child=child)
    assert made.verification.equal
    assert made.translation.node_count == 0


def test_a_model_without_inputs_gives_its_constants(tmp_path, child):
    value = numpy_helper.from_array(weights(2, 3))
    proto = model([node("Constant", "", "y", value=value)], [], [tensor("y", [2, 3])])
    assert straightway.convert(save(proto, tmp_path / "m.onnx"), child=child).verification.equal


def test_an_output_may_be_named_twice_and_may_be_an_input(tmp_path, child):
    y, x = tensor("y", [2, 3]), tensor("x", [2, 3])
    proto = model([node("Relu", "x", "y")], [x], [y, x, y])
    assert straightway.convert(save(proto, tmp_path / "m.onnx"), child=child).verification.equal


@pytest.mark.parametrize(
    "element",
    [
        "FLOAT16",
        "DOUBLE",
        "BFLOAT16",
        "INT8",
        "INT16",
        "INT64",
        "UINT8",
        "UINT32",
        "UINT64",
        "BOOL",
    ],
)
def test_every_type_that_callers_hand_over_comes_through(element, tmp_path, child):
    kind = getattr(TensorProto, element)
    proto = model(
        [node("Reshape", "x s", "z"), node("Transpose", "z", "y", perm=[1, 0])],
        [tensor("x", [2, 6], kind)],
        [tensor("y", [4, 3], kind)],
        {"s": np.array([3, 4])},
    )
    assert straightway.convert(save(proto, tmp_path / "m.onnx"), child=child).verification.equal


HOSTILE = [
    "n" * 100_000,
    "line\nbreak",
    "tab\tbell\a",
    "\x1b[31mred\x1b[0m",
    "[red]markup[/red]",
    "[/]",
    ":smile:",
    "a b/c:d;0",
    "名前/畳み込み/🙂",
    "\u202egpj.exe",
    "'\"`$(x)`\\",
    "{0}{x.shape}%s",
]


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_may_hold_anything(name, tmp_path, child):
    from onnx import helper

    proto = model(
        [helper.make_node("Relu", [name], [name + "y"], name=name)],
        [tensor(name, [2, 3])],
        [tensor(name + "y", [2, 3])],
    )
    made = straightway.convert(save(proto, tmp_path / "m.onnx"), tmp_path / "m.tflite", child=child)
    assert made.verification.equal
    assert child.call(litert.run(made.path, list(made.arrays.values()))).names == (name + "y",)


def test_ends_of_more_dimensions_than_a_file_has_are_refused(tmp_path):
    made = model(
        [node("ConstantOfShape", "shape", "y")],
        [],
        [tensor("y", [1] * 9)],
        {"shape": np.ones(9, np.int64)},
    )
    path = save(made, tmp_path / "m.onnx")
    with pytest.raises(Unsupported, match="at most 8 dimensions; 'y' is f32"):
        straightway.convert(path)
