"""Runs many small models on the real interpreters, a few in one process: these may abort."""

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import astuple, dataclass

import numpy as np

_DELEGATE = "DELEGATE"
_ALARM_S = 20
_JOBS_A_PROCESS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A flatbuffer and what to feed it, in the order of its inputs; `micro`: by TensorFlow Lite Micro."""

    data: bytes
    feeds: tuple[np.ndarray, ...] = ()
    delegate: bool = True
    repeats: int = 1
    micro: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came out; `error` says at which step it failed, `delegated` what XNNPACK took."""

    outputs: list[np.ndarray]
    error: str = ""
    delegated: bool = False


def run_all(jobs: Sequence[Job]) -> list[Outcome]:
    """Run every job in one child process, which forks for a few, and again where one aborts."""
    found = subprocess.run(
        [sys.executable, __file__],
        input=pickle.dumps([astuple(job) for job in jobs]),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    answers = pickle.loads(found.stdout)  # noqa: S301 - our own child's answer
    return [Outcome(outputs=o, error=e, delegated=d) for o, e, d in answers]


def _run_micro(data, feeds):
    from tflite_micro import runtime

    outputs = []
    try:
        interpreter = runtime.Interpreter.from_bytes(data, arena_size=4 * 2**20)
        for index, array in enumerate(feeds):
            interpreter.set_input(np.asarray(array, order="C"), index)
        interpreter.invoke()
        while True:
            outputs.append(np.array(interpreter.get_output(len(outputs))))
    except IndexError:
        return outputs, "", False
    except (RuntimeError, ValueError) as error:
        return [], f"micro: {error}", False


def _run(data, feeds, delegate, repeats, micro):
    if micro:
        return _run_micro(data, feeds)
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    without = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    kind = OpResolverType.AUTO if delegate else without
    step, delegated = "load", False
    try:
        interpreter = Interpreter(
            model_content=data, num_threads=1, experimental_op_resolver_type=kind
        )
        step = "allocate"
        interpreter.allocate_tensors()
        delegated = any(o["op_name"] == _DELEGATE for o in interpreter._get_ops_details())
        for details, array in zip(interpreter.get_input_details(), feeds, strict=True):
            interpreter.set_tensor(details["index"], array)
        step = "invoke"
        for _ in range(repeats):
            interpreter.invoke()
        outputs = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
    except (RuntimeError, ValueError) as error:
        return [], f"{step}: {error}", delegated
    return outputs, "", delegated


def _forked(jobs):
    """Run jobs in a process of their own until it dies; return the answers that it gave."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            for asked in jobs:
                signal.alarm(_ALARM_S)
                pickle.dump(_run(*asked), pipe)
                pipe.flush()
        os._exit(0)
    os.close(writer)
    answers = []
    with os.fdopen(reader, "rb") as pipe:
        for _ in jobs:
            try:
                answers.append(pickle.load(pipe))  # noqa: S301 - our own child's answer
            except (EOFError, pickle.UnpicklingError):
                break
    _, status = os.waitpid(pid, 0)
    return answers, status


def _serve(jobs):
    answers = []
    while len(answers) < len(jobs):
        start = len(answers)
        found, status = _forked(jobs[start : start + _JOBS_A_PROCESS])
        answers += found
        if status:
            answers.append(([], f"abort: status {status}", False))
    return answers


if __name__ == "__main__":
    import ai_edge_litert.interpreter  # noqa: F401 - loaded once, before the forks

    asked = pickle.load(sys.stdin.buffer)  # noqa: S301 - our own parent's request
    sys.stdout.buffer.write(pickle.dumps(_serve(asked)))
