"""Names of dimensions that say how they follow from others."""

import pytest

from straightway.ingest.derived import size_of, with_derived

SIZES = {"past": 16, "seq": 4, "h": 7}


@pytest.mark.parametrize(
    ("symbol", "size"),
    [
        ("past + 1", 17),
        ("past+seq", 20),
        ("2*h", 14),
        ("(h + 1)//2 + past", 20),
        ("past", None),  # itself
        ("past + other", None),
        ("past-sequence", None),  # a name with a hyphen
        ("seq - past", None),  # no size
        ("h // 0", None),
        ("h // (seq - 4)", None),
        ("past sequence", None),
        ("past.1", None),
        ("x:2", None),
        ("?", None),
        ("", None),
        ("past ** 2", None),
        ("past + 'a'", None),
        ("past + " * 99 + "1", None),
    ],
)
def test_a_size_is_what_the_name_says(symbol, size):
    assert size_of(symbol, SIZES) == size


def test_others_keep_their_sizes():
    assert with_derived({"past": [], "past + 1": []}, {"past": 3}) == {"past": 3, "past + 1": 4}
    assert with_derived({"past + 1": []}, {"past + 1": 9}) == {"past + 1": 9}
