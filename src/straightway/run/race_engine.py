"""Child side: models timed against each other, in turns, so that a busy machine hits all alike."""

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from straightway.errors import InvalidRequest
from straightway.run.wire import Array

# Imported when first used: a process that runs one of them should not pay for the other.
ENGINES: Mapping[str, str] = {
    "onnxruntime": "straightway.run.onnx_engine",
    "litert": "straightway.run.tflite_engine",
    "executorch": "straightway.executorch.engine",
}


def race(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """CPU time in nanoseconds of each entrant in each round.

    Each timed run follows an untimed one of the same model: nobody pays for the caches that
    another left behind.
    """
    left = list(arrays)
    runners: list[Callable[[], Any]] = []
    for entrant in params["entrants"]:
        if entrant["engine"] not in ENGINES:
            raise InvalidRequest(f"engines are {', '.join(ENGINES)}; got {entrant['engine']}")
        count = entrant["arrays"]
        mine, left = left[:count], left[count:]
        runners.append(importlib.import_module(ENGINES[entrant["engine"]]).prepare(entrant, mine))
    for runner in runners:
        runner()
    samples: list[list[int]] = [[] for _ in runners]
    for _ in range(params["rounds"]):
        for runner, kept in zip(runners, samples, strict=True):
            runner()
            start_ns = time.thread_time_ns()
            runner()
            kept.append(time.thread_time_ns() - start_ns)
    return {"samples_ns": samples}, []
