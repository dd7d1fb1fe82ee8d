"""Requests for ExecuTorch programs: run, and trace.

with Child(measure=True) as child:
    (y,) = child.call(runner.run("m.pte", [x]))
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
class Traced:
    """What a traced measurement says beside its dump: times of whole runs, with and without."""

    clock: Mapping[str, float | str]
    versions: Mapping[str, str] = field(default_factory=dict)
    traced_ns: tuple[int, ...] = ()
    plain_ns: tuple[int, ...] = ()


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


def profile(
    path: Path | str,
    inputs: Sequence[Array],
    dump: Path,
    *,
    runs: int,
    warmup: int = 2,
    settings: Settings = Settings(),
) -> Call[Traced]:
    """Trace runs into the file `dump`, with untraced runs in between."""
    return Call(
        verb="executorch.profile",
        subject=f"ExecuTorch's tracer on {Path(path).name}",
        params={**settings.params(path), "runs": runs, "warmup": warmup, "etdump": str(dump)},
        arrays=tuple(inputs),
        decode=lambda answer, _: Traced(
            clock=answer["clock"],
            versions=answer["versions"],
            traced_ns=tuple(answer["traced_ns"]),
            plain_ns=tuple(answer["plain_ns"]),
        ),
    )
