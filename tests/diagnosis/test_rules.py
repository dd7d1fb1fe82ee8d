"""Each rule finds what it is for in the gallery, and nothing in what is next to it."""

import pytest

from straightway.diagnosis.rules.catalogue import RULES, named
from straightway.errors import InvalidRequest

# By program and rule: the blocks in which it finds something. What is not listed, it must not find.
EXPECTED = {
    "fp32": {
        "attention": {"attention"},
        "bicubic": {"bicubic"},
        "recurrent-cell": {"lstm", "gru"},
        "mish": {"mish"},
        "softplus": {"softplus"},
        "rms-norm": {"rms_norm"},
        "scalar": {"scalar", "split", "returns", "joined"},
        "dead-output": {"returns"},
        "constant-work": {"folds", "bicubic", "lstm", "gru", "reflection"},
        "layer-norm": {"layer_norm"},
        "group-norm": {"group_norm", "sides"},
        "instance-norm": {"instance_norm"},
        "batch-norm-order": {"batch_norm"},
        "convolution-1d": {"audio"},
        "mean-keepdim": {"mean"},
        "nearest": {"nearest"},
        "split": {"split"},
        "strided-slice": {"strided"},
        "expand": {"expand", "split", "plain_attention"},
        "where": {"where"},
        "softmax-axis": {"softmax_channels"},
        "elu": {"elu"},
        "matmul": {"product"},
        "embedding": {"table"},
        "dim-order-copy": {"casts"},
        "index-work": {"table", "reflection"},
        "squeeze": {"squeezed"},
        "island": {"cumulated"},
        "layout-ping-pong": {"shuffle"},
    },
    "fp16": {
        "half-gelu": {"gelu"},
        "half-norm": {"group_norm"},
        "layer-norm": {"layer_norm"},
        "half-silu": {"silu"},
        "dim-order-copy": {"layer_norm"},  # its kernel of halves is wrong: it is left in floats
    },
    "old": {"batch-norm": {"batch_norm", "batch_norm_first"}},
}
# Found at every image that comes in or goes out, or crosses partitions.
EVERYWHERE = {"channels-last-input", "skip-connection"}
# Held in test_eight_bits.py: torchao takes long.
INTEGERS = {"int8-float-island", "int8-concatenation"}
CASES = [
    (program, rule.name) for program in EXPECTED for rule in RULES if rule.name not in EVERYWHERE
]


def blocks_of(diagnosis, rule):
    places = [p for one in diagnosis.findings if one.rule == rule for p in one.places]
    return {p.module.split(".")[1] if "." in p.module else p.module for p in places}


@pytest.mark.parametrize(("program", "rule"), CASES)
def test_a_rule_finds_what_it_is_for_and_nothing_else(programs, program, rule):
    _, diagnosis = programs(program)
    assert blocks_of(diagnosis, rule) == EXPECTED[program].get(rule, set())


def test_every_rule_has_a_model_that_triggers_it():
    triggered = {rule for found in EXPECTED.values() for rule in found}
    assert triggered | EVERYWHERE | INTEGERS == {rule.name for rule in RULES}


def test_what_crosses_partitions_and_borders_is_found(programs):
    _, diagnosis = programs("fp32")
    assert "sides" in blocks_of(diagnosis, "skip-connection")
    borders = blocks_of(diagnosis, "channels-last-input")
    assert {"gelu", "bilinear"} <= borders
    assert not {"table", "product", "audio", "plain_attention"} & borders


def test_no_time_is_promised_twice(programs):
    for program in EXPECTED:
        _, diagnosis = programs(program)
        assert 0 < diagnosis.overhead <= 1
        assert all(one.saves.median <= one.cost.median for one in diagnosis.findings)
        saves = [one.saves.median for one in diagnosis.findings]
        assert saves == sorted(saves, reverse=True)


def test_a_finding_has_its_line(programs):
    _, diagnosis = programs("fp32")
    for one in diagnosis.findings:
        assert one.cause.file.endswith("gallery.py")
        assert one.cause.line
    norm = next(one for one in diagnosis.findings if one.rule == "layer-norm")
    assert "self.inner(self.before(x))" in norm.cause.code
    assert any("no rule" in text for text in norm.evidence)
    assert any("NHWC" in text for text in norm.evidence)
    assert norm.fix == "layer-norm"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_documented(rule):
    told = rule.documentation
    assert told.title
    assert min(len(told.finds), len(told.costs), len(told.advice)) > 30
    assert rule.safety in {"exact", "interface", "numbers"}


def test_names_are_one_to_a_rule():
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert [rule.name for rule in named(["where", "attention"])] == ["attention", "where"]
    with pytest.raises(InvalidRequest, match="no rule is called 'absent'"):
        named(["absent"])


def test_a_fix_is_a_rewrite_that_there_is(programs):
    from straightway.executorch.rewrites.catalogue import INTERFACE, REWRITES

    programs("old")
    assert {rule.fix for rule in RULES} - {""} <= {one.name for one in (*REWRITES, *INTERFACE)}
