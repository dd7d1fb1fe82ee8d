"""What a command costs: wall and CPU time, and the most memory it held.

    python benchmarks/costs.py RESULT.json COMMAND...

runs a command from a small process: a child counts its parent's memory at the fork as its own peak.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
    with tempfile.TemporaryDirectory(prefix="straightway-cost-") as folder:
        result = Path(folder) / "cost.json"
        subprocess.run(
            [sys.executable, "-S", "-E", __file__, result, *command],
            stdin=subprocess.DEVNULL,
            check=True,
            env={**os.environ, **(environment or {})},
        )
        return Cost(**json.loads(result.read_text()))


def run(command: Sequence[str]) -> Cost:
    """Run a command from here."""
    with tempfile.TemporaryFile("w+") as printed:
        start_s = time.perf_counter()
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
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


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(asdict(run(sys.argv[2:]))))
