"""Attempts cases in processes of their own: a hang or an abort loses that case only."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from conformance.attempt import ENGINES, Outcome, attempt
from conformance.suite import SuiteCase
from straightway.run.process import Child

# The cases are made once; a forked process has them, too.
FORK = get_context("fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A case, the modes that it stands for, and whether straightway verifies it."""

    modes: tuple[str, ...]
    case: SuiteCase
    verify: bool


@dataclass(slots=True)
class _Worker:
    """A process, our end of its pipe, and what it works on since when."""

    process: BaseProcess
    pipe: Connection
    job: int = -1
    deadline_s: float = 0.0


def attempt_all(jobs: Sequence[Job], count: int, timeout_s: float) -> Iterator[tuple[Job, Outcome]]:
    """Attempt each job; yields as they end."""
    waiting = list(reversed(range(len(jobs))))
    workers = [_started(jobs) for _ in range(min(count, len(jobs)))]
    for worker in workers:
        _give(worker, waiting, timeout_s)
    while any(worker.job >= 0 for worker in workers):
        busy = [worker for worker in workers if worker.job >= 0]
        ready = wait([worker.pipe for worker in busy], timeout=1.0)
        for place, worker in enumerate(workers):
            outcome = _outcome(worker, ready)
            if outcome is None:
                continue
            yield jobs[worker.job], outcome
            if outcome.status == "crash":
                _end(worker)
                workers[place] = _started(jobs)
            _give(workers[place], waiting, timeout_s)
    for worker in workers:
        _end(worker)


def _outcome(worker: _Worker, ready: Sequence[object]) -> Outcome | None:
    if worker.job < 0:
        return None
    if time.monotonic() > worker.deadline_s:
        return Outcome(status="crash", reason="took too long")
    if worker.pipe not in ready:
        return None
    try:
        return worker.pipe.recv()
    except EOFError:
        worker.process.join()
        return Outcome(status="crash", reason=f"exit code {worker.process.exitcode}")


def _started(jobs: Sequence[Job]) -> _Worker:
    ours, theirs = FORK.Pipe()
    process = FORK.Process(target=_work, args=(jobs, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process=process, pipe=ours)


def _give(worker: _Worker, waiting: list[int], timeout_s: float) -> None:
    worker.job = waiting.pop() if waiting else -1
    worker.deadline_s = time.monotonic() + timeout_s
    if worker.job >= 0:
        worker.pipe.send(worker.job)


def _end(worker: _Worker) -> None:
    """End a worker and the engines that it started."""
    with suppress(ProcessLookupError):  # it may have ended, or not have got so far
        os.killpg(worker.process.pid or 0, signal.SIGKILL)
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


def _work(jobs: Sequence[Job], pipe: Connection) -> None:
    os.setsid()
    with tempfile.TemporaryDirectory() as folder, Child(engines=ENGINES) as child:
        while True:
            job = jobs[pipe.recv()]
            pipe.send(attempt(job.case, child, Path(folder), verify=job.verify))
