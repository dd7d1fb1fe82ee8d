"""The measuring clock: thread CPU time in nanoseconds where a C compiler is at hand, else wall time.

`clock.c` is compiled once into the user's cache and preloaded into the measuring child only.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SOURCE = Path(__file__).with_name("clock.c")
_COMPILE_TIMEOUT_S = 60
_CALIBRATIONS, _READINGS = 5, 2000


def cache_folder() -> Path:
    """Where this user's caches of straightway are kept (XDG base directories, `$XDG_CACHE_HOME`)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "straightway"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shim:
    """The compiled clock, or None and the reason why there is none."""

    path: Path | None
    reason: str = ""


def shim(cache: Path | None = None) -> Shim:
    """Find or compile the preloadable clock; `cache` defaults to the user's cache folder."""
    if not sys.platform.startswith("linux"):
        return Shim(path=None, reason=f"the CPU-time clock needs Linux; got {sys.platform}")
    folder = cache or cache_folder()
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    target = folder / f"clock-{os.uname().machine}-{digest}.so"
    if any(mark in str(target) for mark in " :"):  # LD_PRELOAD is a list that they divide
        return Shim(path=None, reason=f"the CPU-time clock can't be preloaded from {target}")
    if target.exists():
        return Shim(path=target)
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return Shim(path=None, reason="the CPU-time clock needs a C compiler; found no cc")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _compile(compiler, target)
    except (OSError, subprocess.SubprocessError) as error:
        return Shim(path=None, reason=f"the CPU-time clock could not be compiled: {error}")
    return Shim(path=target)


def _compile(compiler: str, target: Path) -> None:
    """Compile beside the target and rename, so that two processes can't see half a file."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / target.name
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(_SOURCE)]
        subprocess.run(command, check=True, capture_output=True, timeout=_COMPILE_TIMEOUT_S)
        built.replace(target)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock of this process: how to read it, and what an engine's microsecond means.

    `profiler_ns` is the length in nanoseconds of what an engine's profiler takes for 1 µs,
    `cost_ns` what it spends on each reading.
    """

    name: str
    profiler_ns: float
    cost_ns: float
    now_ns: Callable[[], int]

    def facts(self) -> dict[str, Any]:
        """What a trace says of it."""
        return {"name": self.name, "tick_ns": self.profiler_ns, "cost_ns": self.cost_ns}


@functools.cache
def active() -> Clock:
    """The clock of the process it is called in: CPU time if the shim is preloaded, else wall."""
    loaded = ctypes.CDLL(None)
    try:
        scale = loaded.straightway_clock_scale()
        read_cost = loaded.straightway_clock_cost_ns
    except AttributeError:
        return Clock(name="wall", profiler_ns=1e3, cost_ns=0.0, now_ns=time.perf_counter_ns)
    read_cost.restype = ctypes.c_double
    cost_ns = sorted(read_cost(_READINGS) for _ in range(_CALIBRATIONS))[_CALIBRATIONS // 2]
    return Clock(
        name="thread CPU", profiler_ns=1e3 / scale, cost_ns=cost_ns, now_ns=time.thread_time_ns
    )
