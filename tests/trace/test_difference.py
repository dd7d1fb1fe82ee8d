"""Two traces are compared row by row; what is inside the noise is no difference."""

from dataclasses import replace
from operator import mul

import pytest

from straightway.trace.difference import difference
from straightway.trace.schema import Event, Op, Run, Trace
from straightway.trace.statistics import paired_ratio, ratio_of_medians

RUN = Run(device="here", runtime="LiteRT", clock="thread CPU", warmup=1, runs=9)
NOISE = (1.0, 1.02, 0.99, 1.01, 0.98, 1.0, 1.03, 0.97, 1.01)


def trace_of(kind, scale, *, extra=0.0):
    def samples(base):
        return tuple(base * one for one in NOISE)

    events = [
        Event(
            id=0,
            name="conv",
            kind=kind,
            op_index=0,
            place="builtin",
            samples_ns=samples(1000 * scale),
        ),
        Event(id=1, name="add", kind="ADD", op_index=1, place="builtin", samples_ns=samples(100)),
    ]
    if extra:
        events.append(
            Event(id=2, name="turn", kind="TRANSPOSE", place="builtin", samples_ns=samples(extra))
        )
    ops = (
        Op(index=0, kind=kind, file="net.py", line=3, module="first"),
        Op(index=1, kind="ADD", file="net.py", line=4),
    )
    whole = tuple((1100 * scale + extra) * one for one in NOISE)
    return Trace(run=RUN, events=tuple(events), total_ns=whole, ops=ops)


def test_lines_of_the_model_join_two_runtimes():
    found = difference(
        trace_of("CONV_2D", 1.0, extra=400.0), trace_of("aten.convolution.default", 0.5)
    )
    rows = {row.name: row for row in found.places}
    assert rows["first net.py:3"].ratio.median == pytest.approx(0.5)
    assert rows["first net.py:3"].ratio.is_faster
    assert not rows["net.py:4"].ratio.is_clear
    assert rows["turn"].ratio is None
    assert rows["turn"].gain_ns == pytest.approx(400.0)
    assert [row.name for row in found.categories][:2] == ["convolution", "data movement"]


def test_operators_of_two_runtimes_have_one_name():
    other = replace(
        trace_of("aten.convolution.default", 0.5), run=replace(RUN, runtime="ExecuTorch")
    )
    found = difference(trace_of("CONV_2D", 1.0, extra=400.0), other)
    rows = {row.name: row for row in found.operators}
    assert set(rows) == {"Convolution", "Add", "Transpose"}
    assert rows["Convolution"].ratio.median == pytest.approx(0.5)


def test_the_time_that_both_spend_at_a_line_is_shared():
    found = difference(trace_of("CONV_2D", 1.0, extra=1100.0), trace_of("CONV_2D", 0.5))
    assert found.shared == pytest.approx((0.5, 1.0))


def test_work_in_a_body_stands_at_the_line_of_its_loop():
    one = trace_of("WHILE", 1.0)
    body = Event(
        id=5, name="exp", op_index=1, subgraph=1, owner=0, place="builtin", samples_ns=(1000.0,) * 9
    )
    found = difference(replace(one, events=(*one.events, body)), one)
    rows = {row.name: row for row in found.places}
    assert rows["first net.py:3"].a_ns == pytest.approx(2000.0)


def test_a_trace_differs_not_from_itself():
    one = trace_of("CONV_2D", 1.0)
    found = difference(one, one)
    assert not found.whole.is_clear
    assert found.whole.low <= 1 <= found.whole.high
    assert "no difference" in str(found.whole)


def test_pairs_remove_what_hits_both():
    drift = [1.0, 5.0, 2.0, 9.0, 3.0, 7.0, 4.0, 8.0, 6.0]
    first = [0.9 * a * b for a, b in zip(drift, NOISE)]
    assert paired_ratio(first, drift).is_faster
    assert not ratio_of_medians(first, drift).is_clear


def test_traces_in_turns_are_compared_run_by_run():
    drift = (1.0, 5.0, 2.0, 9.0, 3.0, 7.0, 4.0, 8.0, 6.0)

    def drifting(scale):
        one = trace_of("CONV_2D", scale)
        events = tuple(
            replace(e, samples_ns=tuple(map(mul, e.samples_ns, drift))) for e in one.events
        )
        return replace(one, events=events, total_ns=tuple(map(mul, one.total_ns, drift)))

    first, second = drifting(1.0), drifting(0.9)
    assert not difference(first, second).whole.is_clear
    found = difference(first, second, in_turns=True)
    assert found.pairs == len(drift)
    assert found.whole.is_faster
    assert all(row.ratio.high < 1 for row in found.operators if row.name == "CONV_2D")
    cut = replace(second, total_ns=second.total_ns[1:])
    assert difference(first, cut, in_turns=True).pairs == 0


def test_ratios_need_times():
    with pytest.raises(ValueError, match="above 0"):
        ratio_of_medians([1.0], [0.0])


def test_a_projection_changes_products_alone():
    from straightway.trace.projection import project

    trace = trace_of("CONV_2D", 1.0, extra=400.0)
    found = project(trace, 4.0)
    assert found.total_ns == pytest.approx(trace.median_ns - 750.0)
    assert found.moved_share == pytest.approx(400.0 / found.total_ns)
    assert project(trace, 1.0).speedup == pytest.approx(1.0)
    with pytest.raises(ValueError, match="times faster"):
        project(trace, 0.0)
