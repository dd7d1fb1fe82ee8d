"""Child side: where a TFLite model's time goes, operator by operator."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from straightway.run import clock
from straightway.run.capi import CompiledModel, RawEvent, Refused, check_events, litert_version
from straightway.run.tflite_engine import describe, feed, in_order, invoke, names_of, open_model
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

    def _fresh(self, count: int) -> list[list[RawEvent]]:
        self._model = None
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
    events, elapsed = _alike(operators.runs)
    return {
        "events": events,
        "total_ns": total_ns,
        "reason": operators.reason,
        "clock": clock.active().facts(),
        "versions": {"ai-edge-litert": litert_version()},
        **describe(interpreter, params, arrays),
    }, [elapsed]


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
