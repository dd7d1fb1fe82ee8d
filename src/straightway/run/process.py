"""Parent side: a child process that holds the engines, asked by calls that may run meanwhile.

LiteRT and onnxruntime can abort the process they run in; here that is an exception. This module
imports neither.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, Generic, Self, TypeVar

from straightway.errors import InvalidRequest, ToolFailed
from straightway.run import clock, wire
from straightway.run.child import ERRORS
from straightway.run.race_engine import ENGINES
from straightway.run.wire import Array

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 600.0
_LAST_LINES = 8
_STDERR_TAIL_BYTES = 16_384
# LiteRT logs what it does: "INFO: [file.cc:36] ..."; only what came after a fault is of interest.
_CHATTER = ("INFO:", "WARNING:", "W0000", "I0000")
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# Where nothing is timed, what one engine frees goes back before the next one needs it (mallopt(3)).
_FREE_AT_ONCE = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**18))


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request: what to do, with which parameters and arrays, and how to read the answer."""

    verb: str
    subject: str
    params: Mapping[str, Any] = field(default_factory=dict)
    arrays: tuple[Array, ...] = ()
    decode: Callable[[dict[str, Any], list[Array]], T]


class Pending(Generic[T]):
    """An answer that is still to come; `result` waits for it."""

    def __init__(self, child: "Child", call: Call[T], deadline_s: float) -> None:
        """Belongs to a `Child`, which makes it."""
        self._child = child
        self._call = call
        self.deadline_s = deadline_s
        self._answer: Callable[[], T] | None = None

    def result(self) -> T:
        """The answer.

        Raises ToolFailed if the child died or took too long, and whatever the engine refused with.
        """
        self.collect()
        if self._answer is None:
            raise ToolFailed(
                f"{self._call.subject}: the child process was closed before it answered"
            )
        return self._answer()

    def collect(self) -> None:
        """Wait for the answer and keep it, whether good or bad."""
        if self._answer is None:
            self._answer = self._child.collect(self, self._call)


def _raising(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


class Child:
    """One child process and its engines; a context manager.

    It is started at once and again after a death. `engines` ("onnxruntime", "litert") are imported
    while the parent does something else. `measure` gives it the CPU-time clock, where that can be
    built; `clock_reason` says why not. One request runs at a time: `start` first collects the answer
    of the one before.
    """

    def __init__(
        self,
        *,
        engines: Sequence[str] = (),
        measure: bool = False,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        """Start the process. Raises InvalidRequest for an unknown engine."""
        for engine in engines:
            if engine not in ENGINES:
                raise InvalidRequest(f"engines are {', '.join(ENGINES)}; got {engine}")
        self._engines = tuple(engines)
        self._timeout_s = timeout_s
        self._measures = measure
        self._shim = clock.shim() if measure else clock.Shim(path=None)
        self._pending: Pending[Any] | None = None
        self._messages: IO[bytes] = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - closed by `close`
        # Engines that are killed leave their own drafts behind.
        self._drafts = tempfile.TemporaryDirectory(prefix="straightway-engines-")
        self._process: subprocess.Popen[bytes] | None = None
        self._spawn()

    @property
    def clock_reason(self) -> str:
        """Why there is no CPU-time clock, or ""."""
        return self._shim.reason

    @property
    def has_cpu_clock(self) -> bool:
        """Whether profilers in it count nanoseconds of thread CPU time."""
        return self._shim.path is not None

    @property
    def pid(self) -> int:
        """The process id, 0 while there is none."""
        return self._process.pid if self._process else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process at once; pending answers are lost."""
        self._end()
        self._messages.close()
        self._drafts.cleanup()

    def start(self, call: Call[T], *, timeout_s: float | None = None) -> Pending[T]:
        """Send a request and return without waiting for its answer."""
        if self._pending is not None:
            self._pending.collect()
        process = self._process or self._spawn()
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        pending = Pending(self, call, time.monotonic() + limit_s)
        self._pending = pending
        header = {"verb": call.verb, "params": call.params}
        try:
            wire.send(_pipe(process.stdin), header, call.arrays)
        except BrokenPipeError:
            pending.collect()  # the child is dead: collecting says of what
        return pending

    def call(self, call: Call[T], *, timeout_s: float | None = None) -> T:
        """Send a request and wait for its answer."""
        return self.start(call, timeout_s=timeout_s).result()

    def collect(self, pending: Pending[T], call: Call[T]) -> Callable[[], T] | None:
        """Wait for the answer to the running request; None if it does not run any more."""
        if self._pending is not pending or self._process is None:
            return None
        self._pending = None
        try:
            header, arrays = wire.receive(_pipe(self._process.stdout), pending.deadline_s)
        except TimeoutError:
            self._end()
            return _raising(ToolFailed(f"{call.subject}: no answer in time", output=self._tail()))
        except EOFError:
            return _raising(self._death(call.subject))
        if "error" in header:
            return _raising(ERRORS[header["error"]](header["message"]))
        return lambda: call.decode(header, arrays)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, **_ONE_THREAD, "TMPDIR": self._drafts.name}
        if not self._measures:
            environment |= _FREE_AT_ONCE
        if self._shim.path is not None:
            preloaded = environment.get("LD_PRELOAD")
            environment["LD_PRELOAD"] = " ".join(filter(None, [str(self._shim.path), preloaded]))
        self._messages.truncate(0)
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "straightway.run.child", *self._engines],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._messages,
            bufsize=0,
            env=environment,
        )
        return self._process

    def _end(self) -> None:
        """Kill the process, if it lives, and free its pipes."""
        process, self._process, self._pending = self._process, None, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _death(self, subject: str) -> ToolFailed:
        code = self._process.wait() if self._process else 0
        self._end()
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return ToolFailed(f"{subject}: the child process ended with {how}", output=self._tail())

    def _tail(self) -> str:
        """The last lines that the engines printed, without their chatter."""
        size = self._messages.seek(0, os.SEEK_END)
        self._messages.seek(max(0, size - _STDERR_TAIL_BYTES))
        # cut to nothing while a process still wrote, a file begins with zero bytes
        text = self._messages.read().replace(b"\0", b"")
        lines = text.decode(errors="replace").splitlines()
        told = [line for line in lines if line.strip() and not line.startswith(_CHATTER)]
        return "\n".join(told[-_LAST_LINES:])


def _pipe(stream: IO[bytes] | None) -> int:
    if stream is None:
        raise ToolFailed("the child process has no pipe")
    return stream.fileno()
