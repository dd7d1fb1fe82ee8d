"""Facts about targets carry their source; every limit has a sentence."""

import re

import pytest

from straightway.lower import families
from straightway.lower.declare import LOWERINGS
from straightway.tflite.rows import ROWS

families.load()
KERNEL = re.compile(r"^[\w/.]+\.(cc|h):\d+")
NEEDS = [(str(entry.op), need) for entry in LOWERINGS.values() for need in entry.needs]


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_row_cites_its_kernel(row):
    assert KERNEL.match(row.kernel)
    assert row.types or row.quantized


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_row_says_what_the_delegate_asks(row):
    if isinstance(row.xnnpack, str):
        assert row.xnnpack
    else:
        assert all(condition.text for condition in row.xnnpack)


@pytest.mark.parametrize(
    ("op", "need"), NEEDS, ids=[f"{op}-{k}" for k, (op, _) in enumerate(NEEDS)]
)
def test_a_need_says_what_must_be_and_what_is(op, need):
    limit = need.limit(op)
    assert " must " in limit
    assert not re.search(r"[{}]|got ", limit)
    assert "; got " in need.text or "{" not in need.text


def test_what_rules_something_out_is_cited():
    bare = [f"{op}: {need.text}" for op, need in NEEDS if not need.possible and not need.kernel]
    assert not bare


def test_a_need_formats_only_what_is_bound():
    for entry in LOWERINGS.values():
        bound = {parameter.name for parameter in entry.parameters}
        for need in entry.needs:
            asked = set(re.findall(r"{(\w+)", need.text))
            assert asked <= bound | set(need.parameters()), f"{entry.op}: {need.text}"


@pytest.mark.parametrize("key", LOWERINGS, ids=" ".join)
def test_a_lowering_has_samples(key):
    entry = LOWERINGS[key]
    assert entry.samples
    assert bool(entry.refuses) >= bool(entry.needs)
