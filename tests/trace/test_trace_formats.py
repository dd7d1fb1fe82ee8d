"""The files that other people's viewers open."""

import json

import pytest

from straightway.trace.perfetto import to_perfetto
from straightway.trace.schema import Event, Run, Trace, unaccounted
from straightway.trace.speedscope import to_speedscope


def _event(number, name, samples_ns, place="xnnpack", **more):
    return Event(id=number, name=name, place=place, samples_ns=samples_ns, **more)


@pytest.fixture(params=[40.0, 10.0], ids=["a rest", "a negative rest"])
def trace(request):
    return Trace(
        run=Run(device="board", runtime="LiteRT", clock="wall", warmup=0, runs=1, model="m.tflite"),
        events=(
            _event(0, "Add (ND)", (10.0, 12.0, 11.0), kind="ADD", op_index=0, partition=0),
            _event(1, "CUMSUM", (20.0,), place="builtin", kind="CUMSUM", op_index=1, macs=0),
            _event(2, "Add (ND)", (5.0,), kind="ADD", op_index=2, partition=1),
            unaccounted(3, request.param, 36.0),
        ),
        total_ns=(request.param,),
    )


def test_perfetto_lays_events_end_to_end_on_tracks_by_place(trace):
    data = json.loads(to_perfetto(trace))
    tracks = {e["tid"]: e["args"]["name"] for e in data["traceEvents"] if e["ph"] == "M"}
    rows = [e for e in data["traceEvents"] if e["ph"] == "X"]
    assert [tracks[row["tid"]] for row in rows] == ["xnnpack", "builtin", "xnnpack", "unaccounted"]
    assert [row["ts"] for row in rows] == [0.0, 0.011, 0.031, 0.036]
    assert all(row["dur"] >= 0 for row in rows)
    assert [row["cat"] for row in rows] == ["elementwise", "other", "elementwise", "unaccounted"]
    assert rows[0]["args"] == {"op": "ADD", "op index": 0, "partition": 0, "p10 ns": 10.2,
                               "p90 ns": 11.8}  # fmt: skip
    assert data["otherData"]["clock"] == "wall"


def test_speedscope_opens_and_closes_every_frame_in_order(trace):
    data = json.loads(to_speedscope(trace))
    (profile,) = data["profiles"]
    frames = data["shared"]["frames"]
    stack, last = [], profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= last
        last = event["at"]
        assert event["frame"] < len(frames)
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"]
    assert stack == []
    assert last == profile["endValue"]
    assert profile["unit"] == "nanoseconds"
    assert data["$schema"].startswith("https://www.speedscope.app/")
