"""Child side: what this machine can do at most in one thread, measured through XNNPACK itself."""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from straightway.run import peak_models, tflite_engine
from straightway.run.wire import Array
from straightway.trace.statistics import median

# Large enough to reach the kernels' full rate, small enough for weights to stay in a 1 MiB cache.
_ROWS, _DEPTH, _COLUMNS = 512, 512, 512
_REPEATS = 5
# Bytes that one operator moves: from within a first-level cache to beyond most last-level ones, in
# steps of √2, of 2 where a step takes long.
_SIZES_BYTES = tuple(int(2 ** (step / 2)) for step in (*range(28, 46), *range(46, 53, 2)))
# How many more operators the longer of two chains has: so many as move this much, within limits.
_FURTHER_BYTES, _FEWEST, _MOST = 16 << 20, 4, 128
_FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators in a row: the model of so many of such a length, and how many operands they read."""

    model: Callable[[int, int], bytes]
    operands: int


def measure(
    _params: Mapping[str, Any], _arrays: Sequence[Array]
) -> tuple[dict[str, Any], list[Array]]:
    """10⁹ multiply-accumulates a second for float32 and int8, and 10⁹ bytes a second by size."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peak.tflite"
        gmacs = {dtype: _product_gmacs(path, dtype) for dtype in ("float32", "int8")}
        rates = [_stream_gbs(path, size) for size in _SIZES_BYTES]
    return {
        "gmacs": gmacs,
        "bandwidths": list(zip(_SIZES_BYTES, _falling(rates), strict=True)),
        "method": f"XNNPACK's FULLY_CONNECTED {_ROWS}×{_DEPTH}×{_COLUMNS}, and the faster of its "
        f"NEG and ADD for each number of bytes moved; fastest of {_REPEATS}, thread CPU time",
    }, []


def _falling(rates: Sequence[float]) -> list[float]:
    """What a larger working set reaches, a smaller one can, too: it only pays more for each call.

    A rate that neither neighbour reaches is a disturbance, and does not count.
    """
    inner = [median(rates[place - 1 : place + 2]) for place in range(1, len(rates) - 1)]
    calm = [rates[0], *inner, rates[-1]]
    return [max(calm[place:]) for place in range(len(calm))]


def _product_gmacs(path: Path, dtype: str) -> float:
    path.write_bytes(peak_models.product(_ROWS, _DEPTH, _COLUMNS, dtype))
    run = _prepared(path, [np.ones((_ROWS, _DEPTH), dtype)])
    return _ROWS * _DEPTH * _COLUMNS / min(_fastest_ns([run] * 3))


def _stream_gbs(path: Path, moved_bytes: int) -> float:
    """The faster of NEG (one read, one write) and ADD (two reads, one write) that move so much."""
    return max(
        _chain_gbs(path, chain, moved_bytes)
        for chain in (Chain(peak_models.negations, 1), Chain(peak_models.additions, 2))
    )


def _chain_gbs(path: Path, chain: Chain, moved_bytes: int) -> float:
    """The rate of the operators by which one chain is longer than another, timed in turns.

    So what the call and the model's own buffers cost is left out, and each operator finds its
    operand where the one before has left it: XNNPACK overwrites one that nobody else needs.
    """
    further = min(_MOST, max(_FEWEST, _FURTHER_BYTES // moved_bytes))
    length = moved_bytes // _FLOAT_BYTES // (chain.operands + 1)
    arrays = [np.ones(length, np.float32)] * chain.operands
    runs = []
    for count in (further, 2 * further):
        path.write_bytes(chain.model(count, length))
        runs.append(_prepared(path, arrays))
    short_ns, long_ns = _fastest_ns(runs)
    return further * (chain.operands + 1) * length * _FLOAT_BYTES / max(1, long_ns - short_ns)


def _prepared(path: Path, arrays: Sequence[Array]) -> Callable[[], Any]:
    return tflite_engine.prepare({"path": str(path), "inputs": None}, arrays)


def _fastest_ns(runs: Sequence[Callable[[], Any]]) -> list[int]:
    samples: list[list[int]] = [[] for _ in runs]
    for _ in range(_REPEATS):
        for run, kept in zip(runs, samples, strict=True):
            start_ns = time.thread_time_ns()
            run()
            kept.append(time.thread_time_ns() - start_ns)
    return [max(1, min(kept)) for kept in samples]
