"""What a trace says about this machine."""

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from straightway.trace.schema import Run


def cpu_model() -> str:
    """The processor's name as the system tells it, "" if it does not."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith(("model name", "Hardware")):
                return line.partition(":")[2].strip()
    return platform.processor()


def local_run(
    *,
    runtime: str,
    clock: Mapping[str, float | str],
    versions: Mapping[str, str],
    counts: Mapping[str, int],
    model: str,
    reason: str = "",
) -> Run:
    """A measurement on this machine; `counts` holds warmup, runs and threads."""
    return Run(
        device=f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        cpu=cpu_model(),
        runtime=runtime,
        versions=versions,
        clock=str(clock["name"]),
        tick_ns=float(clock["tick_ns"]),
        clock_cost_ns=float(clock["cost_ns"]),
        model=model,
        reason=reason,
        warmup=counts["warmup"],
        runs=counts["runs"],
        threads=counts["threads"],
    )
