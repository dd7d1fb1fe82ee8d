"""Targets: known by name, each with its sources, and what tools say of the same devices."""

import pytest

from straightway.errors import InvalidRequest
from straightway.run import vela
from straightway.targets.known import DEFAULT, FAMILIES, TARGETS, find


def test_names_are_unique_and_numbers_have_sources():
    assert len(TARGETS) == sum(len(family.TARGETS) for family in FAMILIES)
    for target in TARGETS.values():
        assert target.name == target.name.lower()
        assert target.sources
        assert target.activations[0] == "int8"
        assert all(number.source and number.amount > 0 for number in target.numbers.values())


def test_the_default_is_spelled_for_the_delegate_and_keeps_floats_outside():
    assert find(DEFAULT).delegate
    assert find(DEFAULT).io_type == "float"
    assert [target.name for target in TARGETS.values() if target.delegate] == [DEFAULT]


def test_accelerators_are_those_that_vela_compiles_for():
    assert {t.accelerator for t in TARGETS.values() if t.accelerator} == set(vela.ACCELERATORS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ethos-u55-12", "did you mean ethos-u55-128"),
        ("hexagon", "there are litert, tflite-micro"),
    ],
)
def test_unknown_targets_are_refused_with_those_that_there_are(name, text):
    with pytest.raises(InvalidRequest, match=text):
        find(name)


def test_names_may_be_typed_in_any_case():
    assert find("Ethos-U55-128").name == "ethos-u55-128"


def test_weights_are_described():
    assert find("neutron-n3-64").weights == "per tensor"
    assert "FULLY_CONNECTED" in find("tflite-micro-2024").weights
    assert find(DEFAULT).weights == "per channel"
