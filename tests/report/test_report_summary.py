"""Sums over the rows, against numbers worked out by hand."""

from dataclasses import replace

import pytest
from sample_view import refused_view, sample_view

from straightway.remark import Remark
from straightway.report.summary import (
    accounted_share,
    category_times,
    farthest,
    group_refusals,
    ideal_ns,
    missed_remarks,
    nearest_bandwidth,
    overhead_share,
    peak_share,
    peaks_text,
)
from straightway.report.view import Bandwidth, Machine, OperatorRow, Roofline


def row(index, category, time_ns):
    return OperatorRow(index=index, kind="X", category=category, time_ns=time_ns)


def test_category_times_have_the_fixed_order_and_name_the_rest():
    rows = [row(0, "data movement", 10), row(1, "convolution", 50), row(2, "convolution", 20)]
    times = category_times(rows, 100)
    assert [(t.name, t.time_ns, t.share, t.count) for t in times] == [
        ("convolution", 70, 0.7, 2),
        ("data movement", 10, 0.1, 1),
        ("unaccounted", 20, 0.2, 0),
    ]


def test_unknown_categories_come_before_other():
    rows = [row(0, "other", 1), row(1, "sparse", 1), row(2, "type conversion", 1)]
    assert [t.name for t in category_times(rows, 3)] == ["type conversion", "sparse", "other"]


def test_shares_are_of_the_run_and_what_exceeds_it_is_a_negative_rest():
    times = category_times([row(0, "matrix", 60), row(1, "other", 60)], 100)
    assert [(t.name, t.share) for t in times] == [
        ("matrix", 0.6), ("other", 0.6), ("unaccounted", -0.2),
    ]  # fmt: skip
    assert sum(t.share for t in times) == pytest.approx(1)


def test_a_rest_that_no_measurement_can_tell_is_none():
    assert [t.name for t in category_times([row(0, "matrix", 99.9999)], 100)] == ["matrix"]


def test_nothing_measured_has_no_shares():
    assert [t.share for t in category_times([row(0, "matrix", None)], 0)] == [0.0]
    assert category_times([], 0) == ()


def test_the_peaks_are_told_where_the_bandwidth_falls():
    rates = [(16_000, 500.0), (64_000, 490.0), (10**6, 300.0), (10**7, 100.0), (10**8, 90.0)]
    machine = Machine(
        cpu="test",
        peak_gmacs=50.0,
        bandwidths=tuple(Bandwidth(bytes=moved, gbs=gbs) for moved, gbs in rates),
    )
    assert peaks_text(machine) == (
        "measured peaks: 50.0 GMAC/s; GB/s by bytes moved: "
        "500 at 16.0 kB, 300 at 1.00 MB, 100 at 10.0 MB"
    )
    assert nearest_bandwidth(machine) == Bandwidth(bytes=64_000, gbs=500.0)
    assert peaks_text(Machine(cpu="test")) == peaks_text(None) == ""


def test_ideal_time_never_exceeds_the_measured_one():
    fast = replace(
        row(0, "matrix", 100),
        roofline=Roofline(gmacs=100.0, gbs=0.08, percent_of_peak=200.0, bound="compute"),
    )
    assert ideal_ns(fast) == 100
    assert ideal_ns(row(0, "matrix", 100)) == 100


def test_farthest_are_the_operators_that_lose_most():
    view = sample_view()
    found = farthest(view, 5)
    losses = [r.time_ns - ideal_ns(r) for r in found]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == max(r.time_ns - ideal_ns(r) for r in view.operators)


def test_shares_of_the_sample_add_up():
    view = sample_view()
    moved = sum(
        r.time_ns for r in view.operators if r.category in {"data movement", "type conversion"}
    )
    assert overhead_share(view) == pytest.approx(moved / view.latency.ours.median_ns)
    assert accounted_share(view) == pytest.approx(1 / 1.012)
    assert 0 < peak_share(view) < 1


def test_refusals_are_grouped_by_reason_and_remedy():
    same = [Remark(kind="missed", step="s", text="no", node=f"n{i}", op="A") for i in range(2)]
    other = Remark(kind="missed", step="s", text="no", node="m", op="B", remedy="do")
    groups = group_refusals([other, *same])
    assert [(g.cause, g.remedy, [n.name for n in g.nodes]) for g in groups] == [
        ("no", "", ["n0", "n1"]),
        ("no", "do", ["m"]),
    ]


def test_refused_nodes_are_not_remarks_again():
    view = refused_view()
    assert missed_remarks(view) == ()
    extra = Remark(kind="missed", step="fuse", text="other")
    assert missed_remarks(replace(view, remarks=(*view.remarks, extra))) == (extra,)
