"""Traces as data: JSON there and back, statistics, sums."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from straightway.errors import InvalidRequest
from straightway.trace.schema import Event, Op, Run, Tensor, Trace, unaccounted
from straightway.trace.statistics import Spread, median, quantile

TRACE = Trace(
    run=Run(
        device="a board", runtime="LiteRT", versions={"ai-edge-litert": "2.3.0"}, clock="wall",
        warmup=1, runs=3,
    ),
    events=(
        Event(
            id=0, name="Convolution (NHWC, F32) IGEMM", kind="CONV_2D", op_index=0, partition=0,
            place="xnnpack", kernel="IGEMM", start_ns=0.0, samples_ns=(5.0, 7.0, 6.0), macs=12,
        ),
        unaccounted(1, 8.0, 6.0),
    ),
    total_ns=(8.0, 9.0, 7.0),
    ops=(Op(index=0, kind="CONV_2D", inputs=(Tensor(name="x", shape=(1, 2), dtype="int8"),)),),
)  # fmt: skip


def test_json_there_and_back():
    assert Trace.from_json(TRACE.to_json()) == TRACE
    assert json.loads(TRACE.to_json())["version"] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is JSON"),
        ("[]", '"format": "straightway-trace"'),
        ('{"format": "other"}', '"format": "straightway-trace"'),
        ('{"format": "straightway-trace", "version": 99}', "version 1; got 99"),
        ('{"format": "straightway-trace", "version": 1}', "damaged: 'run'"),
        (TRACE.to_json().replace('"clock"', '"clocc"'), "damaged"),
    ],
)
def test_other_files_are_refused(text, says):
    with pytest.raises(InvalidRequest, match=says):
        Trace.from_json(text)


def test_sums_and_spreads():
    event = TRACE.events[0]
    assert event.median_ns == 6.0
    assert event.spread == Spread(median=6.0, p10=5.2, p90=6.8, minimum=5.0, samples=3)
    assert event.category == "convolution"
    assert TRACE.median_ns == 8.0
    assert TRACE.operator_ns == 6.0
    assert TRACE.events[1].median_ns == 2.0
    assert TRACE.events[1].category == "unaccounted"


def test_the_rest_may_be_negative():
    assert unaccounted(0, 5.0, 6.0).median_ns == -1.0


def test_a_helper_counts_as_what_it_does_itself():
    event = replace(TRACE.events[0], kind="FULLY_CONNECTED", name="Convert (NC, F32, QD8)")
    assert event.category == "type conversion"
    assert replace(event, place="builtin").category == "matrix"


@given(st.lists(st.integers(0, 10**9), min_size=1), st.floats(0, 1))
def test_a_quantile_lies_between_its_neighbours(samples, share):
    ordered = sorted(samples)
    value = quantile(samples, share)
    assert ordered[0] <= value <= ordered[-1]
    assert sum(one < value for one in samples) <= share * (len(samples) - 1) + 1
    assert median(samples) == median(samples[::-1])


def test_nothing_measured_has_no_median():
    with pytest.raises(ValueError, match="at least one sample"):
        median([])
