"""Converts ONNX's backend tests: each passes or is listed as refused, none is wrong or crashes.

    python tests/conformance/run.py [--filter REGEX] [--verify off|on|both] [--update]

Each case runs frozen (what exporters write as constants is constant) and as it is (every operand
comes at run time). Ends with 1 where a case is wrong, crashes, or is not refused as listed; what only
verification stops is wrong. `--update` writes the lists of a whole run instead of comparing.
"""

import argparse
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance import lists
from conformance.attempt import Outcome
from conformance.suite import cases, frozen
from conformance.workers import Job, attempt_all

VERIFY = {"off": (False,), "on": (True,), "both": (False, True)}


def jobs(pattern: str, verify: tuple[bool, ...]) -> Iterator[Job]:
    """Each case in each mode, once where they are the same."""
    for case in cases():
        if not re.search(pattern, case.name):
            continue
        constant = frozen(case)
        for verified in verify:
            if constant is case:
                yield Job(modes=("frozen", "as-is"), case=case, verify=verified)
            else:
                yield Job(modes=("frozen",), case=constant, verify=verified)
                yield Job(modes=("as-is",), case=case, verify=verified)


def main() -> int:
    """Run the suite and compare it with the lists."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="a regular expression found in names of cases")
    parser.add_argument("--verify", choices=VERIFY, default="both")
    parser.add_argument("--update", action="store_true", help="write the lists")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=240.0, help="seconds for each case")
    asked = parser.parse_args()
    todo = list(jobs(asked.filter, VERIFY[asked.verify]))
    started = time.monotonic()
    done = []
    for number, one in enumerate(attempt_all(todo, asked.workers, asked.timeout), 1):
        done.append(one)
        if number % 100 == 0:
            sys.stderr.write(f"\r{number} of {len(todo)}")
            sys.stderr.flush()
    sys.stderr.write(f"\r{len(done)} attempts, {time.monotonic() - started:.0f} s\n")
    sys.stdout.write(table(done) + "\n")
    refused = {key: end.reason for job, end in done for key in keys(job) if end.status == "refused"}
    if asked.update and not asked.filter:
        for name in lists.HEADER:
            impossible = name == "impossible"
            lists.write(
                name, {k: r for k, r in refused.items() if lists.is_impossible(r) == impossible}
            )
    problems = [describe(job, end) for job, end in done if end.status in ("wrong", "crash")]
    if onnx.__version__.startswith(lists.ONNX_VERSION):
        ran = dict.fromkeys(key for job, _ in done for key in keys(job))
        problems += lists.complaints(refused, ran)
    else:
        sys.stderr.write(f"the lists are of onnx {lists.ONNX_VERSION}: not compared\n")
    sys.stdout.writelines(f"{line}\n" for line in problems)
    return 1 if problems else 0


def keys(job: Job) -> list[lists.Key]:
    """The case in each of its modes, as the lists name them."""
    return [(job.case.name, mode) for mode in job.modes]


def describe(job: Job, end: Outcome) -> str:
    """One line on what went wrong."""
    verified = ", verified" if job.verify else ""
    return f"{job.case.name}, {' and '.join(job.modes)}{verified}: {end.status}: {end.reason}"


def table(done: list[tuple[Job, Outcome]]) -> str:
    """How many cases ended how, by mode."""
    counts: dict[str, Counter[str]] = {}
    for job, end in done:
        verified = "verified" if job.verify else "not verified"
        for mode in job.modes:
            counts.setdefault(f"{mode}, {verified}", Counter())[end.status] += 1
    return "\n".join(
        f"{mode}: {c['pass']} of {c.total()} pass ({c['pass'] / c.total():.1%}), "
        f"{c['refused']} refused, {c['wrong']} wrong, {c['crash']} crash"
        for mode, c in sorted(counts.items())
    )


if __name__ == "__main__":
    sys.exit(main())
