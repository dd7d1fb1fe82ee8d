"""A quick slice of the attack: damaged models are converted or refused, and nothing else happens."""

import random

import pytest

import fuzz.attack
from fuzz.attack import attack, attempt, draw
from fuzz.mutate import DAMAGES, mutated
from fuzz.seeds import seeds
from onnx_io.small_models import convolutions
from straightway.flow.convert import convert


@pytest.mark.parametrize("start", [0, 1000])
def test_damaged_models_are_converted_or_refused(start):
    found = attack(range(start, start + 200))
    assert not found.findings
    assert found.ends["converted"] > 20
    assert found.ends["InvalidModel"] > 20
    assert found.ends["Unsupported"] > 5


def test_what_is_converted_computes_the_same():
    found = attack(range(2000, 2100), verify=True)
    assert not found.findings
    assert found.ends["equal"] > 5


def test_the_numbers_that_there_was_time_for_are_told(monkeypatch, capsys):
    monkeypatch.setattr(
        "sys.argv", ["attack.py", "--start", "3000", "--models", "20", "--no-verify"]
    )
    assert fuzz.attack.main() == 0
    assert capsys.readouterr().out.startswith("models 3000 to 3019: ")
    monkeypatch.setattr("sys.argv", ["attack.py", "--start", "3000", "--seconds", "1e-9"])
    assert fuzz.attack.main() == 0
    assert capsys.readouterr().out.startswith("models 3000 to 2999: ")


def test_the_same_number_is_the_same_damage():
    net = convolutions()
    one, again, other = (mutated(net, random.Random(k)) for k in (1, 1, 2))
    assert one == again != other


def test_every_kind_of_damage_does_something():
    for damage in set(DAMAGES):
        changed = 0
        for number in range(20):
            net = convolutions()
            before = net.SerializeToString()
            damage(net, random.Random(number))
            changed += net.SerializeToString() != before
        assert changed > 5, damage


def test_every_seed_of_ours_is_a_model(tmp_path):
    path = tmp_path / "m.onnx"
    for net in seeds()[:6]:
        path.write_bytes(net.SerializeToString())
        assert convert(path, verify=False).size_bytes


def test_what_is_drawn_to_be_valid_is_converted_more_often(tmp_path):
    models = seeds()
    made = {True: 0, False: 0}
    for valid in made:
        for number in range(60):
            path = tmp_path / "m.onnx"
            draw(models, number, path, valid=valid)
            made[valid] += attempt(path, None) == "=converted"
    assert made[True] > made[False] + 5
