"""What a report shows of eight bits: ranks, pictures, and names that stay text."""

import re
from dataclasses import replace

import pytest
from hostile_view import HOSTILE
from rounded_view import rounded_view
from test_report_html import Page

from straightway.report.accuracy import along, decibels, histogram
from straightway.report.html import render_html


def numbers(points):
    return [tuple(map(float, pair.split(","))) for pair in points.split()]


def test_the_page_ranks_what_causes_the_error():
    view = rounded_view()
    page = Page(render_html(view))
    first, second = view.accuracy.ranked[:2]
    assert first.share >= second.share
    assert "What causes the end error" in page.text
    assert "1 conversion between floats and integers left" in page.text
    assert "34.2 dB signal to error" in page.text
    for heading in ("Branches", "Ranges before and after", "Error along the graph"):
        assert heading in page.text


def test_where_shares_were_not_measured_the_least_accurate_come_first():
    view = rounded_view()
    inside = tuple(replace(one, share=None) for one in view.accuracy.inside)
    view = replace(view, accuracy=replace(view.accuracy, inside=inside, shares=""))
    least = min(one.sqnr_db for one in inside)
    assert view.accuracy.ranked[0].sqnr_db == least
    assert "The least accurate nodes" in Page(render_html(view)).text


def test_hostile_names_stay_text():
    text = render_html(rounded_view(names=HOSTILE[:8]))
    page = Page(text)
    assert [t for t, _ in page.elements].count("script") == 2
    assert "\u202e" not in text
    assert HOSTILE[3] in page.text
    for tag, attributes in page.elements:
        assert tag not in {"img", "iframe", "image", "use", "foreignobject"}
        assert not [name for name in attributes if name.startswith("on")]


def test_a_thousand_values_take_little():
    more = len(render_html(rounded_view(1000))) - len(render_html(rounded_view(2)))
    assert more < 200_000


def test_the_line_stays_in_its_box_and_marks_what_it_is_told():
    inside = rounded_view().accuracy.inside
    line = along(inside, inside[3:5])
    points = numbers(line.points)
    assert len(points) == len(inside)
    assert points[0][0] == 0
    assert points[-1][0] == 1000
    assert all(0 <= y <= 200 for _, y in points)
    assert [(x, y) for x, y, _ in line.marks] == points[3:5]
    assert along(inside[:1], ()) is None


def test_exact_values_do_not_flatten_the_line():
    inside = rounded_view().accuracy.inside
    line = along((replace(inside[0], sqnr_db=150.0), *inside[1:]), ())
    assert line.high_db - line.low_db <= 70
    assert numbers(line.points)[0][1] == 5


def test_outlines_are_of_both():
    one = rounded_view().accuracy.inside[0]
    picture = histogram(one)
    before, after = numbers(picture.before), numbers(picture.after)
    assert before[0] == after[0] == (0, 100)
    assert len(before) == 2 * 48 + 2
    assert min(y for _, y in after) == 4
    assert picture.low == pytest.approx(480 * 0.5 / 5)
    assert histogram(replace(one, bins_high=one.bins_low)) is None
    assert histogram(replace(one, low=-99.0)).low is None


def test_distances_are_told():
    assert decibels(None) == decibels(150.0) == "exact"
    assert re.fullmatch(r"-?\d+\.\d dB", decibels(-3.25))
