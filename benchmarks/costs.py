"""What a command costs: wall and CPU time, and the most memory it held."""

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LAST_LINES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds of wall and CPU time of a process and its children, the peak of the largest of them.

    `returncode` is its exit code, `tail` the last lines that it printed.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    returncode: int
    tail: str


def cost(command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end and say what it took."""
    with tempfile.TemporaryFile("w+") as printed:
        start_s = time.perf_counter()
        process = subprocess.Popen(
            [str(one) for one in command],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start_s
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        lines = printed.read().splitlines()
    return Cost(
        wall_s=wall_s,
        cpu_s=used.ru_utime + used.ru_stime,
        peak_bytes=used.ru_maxrss * 1024,
        returncode=process.returncode,
        tail="\n".join(lines[-LAST_LINES:]),
    )
