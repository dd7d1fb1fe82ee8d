"""A trace as a speedscope file: categories of work, and in them the operators."""

import json

from straightway.trace.schema import Trace

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def to_speedscope(trace: Trace) -> str:
    """One run at median times as an evented profile: each operator stands on its category."""
    frames: dict[str, int] = {}
    events: list[dict[str, object]] = []
    at_ns = 0.0
    for event in trace.events:
        end_ns = at_ns + max(0.0, event.median_ns)
        stack = [frames.setdefault(name, len(frames)) for name in (event.category, event.name)]
        events += [{"type": "O", "frame": frame, "at": at_ns} for frame in stack]
        events += [{"type": "C", "frame": frame, "at": end_ns} for frame in reversed(stack)]
        at_ns = end_ns
    return json.dumps(
        {
            "$schema": _SCHEMA,
            "exporter": "straightway",
            "name": trace.run.model,
            "shared": {"frames": [{"name": name} for name in frames]},
            "profiles": [
                {
                    "type": "evented",
                    "name": f"{trace.run.model} on {trace.run.device}",
                    "unit": "nanoseconds",
                    "startValue": 0,
                    "endValue": at_ns,
                    "events": events,
                }
            ],
        }
    )
