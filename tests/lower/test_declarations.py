"""Every declaration by its own cases: samples compute what onnxruntime computes, refusals refuse."""

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import onnx.defs
import pytest
from case_models import build, computed, expected, guessed, lowered

from straightway.flow.tolerance import compare
from straightway.lower.bind import HINT
from straightway.lower.declare import LOWERINGS, Case, Lowering, Need
from straightway.run.process import Child


def cases(kind: str) -> list[object]:
    found = []
    for lowering in LOWERINGS.values():
        for k, case in enumerate(getattr(lowering, kind)):
            found.append(pytest.param(lowering, case, id=f"{lowering.op}-{k}"))
    return found


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(engines=["onnxruntime", "litert"]) as made:
        yield made


@pytest.mark.parametrize(("lowering", "case"), cases("samples"))
def test_sample(lowering: Lowering, case: Case, child: Child, tmp_path: Path) -> None:
    made = build(lowering, case)
    want = expected(child, lowering, case, tmp_path)
    found = lowered(made.with_outputs(want), tmp_path)
    if not all(array.size for array in want.values()):
        assert "hands out no empty tensor" in found.refusals[0].text
        return
    assert not found.refusals
    got = computed(child, found, made.feeds, tmp_path)
    for (name, array), result in zip(want.items(), got, strict=True):
        check = compare(name, array, result)
        assert check.equal, check.reason


def pattern(need: Need) -> str:
    """A need's sentence as a regular expression: anything may stand for what was found."""
    return ".*".join(re.escape(part) for part in re.split(r"\{[^}]*\}", need.text))


@pytest.mark.parametrize(("lowering", "case"), cases("refuses"))
def test_refusal(lowering: Lowering, case: Case, tmp_path: Path) -> None:
    (remark,) = lowered(guessed(build(lowering, case)), tmp_path).refusals
    assert remark.node == "node"
    assert remark.text


@pytest.mark.parametrize(
    "lowering", [pytest.param(v, id=str(v.op)) for v in LOWERINGS.values() if v.needs]
)
def test_every_need_is_tripped(lowering: Lowering, tmp_path: Path) -> None:
    texts = []
    for case in lowering.refuses:
        texts += [r.text for r in lowered(guessed(build(lowering, case)), tmp_path).refusals]
    untripped = [
        need.text
        for need in lowering.needs
        if not any(re.match(pattern(need), text, re.DOTALL) for text in texts)
    ]
    assert not untripped, texts


def test_every_declaration_has_samples() -> None:
    assert [str(v.op) for v in LOWERINGS.values() if not v.samples] == []


def test_every_attribute_and_operand_of_every_opset_is_named() -> None:
    unnamed = []
    for found in onnx.defs.get_all_schemas_with_history():
        lowering = LOWERINGS.get((found.domain or "onnx", found.name))
        if lowering is None or found.deprecated:
            continue
        known = {*names(lowering), HINT}
        positional = [p for p in lowering.parameters if p.kind is p.POSITIONAL_ONLY]
        variadic = any(p.kind is p.VAR_POSITIONAL for p in lowering.parameters)
        operands = [] if variadic else [i.name.lower() for i in found.inputs[len(positional) :]]
        unnamed += [
            f"{found.name}@{found.since_version}: {name}"
            for name in (*found.attributes, *operands)
            if name not in known
        ]
    # of opset 1, where scales were two attributes; nobody exports it
    assert unnamed == ["Upsample@1: height_scale", "Upsample@1: width_scale"]


def names(lowering: Lowering) -> set[str]:
    """What a signature names, groups of attributes by their fields."""
    found = {p.name.rstrip("_") for p in lowering.parameters}
    for parameter in lowering.parameters:
        if is_dataclass(parameter.annotation):
            found |= {field.name for field in fields(parameter.annotation)}
    return found
