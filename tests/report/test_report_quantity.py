"""Numbers and names as people read them."""

import unicodedata

import pytest
from hostile_view import HOSTILE
from hypothesis import given, strategies as st

from straightway.report.quantity import (
    dimensions,
    duration,
    figure,
    percent,
    plural,
    printable,
    scientific,
    shortened,
    significant,
    size,
)


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [(0, "0 ns"), (0.25, "0.25 ns"), (999, "999 ns"), (999.9, "1.00 µs"), (1500, "1.50 µs"),
     (42_178_000, "42.2 ms"), (999_999_999, "1.00 s"), (123e9, "123 s"), (12_345e9, "12,345 s")],
)  # fmt: skip
def test_duration(time_ns, text):
    assert duration(time_ns) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (12_150_158, "12.2 MB"), (3e9, "3.00 GB")],
)
def test_size(count, text):
    assert size(count) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0.0 %"), (0.0001, "<0.1 %"), (0.0616, "6.2 %"), (0.9996, "100 %"), (1, "100 %")],
)
def test_percent(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (2.1e-5, "2.1e-5"), (0.5, "5.0e-1"), (float("inf"), "inf"), (float("nan"), "nan")],
)
def test_scientific(number, text):
    assert scientific(number) == text


def test_counts_and_shapes():
    assert plural(1, "node") == "1 node"
    assert plural(1234, "node") == "1,234 nodes"
    assert dimensions((1, 3, 320)) == "1×3×320"
    assert dimensions(()) == "scalar"
    assert significant(float("inf")) == "inf"


@pytest.mark.parametrize(
    ("name", "number", "shown"),
    [("time_ns", 38_200, ("time", "38.2 µs")), ("moved_bytes", 2000, ("moved", "2.00 kB")),
     ("joined_percent", 98.8, ("joined", "98.8 %")), ("nodes", 57, ("nodes", "57")),
     ("ratio", 0.5, ("ratio", "0.500"))],
)  # fmt: skip
def test_figures_take_their_unit_from_the_name(name, number, shown):
    assert figure(name, number) == shown


@given(st.text(alphabet=st.characters(), max_size=400), st.integers(20, 200))
def test_printable_is_visible_and_bounded(text, longest):
    shown = printable(text, longest)
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in shown)
    assert len(shown) <= 8 * max(longest, 24)
    shown.encode("utf-8")


def test_printable_keeps_both_ends_of_a_long_name():
    shown = printable("start" + "x" * 10_000 + "end", 100)
    assert shown.startswith("start")
    assert shown.endswith("end")
    assert len(shown) <= 100
    assert printable("/model.22/Conv", 100) == "/model.22/Conv"


def test_printable_spells_direction_overrides_out():
    assert printable(HOSTILE[4]).startswith("\\u202e gpj.exe \\u2066\\u0000\\u001b[31m")


def test_long_names_in_a_sentence_lose_their_middle():
    name = "/model" + "/block" * 40 + "/Conv"
    shown = shortened(f"12.3 dB  CONV_2D '{name}': kept")
    assert len(shown) < 100
    assert shown.startswith("12.3 dB  CONV_2D '/model")
    assert shown.endswith("/Conv': kept")
    assert shortened("a short sentence") == "a short sentence"
