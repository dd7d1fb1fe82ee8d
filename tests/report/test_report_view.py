"""Views survive JSON, and damaged reports are refused with one clear message."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hostile_view import hostile_view
from hypothesis import given, strategies as st
from rounded_view import rounded_view
from sample_view import (
    different_view,
    large_view,
    refused_view,
    sample_view,
    unverified_view,
)

from straightway.errors import InvalidRequest
from straightway.report.codec import decode, encode
from straightway.report.view import VIEW_VERSION, Latency, Timing, View

VIEWS = [
    sample_view, different_view, refused_view, unverified_view, hostile_view, rounded_view,
    lambda: large_view(50),
]  # fmt: skip


@pytest.mark.parametrize("build", VIEWS)
def test_json_gives_the_same_view_back(build):
    view = build()
    text = json.dumps(view.to_json(), allow_nan=False)
    assert View.from_json(json.loads(text)) == view


def test_json_is_versioned():
    data = sample_view().to_json()
    assert data["version"] == VIEW_VERSION
    with pytest.raises(InvalidRequest, match="reads reports of version 3; got 99"):
        View.from_json({**data, "version": 99})
    with pytest.raises(InvalidRequest, match="got None"):
        View.from_json({})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": 3}, "view.title must be a text; got 3"),
        ({"operators": 3}, "view.operators must be a list; got 3"),
        ({"operators": [{"index": "0"}]}, r"view.operators\[0\] needs the field 'kind'"),
        ({"verdict": {"status": "fine", "text": ""}}, "view.verdict.status must be one of"),
        ({"model": {"name": "m", "bytes": True}}, "view.model.bytes must be a whole number"),
        ({"conversion_ns": "soon"}, "view.conversion_ns must be a number; got 'soon'"),
        ({"versions": []}, "view.versions must be an object"),
        ({"plan": {"minimal": 1}}, "view.plan.minimal must be true or false"),
        ({"colour": "red"}, "got 'colour'"),
        ({"machine": 1}, "view.machine must be an object"),
    ],
)
def test_damaged_json_is_named(change, message):
    with pytest.raises(InvalidRequest, match=message):
        View.from_json({**sample_view().to_json(), **change})


def test_missing_field_is_named():
    data = sample_view().to_json()
    del data["model"]
    with pytest.raises(InvalidRequest, match="view needs the field 'model'"):
        View.from_json(data)


@given(st.floats(width=64))
def test_every_float_survives(number):
    back = decode(float, json.loads(json.dumps(encode(number), allow_nan=False)), "x")
    assert back == number or (math.isnan(back) and math.isnan(number))


def test_numbers_of_numpy_become_plain():
    assert type(encode(np.float32(0.5))) is float
    assert type(encode(np.int64(3))) is int
    assert encode((np.float64("nan"), np.float32("-inf"))) == ["nan", "-inf"]


def test_views_cannot_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        sample_view().title = "other"


def timing(median_ns, spread_ns):
    return Timing(
        engine="e", median_ns=median_ns, p10_ns=median_ns - spread_ns, p90_ns=median_ns + spread_ns,
        runs=9,
    )  # fmt: skip


def test_latency_is_clear_only_where_the_spreads_are_apart():
    apart = Latency(ours=timing(80, 5), reference=timing(100, 5))
    overlap = Latency(ours=timing(95, 5), reference=timing(100, 5))
    slower = Latency(ours=timing(120, 5), reference=timing(100, 5))
    assert (apart.ratio, apart.clear) == (0.8, True)
    assert (overlap.ratio, overlap.clear) == (0.95, False)
    assert (slower.ratio, slower.clear) == (1.2, True)
    alone = Latency(ours=timing(80, 5))
    assert (alone.ratio, alone.clear) == (None, False)
