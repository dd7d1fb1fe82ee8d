"""Requests for ExecuTorch programs: run; and trace, run by run, so that programs can take turns.

with Child(measure=True) as child:
    (y,) = child.call(runner.run("m.pte", [x]))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from straightway.run.process import Call
from straightway.run.wire import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a program is run. `cap` hides features of the processor from XNNPACK ("avx512vnni").

    `channels_last` are the places of inputs that the program wants stored so; `kernels` the names of
    what it calls outside of delegates, so that one that is not there is told before it is loaded.
    """

    threads: int = 1
    cap: tuple[str, ...] = ()
    channels_last: tuple[int, ...] = ()
    kernels: tuple[str, ...] = ()

    def params(self, path: Path | str) -> dict[str, Any]:
        """As a request."""
        return {
            "path": str(path),
            "threads": self.threads,
            "cap": list(self.cap),
            "channels_last": list(self.channels_last),
            "kernels": list(self.kernels),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """CPU time of a run, with the tracer and without it."""

    traced_ns: int
    plain_ns: int


def run(
    path: Path | str, inputs: Sequence[Array], settings: Settings = Settings()
) -> Call[tuple[Array, ...]]:
    """Run a program once; the answer holds its outputs that are tensors, in order."""
    return Call(
        verb="executorch.run",
        subject=f"ExecuTorch on {Path(path).name}",
        params=settings.params(path),
        arrays=tuple(inputs),
        decode=lambda _, arrays: tuple(arrays),
    )


def begin(
    path: Path | str, inputs: Sequence[Array], settings: Settings = Settings()
) -> Call[Mapping[str, float | str]]:
    """Open a program to be traced; the answer tells the clock."""
    return Call(
        verb="executorch.begin",
        subject=_tracer(path),
        params=settings.params(path),
        arrays=tuple(inputs),
        decode=lambda answer, _: answer["clock"],
    )


def turn(path: Path | str) -> Call[Turn]:
    """Trace one run of what was opened last, beside one that is not traced."""
    return Call(
        verb="executorch.turn",
        subject=_tracer(path),
        decode=lambda answer, _: Turn(traced_ns=answer["traced_ns"], plain_ns=answer["plain_ns"]),
    )


def end(path: Path | str, dump: Path) -> Call[Mapping[str, str]]:
    """Write what was traced to the file `dump`; the answer tells the versions."""
    return Call(
        verb="executorch.end",
        subject=_tracer(path),
        params={"etdump": str(dump)},
        decode=lambda answer, _: answer["versions"],
    )


def _tracer(path: Path | str) -> str:
    return f"ExecuTorch's tracer on {Path(path).name}"
