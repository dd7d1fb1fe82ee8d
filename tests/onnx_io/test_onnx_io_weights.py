"""Large tensors of a model stay in its file, mapped; whatever the file holds, the model is the same."""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import straightway
from onnx_io.small_models import model, node, save, tensor, weights
from straightway.errors import StraightwayError
from straightway.ir.elements import is_mapped
from straightway.onnx_io import weights as module
from straightway.onnx_io.read import array, parse, read
from straightway.onnx_io.weights import Mappings, outlined

BFLOAT16 = weights(7, 9).astype(ml_dtypes.bfloat16)


def varied():
    """Initializers of several types, two of them as numbers, a Constant, and a branch with another."""
    branch = helper.make_graph(
        [node("Constant", "", "inner", value=numpy_helper.from_array(weights(30), "t"))],
        "branch",
        [],
        [tensor("inner", [30])],
    )
    nodes = [
        node("Constant", "", "c", value=numpy_helper.from_array(weights(5, 40, seed=9), "t")),
        node("MatMul", "x w", "y"),
        node("Add", "y c", "z"),
        node("If", "flag", "i", then_branch=branch, else_branch=branch),
    ]
    constants = {
        "w": weights(30, 40),
        "half": weights(80).astype(np.float16),
        "whole": np.arange(90),
        "truth": np.arange(100) % 3 == 0,
        "empty": np.zeros((0, 70), np.float32),
        "small": np.float32([1, 2]),
    }
    made = model(nodes, [tensor("x", [5, 30]), tensor("flag", [], TensorProto.BOOL)], [], constants)
    made.graph.output.append(tensor("z", [5, 40]))
    made.graph.initializer.append(
        helper.make_tensor("listed", TensorProto.FLOAT, [60], weights(60).tolist())
    )
    made.graph.initializer.append(
        helper.make_tensor("b16", TensorProto.BFLOAT16, [7, 9], BFLOAT16.tobytes(), raw=True)
    )
    made.graph.initializer.append(
        helper.make_tensor("i4", TensorProto.INT4, [200], bytes(range(100)), raw=True)
    )
    return made


@pytest.fixture(autouse=True)
def low(monkeypatch):
    """Tensors are large from 64 bytes on."""
    monkeypatch.setattr(module, "LARGE_BYTES", 64)


def found_in(path):
    """Every initializer, and the Constant's number."""
    files, made = Mappings(), read(path)
    found = {n: array(v.const_value, files) for n, v in made.graph.initializers.items()}
    (constant,) = [n for n in made.graph if n.op_type == "Constant"]
    return {**found, "c": array(constant.attributes["value"].value, files)}


def test_tensors_are_what_they_were_and_the_large_ones_are_mapped(tmp_path, monkeypatch):
    path = save(varied(), tmp_path / "m.onnx")
    found = found_in(path)
    assert {n for n, a in found.items() if is_mapped(a)} == {
        "w", "half", "whole", "truth", "b16", "c",
    }  # fmt: skip
    monkeypatch.setattr(module, "LARGE_BYTES", 1 << 30)
    plain = found_in(path)
    assert not any(map(is_mapped, plain.values()))
    assert found.keys() == plain.keys()
    for name, one in plain.items():
        assert found[name].dtype == one.dtype
        np.testing.assert_array_equal(found[name], one)


def test_what_is_left_out_is_not_parsed(tmp_path):
    path = save(varied(), tmp_path / "m.onnx")
    assert len(outlined(path)) < path.stat().st_size - 4 * (30 * 40 + 5 * 40)
    assert not outlined(path).count(weights(30, 40).tobytes())


@pytest.mark.parametrize("how", ["colon", "backslash", "link"])
def test_a_file_that_cannot_name_itself_is_read_as_a_whole(how, tmp_path):
    path = save(varied(), tmp_path / {"colon": "a:b.onnx", "backslash": "a\\b.onnx"}.get(how, "m"))
    if how == "link":
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "m.onnx").symlink_to(path)
        path = tmp_path / "in" / "m.onnx"
    assert outlined(path) is None
    np.testing.assert_array_equal(found_in(path)["w"], weights(30, 40))


def test_a_folder_that_is_a_link_is_no_hindrance(tmp_path):
    (tmp_path / "real").mkdir()
    save(varied(), tmp_path / "real" / "m.onnx")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert is_mapped(found_in(tmp_path / "link" / "m.onnx")["w"])


@pytest.mark.parametrize("name", ["w", "half"])
def test_data_that_do_not_fit_are_told_as_before(name, tmp_path):
    made = varied()
    (one,) = [t for t in made.graph.initializer if t.name == name]
    one.dims[0] += 1000
    with pytest.raises(StraightwayError, match=f"data of tensor '{name}' do not fit"):
        straightway.convert(save(made, tmp_path / "m.onnx"), verify=False)


def outcome(path):
    """The parsed model with its large tensors put back, or that there is none."""
    try:
        proto = parse(path)
    except StraightwayError as error:
        return type(error)
    whole = path.read_bytes()
    tensors = [*proto.graph.initializer, *(a.t for n in proto.graph.node for a in n.attribute)]
    for one in tensors:
        where = {entry.key: entry.value for entry in one.external_data}
        if where.get("location") == path.name:
            start, size = int(where["offset"]), int(where["length"])
            one.ClearField("external_data")
            one.ClearField("data_location")
            one.raw_data = whole[start : start + size]
    return proto.SerializeToString(deterministic=True)


@pytest.mark.parametrize("seed", range(150))
def test_a_damaged_file_is_read_as_it_would_be_as_a_whole(seed, tmp_path, monkeypatch):
    rng = np.random.default_rng(seed)
    data = bytearray(varied().SerializeToString())
    for place in rng.integers(0, len(data), rng.integers(1, 4)):
        data[place] = rng.integers(256)
    if seed % 3 == 0:
        del data[rng.integers(1, len(data)) :]
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    found = outcome(path)
    monkeypatch.setattr(module, "LARGE_BYTES", 1 << 30)
    assert found == outcome(path)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_many_tensors_in_a_file_beside_take_one_descriptor(tmp_path):
    names = [f"w{k}" for k in range(60)]
    made = model(
        [node("Sum", " ".join(["x", *names]), "y")],
        [tensor("x", [300])],
        [tensor("y", [300])],
        {name: weights(300, seed=k) for k, name in enumerate(names)},
    )
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    files, opened = Mappings(), read(tmp_path / "m.onnx")
    before = len([*Path("/proc/self/fd").iterdir()])
    arrays = [array(v.const_value, files) for v in opened.graph.initializers.values()]
    assert len([*Path("/proc/self/fd").iterdir()]) <= before + 1
    for k, one in enumerate(arrays):
        np.testing.assert_array_equal(one, weights(300, seed=k))


def test_external_data_with_a_second_name_are_refused(tmp_path):
    made = varied()
    onnx.save(made, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    (tmp_path / "other.bin").hardlink_to(tmp_path / "w.bin")
    with pytest.raises(StraightwayError, match="has a second name"):
        read(tmp_path / "m.onnx")


def test_a_model_with_a_second_name_is_read(tmp_path):
    path = save(varied(), tmp_path / "m.onnx")
    (tmp_path / "other.onnx").hardlink_to(path)
    assert is_mapped(found_in(path)["w"])
