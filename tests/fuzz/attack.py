"""Converts damaged models: each must become a file that computes the same, or be refused cleanly.

    python tests/fuzz/attack.py --from 0 --count 3000 --verify-every 20

Prints one line for each kind of finding: what was raised, where, and the numbers of attempts that
show it. `--keep FOLDER` keeps their models: which one a number means changes with the declarations.
"""

import argparse
import json
import math
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator
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
from straightway.run.process import Child

ENGINES = ("litert", "onnxruntime")
CLEAN = (Unsupported, InvalidModel, InvalidRequest)
SLOWEST_S = 10
# what has larger inputs is converted, and not compared
MOST_ELEMENTS = 2**20


class TooSlow(BaseException):
    """An attempt took longer than any small model may; nothing may catch it."""


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
    sizes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in inputs]
    return any(math.prod(dims) > MOST_ELEMENTS for dims in sizes)


def attempt(path: Path, child: Child | None) -> str:
    """Convert one file; the empty text or what went wrong, and where."""
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(SLOWEST_S)
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
    finally:
        signal.alarm(0)
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


def attack(numbers: range, *, verify_every: int = 0) -> Outcome:
    """Attempt one damaged model for each number, in this process."""
    outcome = Outcome()
    for number, end in _ends(numbers, verify_every, None):
        outcome.note(number, end)
    return outcome


def _ends(numbers: range, verify_every: int, keep: Path | None) -> Iterator[tuple[int, str]]:
    models = seeds()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "m.onnx"
        child = stack.enter_context(Child(engines=ENGINES))
        for number in numbers:
            rng = random.Random(number)
            path.write_bytes(mutated(rng.choice(models), rng))
            verified = verify_every and number % verify_every == 0
            checked = child if verified and not is_large(path.read_bytes()) else None
            if keep is not None:
                shutil.copy(path, keep / f"{number}.onnx")
            end = attempt(path, checked)
            if keep is not None and end.startswith("="):
                (keep / f"{number}.onnx").unlink()
            yield number, end
            if end.startswith("TooSlow"):  # the engine may still be at it
                child.close()
                child = stack.enter_context(Child(engines=ENGINES))


def attack_apart(numbers: range, verify_every: int, keep: Path | None) -> Outcome:
    """Attempt them in a process of their own: some libraries end the one that they run in."""
    outcome, at = Outcome(), numbers.start
    while at < numbers.stop:
        command = [sys.executable, __file__, "--worker", f"--from={at}"]
        command += [f"--count={numbers.stop - at}", f"--verify-every={verify_every}"]
        command += [f"--keep={keep}"] if keep is not None else []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            for line in worker.stdout or ():
                number, end = json.loads(line)
                outcome.note(number, end)
                at = number + 1
        if worker.returncode:
            outcome.note(at, f"the process ended with {worker.returncode}")
            at += 1
    return outcome


def main() -> int:
    """Attack, and say what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--verify-every", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="where models of findings go")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    numbers = range(given.first, given.first + given.count)
    if given.worker:
        for found in _ends(numbers, given.verify_every, given.keep):
            sys.stdout.write(json.dumps(found) + "\n")
            sys.stdout.flush()
        return 0
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    outcome = attack_apart(numbers, given.verify_every, given.keep)
    for what, places in sorted(outcome.findings.items(), key=lambda item: -len(item[1])):
        sys.stdout.write(f"{len(places):5} × {what}   e.g. {places[:3]}\n")
    sys.stdout.write(f"{dict(outcome.ends)}; {sum(map(len, outcome.findings.values()))} findings\n")
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
