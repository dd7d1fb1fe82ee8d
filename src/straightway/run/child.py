"""The child process that holds the engines: `python -m straightway.run.child [engine ...]`.

Reads requests from stdin and answers on stdout (`wire.py`); engines named on the command line are
imported before the first request. Everything that engines print goes to stderr, which the parent
keeps in a file.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from straightway.errors import InvalidModel, InvalidRequest, StraightwayError, ToolFailed
from straightway.run import wire
from straightway.run.race_engine import ENGINES
from straightway.run.wire import Array

Answer = tuple[dict[str, Any], list[Array]]

_VERBS: Mapping[str, tuple[str, str]] = {
    "onnx.run": ("run.onnx_engine", "run"),
    "onnx.profile": ("run.onnx_engine", "profile"),
    "onnx.evaluate": ("run.reference_engine", "run"),
    "tflite.run": ("run.tflite_engine", "run"),
    "tflite.profile": ("run.profile_engine", "profile"),
    "onnx.observe": ("run.observe_engine", "add"),
    "onnx.observed": ("run.observe_engine", "result"),
    "onnx.resume": ("run.observe_engine", "resume"),
    "onnx.draw": ("run.rows_engine", "add"),
    "onnx.drawn": ("run.rows_engine", "result"),
    "micro.run": ("run.micro_engine", "run"),
    "race": ("run.race_engine", "race"),
    "peak": ("run.peak_engine", "measure"),
    "executorch.run": ("executorch.engine", "run"),
    "executorch.begin": ("executorch.engine", "begin"),
    "executorch.turn": ("executorch.engine", "turn"),
    "executorch.end": ("executorch.engine", "end"),
}
# What crosses the pipe by name, and is raised again in the parent.
ERRORS: Mapping[str, type[StraightwayError]] = {
    error.__name__: error for error in (InvalidModel, InvalidRequest, ToolFailed)
}


# These keep a model for the next request; memory is for one engine's at a time.
_KEEPERS = (
    *("run.onnx_engine", "run.observe_engine", "run.rows_engine", "run.tflite_engine"),
    "executorch.engine",
)


def _engine(module: str, function: str) -> Any:
    for other in _KEEPERS:
        loaded = sys.modules.get(f"straightway.{other}")
        if other != module and loaded is not None:
            loaded.forget()
    return getattr(importlib.import_module(f"straightway.{module}"), function)


def _answer(header: Mapping[str, Any], arrays: Sequence[Array]) -> Answer:
    try:
        answer: Answer = _engine(*_VERBS[header["verb"]])(header["params"], arrays)
    except tuple(ERRORS.values()) as error:
        return {"error": type(error).__name__, "message": str(error)}, []
    return answer


def _own_pipes() -> tuple[int, int]:
    """Keep the two pipes for messages; whoever prints to stdout from now on prints to stderr."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return requests, answers


def main(engines: Sequence[str]) -> int:
    """Answer requests until the parent closes its end."""
    requests, answers = _own_pipes()
    for engine in engines:
        importlib.import_module(ENGINES[engine])
    while True:
        try:
            header, arrays = wire.receive(requests)
        except EOFError:
            return 0
        reply, results = _answer(header, arrays)
        wire.send(answers, reply, results)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
