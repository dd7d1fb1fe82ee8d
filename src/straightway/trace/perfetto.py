"""A trace as Chrome's trace event JSON, which Perfetto's viewer opens."""

import json

from straightway.trace.schema import Event, Trace


def to_perfetto(trace: Trace) -> str:
    """One run at median times, a track for each place.

    Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (complete
    events, microseconds).
    """
    places = list(dict.fromkeys(event.place for event in trace.events))
    events: list[dict[str, object]] = [
        {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": place}}
        for number, place in enumerate(places)
    ]
    start_ns = 0.0
    for event in trace.events:
        duration_ns = max(0.0, event.median_ns)
        events.append(
            {
                "name": event.name,
                "cat": event.category,
                "ph": "X",
                "ts": start_ns / 1e3,
                "dur": duration_ns / 1e3,
                "pid": 1,
                "tid": places.index(event.place),
                "args": _details(event),
            }
        )
        start_ns += duration_ns
    facts = {"device": trace.run.device, "runtime": trace.run.runtime, "clock": trace.run.clock}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": facts})


def _details(event: Event) -> dict[str, object]:
    known = {
        "op": event.kind or None,
        "op index": event.op_index,
        "partition": event.partition,
        "multiplications": event.macs,
        "bytes": event.moved_bytes,
        "p10 ns": event.spread.p10,
        "p90 ns": event.spread.p90,
    }
    return {name: value for name, value in known.items() if value is not None}
