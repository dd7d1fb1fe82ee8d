"""Requests for ExecuTorch programs: run; and trace, run by run, so that programs can take turns.

with Child(measure=True) as child:
    (y,) = child.call(runner.run("m.pte", [x]))
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from straightway.errors import KernelFailed
from straightway.run.process import Call
from straightway.run.wire import Array

# What ExecuTorch prints of a kernel that fails (runtime/executor/method.cpp, v1.5.1).
_FAILED = re.compile(
    r"KernelCall failed at instruction \d+:(?P<step>\d+) in operator (?P<kernel>\S+?):? "
)
_SAID = re.compile(r"^\[\w+\.(?:cpp|h):\d+\] (?P<said>.+)$", re.MULTILINE)


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
        decode=_outputs,
    )


def _outputs(answer: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Raises KernelFailed where the program could not be run to its end."""
    if "failed" not in answer:
        return tuple(arrays)
    messages = answer["messages"]
    failed = _FAILED.search(messages)
    message = f"ExecuTorch can't run the program: {answer['failed']}"
    if failed is None:
        raise KernelFailed(message)
    said = [one["said"] for one in _SAID.finditer(messages[: failed.start()])]
    why = re.sub(r"^Check failed \(.*?\): ", "", said[-1].strip()) if said else answer["failed"]
    kernel = failed["kernel"].replace("::", ".")
    raise KernelFailed(
        f"{message} in {kernel}: {why}", step=int(failed["step"]), kernel=kernel, why=why
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
