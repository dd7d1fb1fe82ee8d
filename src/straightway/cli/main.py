"""`straightway`: the entry point."""

import io
import signal
import sys
from types import FrameType
from typing import NoReturn

from straightway.cli import (
    compare,
    convert,
    deploy,
    diagnose,
    doctor,
    export,
    fix,
    inspect,
    ops,
    profile,
    quantize,
    rules,
    targets,
    verify,
)
from straightway.cli.app import app, report_bug
from straightway.errors import Bug

COMMANDS = (
    deploy,
    inspect,
    convert,
    quantize,
    compare,
    export,
    diagnose,
    fix,
    verify,
    profile,
    ops,
    rules,
    targets,
    doctor,
)
_ENDING = (signal.SIGTERM, signal.SIGHUP)
# What shells report for a process that a signal ended, added to the signal's number.
_SIGNALLED = 128


def main() -> None:
    """Run the command line; what a terminal's encoding lacks is spelled out."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` ignores hang-ups
            signal.signal(number, _end)
    try:
        app()
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is, it is our fault
        report_bug(error)
        sys.exit(Bug.exit_code)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that drafts go away and engines end; being told twice must not stop that."""
    for other in _ENDING:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(_SIGNALLED + number)


if __name__ == "__main__":
    main()
