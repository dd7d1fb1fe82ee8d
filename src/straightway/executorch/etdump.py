"""Reads ETDump files: what ExecuTorch's event tracer recorded, run by run."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from straightway.errors import InvalidModel
from straightway.executorch import flatc

_SCHEMA = flatc.PACKAGE / "devtools" / "etdump" / "etdump_schema_flatcc.fbs"
_RUN = "Execute"
_WHOLE = "Method::execute"
_NATIVE = "native_call_"
# Around others that are counted themselves: summing them would count time twice.
_AROUND = ("OPERATOR_CALL", "DELEGATE_CALL", _WHOLE)
_MARK = b"ED00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What took time, without the time: the instruction of the chain, and whether a delegate told."""

    name: str
    instruction: int
    delegated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """Runs of one program: `elapsed` and `starts` are runs × marks, in the tracer's ticks.

    Ticks are nanoseconds of a steady clock (runtime/platform/default/posix.cpp). `calls` are the
    whole delegate calls and `total` the whole runs. `skipped` runs went another way through the
    program than most.
    """

    marks: tuple[Mark, ...]
    elapsed: tuple[tuple[int, ...], ...]
    starts: tuple[tuple[int, ...], ...]
    total: tuple[int, ...]
    skipped: int = 0


def read(data: bytes, subject: str) -> Dump:
    """Decode an ETDump. Raises InvalidModel for a damaged one, or one without a run."""
    if len(data) < 12 or data[8:12] != _MARK:
        raise InvalidModel(f"{subject}: is no ETDump (no mark {_MARK.decode()} at byte 8)")
    size = int.from_bytes(data[:4], "little")
    if size + 4 > len(data):
        raise InvalidModel(f"{subject}: is cut off at {len(data)} of {size + 4} bytes")
    found = flatc.decode(data, _SCHEMA, subject, "--size-prefixed")
    runs = [one.get("events") or [] for one in found["run_data"] if one.get("name") == _RUN]
    read_runs = [one for one in map(_events, runs) if one is not None]
    if not read_runs:
        raise InvalidModel(f"{subject}: holds no run of a program")
    usual, _ = Counter(run.marks for run in read_runs).most_common(1)[0]
    kept = [run for run in read_runs if run.marks == usual]
    return Dump(
        marks=usual,
        elapsed=tuple(run.elapsed[0] for run in kept),
        starts=tuple(run.starts[0] for run in kept),
        total=tuple(run.total[0] for run in kept),
        skipped=len(read_runs) - len(kept),
    )


def _events(run: Sequence[Mapping[str, Any]]) -> Dump | None:
    """One run as a dump of its own; None where it was cut off."""
    profiled = [one["profile_event"] for one in run if one.get("profile_event")]
    whole = next((one for one in profiled if one.get("name") == _WHOLE), None)
    if whole is None:
        return None
    parts = [one for one in profiled if one.get("name") not in _AROUND]
    first = whole["start_time"]
    return Dump(
        marks=tuple(_mark(one) for one in parts),
        elapsed=(tuple(one["end_time"] - one["start_time"] for one in parts),),
        starts=(tuple(one["start_time"] - first for one in parts),),
        total=(whole["end_time"] - first,),
    )


def _mark(event: Mapping[str, Any]) -> Mark:
    told = event.get("delegate_debug_id_str")
    number = event.get("delegate_debug_id_int", -1)
    delegated = bool(told) or number >= 0
    name = told or event.get("name") or str(number)
    return Mark(
        name=str(name).removeprefix(_NATIVE),
        instruction=event["instruction_id"],
        delegated=delegated,
    )
