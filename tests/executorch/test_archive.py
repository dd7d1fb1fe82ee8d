"""Saved programs that would run code, or fill the memory, are refused unread."""

import io
import json
import pickle
import zipfile

import pytest

torch = pytest.importorskip("torch")

from straightway.errors import InvalidModel  # noqa: E402
from straightway.executorch.archive import no_code  # noqa: E402
from straightway.executorch.model import load  # noqa: E402

INPUTS = "good/data/sample_inputs/model.pt"
WEIGHTS = "good/data/weights/model_weights_config.json"
CONSTANTS = "good/data/constants/model_constants_config.json"


class Attack:
    """A pickle of it calls a function that notes that it was called."""

    def __reduce__(self):
        return note, ()


called = []


def note():
    called.append(True)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "good.pt2"
    linear = torch.nn.Linear(4, 2).eval()
    torch.export.save(torch.export.export(linear, (torch.ones(1, 4),)), path)
    return path


def changed(good, path, changes):
    """The archive with other members; changes take what stands there."""
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, changes[name](data) if name in changes else data)
        for name in changes.keys() - set(old.namelist()):
            new.writestr(name, changes[name](b""))
    return path


def legacy(_):
    stream = io.BytesIO()
    torch.save({"a": Attack()}, stream, _use_new_zipfile_serialization=False)
    return stream.getvalue()


def nested(_):
    stream = io.BytesIO()
    torch.save({"a": Attack()}, stream)
    return stream.getvalue()


def dotted(_):
    """torch.os.getcwd, which a check of the module's name alone lets through."""
    return b"\x80\x04\x8c\x05torch\x8c\x09os.getcwd\x93)R."


def pickled_weights(data):
    config = json.loads(data)
    for one in config["config"].values():
        one["use_pickle"] = True
    return json.dumps(config).encode()


def opaque_constant(data):
    config = json.loads(data)
    meta = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    config["config"] = {"c": meta}
    return json.dumps(config).encode()


ATTACKS = {
    **{
        f"protocol {k}": {INPUTS: lambda _, k=k: pickle.dumps(Attack(), protocol=k)}
        for k in range(pickle.HIGHEST_PROTOCOL + 1)
    },
    "before zip": {INPUTS: legacy},
    "zip in a zip": {INPUTS: nested},
    "dotted": {INPUTS: dotted},
    "beside": {"good/extra/x.pkl": lambda _: pickle.dumps(Attack())},
    "weights": {
        WEIGHTS: pickled_weights,
        "good/data/weights/weight_0": lambda _: pickle.dumps(Attack(), protocol=0),
    },
    "constant": {
        CONSTANTS: opaque_constant,
        "good/data/constants/opaque_obj_0": lambda _: pickle.dumps(Attack(), protocol=0),
    },
    "outside": {"../../outside": lambda _: b"x"},
    "no graph": {"good/models/model.json": lambda _: b"{"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_in_a_saved_program_is_run(attack, good, tmp_path):
    path = changed(good, tmp_path / "good.pt2", ATTACKS[attack])
    with pytest.raises(InvalidModel) as refused:
        load(str(path))
    assert not called
    assert "warnings" not in str(refused.value)


def test_a_compressed_archive_is_refused_unread(tmp_path):
    path = tmp_path / "bomb.pt2"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data", bytes(1 << 24))
    with pytest.raises(InvalidModel, match="compresses nothing"):
        load(str(path))


def test_a_pickle_looks_nothing_up_while_torch_reads():
    data = pickle.dumps(Attack())
    with pytest.raises(InvalidModel, match="would call"), no_code():
        pickle.loads(data)  # noqa: S301 - our own
    assert not called
    pickle.loads(data)  # noqa: S301 - our own
    assert called.pop()


def test_a_good_one_loads(good):
    assert load(str(good)).program is not None
