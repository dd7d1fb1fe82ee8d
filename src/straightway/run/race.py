"""Requests that compare: several models timed in turns in one process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from straightway.errors import InvalidRequest
from straightway.run.process import Call
from straightway.run.wire import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One model in a race: its engine, its file, its inputs by name.

    Engines are "onnxruntime", "litert" and "executorch". `options` are for the engine: an ExecuTorch
    program's settings.
    """

    engine: str
    path: Path | str
    inputs: Mapping[str, Array]
    options: Mapping[str, Any] = field(default_factory=dict)


def race(entrants: Sequence[Entrant], *, rounds: int = 30) -> Call[tuple[tuple[int, ...], ...]]:
    """CPU nanoseconds of each entrant in each round, single-threaded.

    In each round each entrant runs twice, and the second run counts.
    """
    if rounds < 1 or not entrants:
        raise InvalidRequest(f"a race needs entrants and rounds; got {len(entrants)}, {rounds}")
    arrays = tuple(np.asarray(array) for one in entrants for array in one.inputs.values())
    return Call(
        verb="race",
        subject="a race of " + ", ".join(Path(one.path).name for one in entrants),
        params={
            "rounds": rounds,
            "entrants": [
                {
                    **one.options,
                    "engine": one.engine,
                    "path": str(one.path),
                    "inputs": list(one.inputs),
                    "arrays": len(one.inputs),
                }
                for one in entrants
            ],
        },
        arrays=arrays,
        decode=lambda answer, _: tuple(tuple(samples) for samples in answer["samples_ns"]),
    )
