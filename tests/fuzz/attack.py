"""Converts damaged models: each must become a file that computes the same, or be refused cleanly.

    python tests/fuzz/attack.py --start 0 --models 3000

Without `--models` it takes three minutes. Most damage makes no model; with `--valid` most does. Prints one line for each kind of finding: what was raised,
where, and the numbers of attempts that show it; then which numbers there was time for. A number is one
model as long as the declarations are the same, so `--keep FOLDER` keeps the models of findings.
"""

import argparse
import faulthandler
import json
import math
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.mutate import mutated
from fuzz.seeds import seeds
from straightway.errors import InvalidModel, InvalidRequest, Mismatch, ToolFailed, Unsupported
from straightway.flow.convert import convert
from straightway.flow.reference import NO_KERNEL
from straightway.flow.translate import prepare, read
from straightway.ingest.shapes import ShapeRequest
from straightway.run.process import Child

ENGINES = ("litert", "onnxruntime")
CLEAN = (Unsupported, InvalidModel, InvalidRequest)
SLOWEST_S = 10
HUNG_S = 120
SLICE_S = 180
# what has larger inputs is converted, and not compared
MOST_ELEMENTS = 2**20
OPEN_SIZE = 16
MOST_DRAWN = 20


class TooSlow(BaseException):
    """An attempt took longer than any small model may; nothing may catch it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Until when, on the monotonic clock; whether to compare; where models of findings go.

    `valid`: damage is drawn anew while it makes no model.
    """

    until_s: float = math.inf
    verify: bool = False
    valid: bool = False
    keep: Path | None = None


@dataclass(slots=True)
class Outcome:
    """How attempts ended, and the attempts that show each finding."""

    ends: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[int]] = field(default_factory=dict)

    def note(self, number: int, end: str) -> None:
        """Count a clean end, which begins with "=", or keep a finding."""
        if end.startswith("="):
            self.ends[end[1:]] += 1
        else:
            self.findings.setdefault(end, []).append(number)


def is_large(model: bytes) -> bool:
    """Whether its inputs have more elements than engines compute with in seconds."""
    try:
        inputs = onnx.load_from_string(model).graph.input
    except DecodeError:
        return False
    sizes = [
        [
            d.dim_value if d.HasField("dim_value") else OPEN_SIZE
            for d in v.type.tensor_type.shape.dim
        ]
        for v in inputs
    ]
    return any(math.prod(dims) > MOST_ELEMENTS for dims in sizes)


def attempt(path: Path, child: Child | None, *, limit_s: int = SLOWEST_S) -> str:
    """Convert one file; the empty text or what went wrong, and where."""
    try:
        try:
            return _attempt(path, child, limit_s)
        finally:
            signal.alarm(0)
    except TooSlow as error:  # it came when all was done but to turn the alarm off
        return _place(error)


def _attempt(path: Path, child: Child | None, limit_s: int) -> str:
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(limit_s)
    try:
        convert(path, verify=child is not None, child=child, seeds=[0])
    except CLEAN as error:
        return f"={type(error).__name__}"
    except ToolFailed as error:
        if any(limit in str(error) for limit in NO_KERNEL):
            return "=unknown to onnxruntime"
        if str(error).startswith("onnxruntime on") and "ended with signal" in str(error):
            return "=the end of onnxruntime"
        return f"ToolFailed: {_first(error)}"
    except Mismatch as error:
        return f"Mismatch: {_first(error)}"
    except (TooSlow, Exception) as error:  # noqa: BLE001 - every kind is a finding
        return _place(error)
    return "=converted" if child is None else "=equal"


def _place(error: BaseException) -> str:
    """What was raised first, and the last line of ours that it passed."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    ours = next((f for f in reversed(frames) if "straightway" in f.filename), frames[-1])
    place = ours.filename.rpartition("straightway/")[2]
    return f"{type(error).__name__} in {place}:{ours.lineno}: {_first(error)}"


def _too_slow(*_: object) -> None:
    raise TooSlow


def _first(error: BaseException) -> str:
    lines = str(error).splitlines()
    return (lines[1] if len(lines) > 1 and isinstance(error, Mismatch) else (lines or [""])[0])[
        :150
    ]


def attack(numbers: range, *, verify: bool = False) -> Outcome:
    """Attempt one damaged model for each number, in this process."""
    outcome = Outcome()
    for number, end in _ends(numbers, Plan(verify=verify)):
        outcome.note(number, end)
    return outcome


def draw(models: Sequence[onnx.ModelProto], number: int, path: Path, *, valid: bool) -> None:
    """Write the damaged model of a number; if it shall be valid, the first of some that is a model."""
    rng = random.Random(number)
    for _ in range(MOST_DRAWN if valid else 1):
        path.write_bytes(mutated(rng.choice(models), rng))
        try:
            if valid:
                prepare(read(path, ShapeRequest()))
        except InvalidModel:
            continue
        except Exception:  # noqa: BLE001, S110 - the attempt shows it
            pass
        return


def _ends(numbers: range, plan: Plan) -> Iterator[tuple[int, str]]:
    models = seeds()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "m.onnx"
        child = stack.enter_context(Child(engines=ENGINES))
        for number in numbers:
            if time.monotonic() > plan.until_s:
                return
            faulthandler.dump_traceback_later(HUNG_S, exit=True)  # where no signal gets through
            draw(models, number, path, valid=plan.valid)
            checked = plan.verify and not is_large(path.read_bytes())
            if plan.keep is not None:
                shutil.copy(path, plan.keep / f"{number}.onnx")
            end = attempt(path, child if checked else None)
            if end.startswith("TooSlow"):  # others may have been at work
                child = _renewed(child, stack)  # and the engine may still be
                end = attempt(path, child if checked else None, limit_s=HUNG_S // 2)
                child = _renewed(child, stack) if end.startswith("TooSlow") else child
            if plan.keep is not None and end.startswith("="):
                (plan.keep / f"{number}.onnx").unlink()
            yield number, end
    faulthandler.cancel_dump_traceback_later()


def _renewed(child: Child, stack: ExitStack) -> Child:
    child.close()
    return stack.enter_context(Child(engines=ENGINES))


def attack_apart(numbers: range, plan: Plan) -> tuple[range, Outcome]:
    """Attempt them in a process of their own, as some libraries end the one that they run in.

    The numbers that there was time for, and how they ended.
    """
    outcome, at = Outcome(), numbers.start
    while at < numbers.stop and (left_s := plan.until_s - time.monotonic()) > 0:
        command = [sys.executable, __file__, "--worker", f"--start={at}", f"--seconds={left_s}"]
        command += [f"--models={numbers.stop - at}"]
        command += [] if plan.verify else ["--no-verify"]
        command += ["--valid"] if plan.valid else []
        command += [f"--keep={plan.keep}"] if plan.keep is not None else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            for line in worker.stdout or ():
                number, end = json.loads(line)
                outcome.note(number, end)
                at = number + 1
        if not worker.returncode:
            break
        outcome.note(at, f"the process ended with {worker.returncode}")
        at += 1
    return range(numbers.start, at), outcome


def main() -> int:
    """Attack, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0, help="number of the first model")
    parser.add_argument("--models", type=int, help="how many, however long that takes")
    parser.add_argument("--seconds", type=float, help=f"{SLICE_S} without --models")
    parser.add_argument("--no-verify", action="store_true", help="convert only")
    parser.add_argument("--valid", action="store_true", help="mostly what is a model")
    parser.add_argument("--keep", type=Path, help="where models of findings go")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    numbers = range(given.start, given.start + (given.models or sys.maxsize))
    seconds = given.seconds or (math.inf if given.models else SLICE_S)
    plan = Plan(
        until_s=time.monotonic() + seconds,
        verify=not given.no_verify,
        valid=given.valid,
        keep=given.keep,
    )
    if given.worker:
        for found in _ends(numbers, plan):
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
        return 0
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    done, outcome = attack_apart(numbers, plan)
    for what, places in sorted(outcome.findings.items(), key=lambda item: -len(item[1])):
        sys.stdout.write(f"{len(places):5} × {what}   e.g. {places[:3]}\n")
    ends = ", ".join(f"{count} {end}" for end, count in outcome.ends.most_common())
    sys.stdout.write(
        f"models {done.start} to {done.stop - 1}: {ends}; "
        f"{sum(map(len, outcome.findings.values()))} findings\n"
    )
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
