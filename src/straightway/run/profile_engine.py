"""Child side: where a TFLite model's time goes, operator by operator."""

import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from straightway.run import clock
from straightway.run.capi import (
    DELEGATE_OPERATOR,
    OPERATOR,
    CompiledModel,
    RawEvent,
    Refused,
    check_events,
    litert_version,
)
from straightway.run.pieces_engine import Piece, pieces
from straightway.run.tflite_engine import (
    bodies,
    describe,
    feed,
    in_order,
    invoke,
    names_of,
    open_model,
    prepare,
)
from straightway.run.wire import Array

# Whole-model and profiled runs alternate in this many blocks, so that both see the same machine.
_BLOCKS = 5


class _Operators:
    """The profiled half of the measurement; `reason` says what is wrong with it, or why it is empty.

    The usual way compiles once. Where the outputs have dynamic shapes, a compiled model runs only
    once (its buffers can't be bound again): then each kept run is the first of a fresh one.
    """

    def __init__(self, compile_model: Callable[[], CompiledModel]) -> None:
        self.reason = ""
        self.runs: list[list[RawEvent]] = []
        self._compile = compile_model
        self._model: CompiledModel | None = None
        self._ways = [self._steady, self._fresh]

    def measure(self, count: int) -> None:
        """Add `count` runs, in the first way that works."""
        while self._ways:
            try:
                self.runs += self._ways[0](count)
            except Refused as error:
                self._ways.pop(0)
                self.runs.clear()
                self.reason = (
                    f"each profiled run is a first one: {error}" if self._ways else str(error)
                )
            else:
                return

    def _steady(self, count: int) -> list[list[RawEvent]]:
        """One run to warm the caches, then the kept ones."""
        if self._model is None:
            self._model = self._compile()
        self._model.run()
        return [_checked(self._model.profiled_run()) for _ in range(count)]

    def close(self) -> None:
        """Free what is compiled."""
        if self._model is not None:
            self._model.close()
            self._model = None

    def _fresh(self, count: int) -> list[list[RawEvent]]:
        self.close()
        runs = []
        for _ in range(count):
            model = self._compile()
            runs.append(_checked(model.profiled_run()))
            model.close()
        return runs


def _checked(events: list[RawEvent]) -> list[RawEvent]:
    check_events(events)
    return events


def _refuse() -> CompiledModel:
    raise Refused("only the whole model was asked for")


def _alike(runs: Sequence[Sequence[RawEvent]]) -> tuple[list[list[Any]], NDArray[np.int64]]:
    """The most frequent sequence of events, and the durations in the runs that have it."""
    shapes = [tuple((e.name, e.type, e.index, e.subgraph) for e in run) for run in runs]
    if not shapes:
        return [], np.empty((0, 0), np.int64)
    usual = Counter(shapes).most_common(1)[0][0]
    kept = [run for run, shape in zip(runs, shapes, strict=True) if shape == usual]
    return [list(event) for event in usual], np.array([[e.elapsed for e in run] for run in kept])


def profile(
    params: Mapping[str, Any], arrays: Sequence[Array]
) -> tuple[dict[str, Any], list[Array]]:
    """Time the whole model by the interpreter and its operators by the profiler, in turns.

    The answer: the sequence of a run's events (name, type, index, subgraph), their durations in each
    run (an array of runs × events, in the profiler's microseconds), the nanoseconds of the whole
    model in each run, and the model's ops.
    """
    path, threads, names = params["path"], params["threads"], params["inputs"]
    interpreter = open_model(path, threads=threads)
    feed(interpreter, names, arrays)
    known = names_of(interpreter, "inputs", interpreter.get_input_details())
    named = dict(zip(known, in_order(interpreter, names, arrays), strict=True))
    operators = _Operators(
        (lambda: CompiledModel(path, named, threads=threads)) if params["operators"] else _refuse
    )
    for _ in range(params["warmup"]):
        invoke(interpreter)
    total_ns: list[float] = []
    for count in _split(params["runs"]):
        total_ns += _timed(interpreter._interpreter.Invoke, count)  # noqa: SLF001 - 1 µs less
        operators.measure(count)
    operators.close()
    described = describe(interpreter, params, arrays)
    events, elapsed = _alike(operators.runs)
    reason = operators.reason
    if not events and params["operators"]:
        events, elapsed, reason = _piecewise(params, arrays, described, reason)
    return {
        "events": events,
        "total_ns": total_ns,
        "reason": reason,
        "clock": clock.active().facts(),
        "versions": {"ai-edge-litert": litert_version()},
        "bodies": bodies(interpreter, path),
        **described,
    }, [elapsed]


def _piecewise(
    params: Mapping[str, Any],
    arrays: Sequence[Array],
    described: Mapping[str, Any],
    reason: str,
) -> tuple[list[list[Any]], NDArray[np.int64], str]:
    """The events of a model that only its pieces can give, and what to say of it."""
    events: list[list[Any]] = []
    columns: list[NDArray[np.int64]] = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            for piece in pieces(params, arrays, described["placement"], Path(folder)):
                measure = _delegated if piece.delegated else _outside
                found, elapsed = measure(piece, described["ops"], params)
                events += found
                columns.append(elapsed)
    except Refused as error:
        return [], np.empty((0, 0), np.int64), f"{reason}; {error}"
    runs = min((len(one) for one in columns), default=0)
    kept = [one[:runs] for one in columns]
    return events, np.concatenate(kept, axis=1), f"timed piece by piece: {reason}"


def _delegated(
    piece: Piece, _ops: Sequence[Mapping[str, Any]], params: Mapping[str, Any]
) -> tuple[list[list[Any]], NDArray[np.int64]]:
    """The XNNPACK operators of a partition that stands alone."""
    threads = params["threads"]
    operators = _Operators(lambda: CompiledModel(str(piece.path), piece.inputs, threads=threads))
    operators.measure(params["runs"])
    operators.close()
    events, elapsed = _alike(operators.runs)
    if not events:
        raise Refused(operators.reason)
    inside = [position for position, event in enumerate(events) if event[1] == DELEGATE_OPERATOR]
    return [events[position] for position in inside], elapsed[:, inside]


def _outside(
    piece: Piece, ops: Sequence[Mapping[str, Any]], params: Mapping[str, Any]
) -> tuple[list[list[Any]], NDArray[np.int64]]:
    """One op by itself, timed as a whole model: as if the profiler had told it."""
    index = piece.ops[0]
    prepared = {"path": str(piece.path), "inputs": list(piece.inputs), "threads": params["threads"]}
    samples_ns = np.array(_timed(prepare(prepared, list(piece.inputs.values())), params["runs"]))
    active = clock.active()
    ticks = np.rint((samples_ns + active.cost_ns) / active.profiler_ns).astype(np.int64)
    return [[ops[index]["kind"], OPERATOR, index, 0]], ticks[:, np.newaxis]


def _split(runs: int) -> list[int]:
    """`runs` in up to `_BLOCKS` nearly equal parts."""
    return [len(part) for part in np.array_split(np.arange(runs), _BLOCKS) if len(part)]


def _timed(run: Callable[[], None], count: int) -> list[float]:
    """One run to warm the caches, then the nanoseconds of `count` runs."""
    active = clock.active()
    run()
    samples = []
    for _ in range(count):
        start_ns = active.now_ns()
        run()
        samples.append(max(0.0, active.now_ns() - start_ns - active.cost_ns))
    return samples
