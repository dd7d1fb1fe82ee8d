"""`straightway`: the entry point."""

import io
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO, cast

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
from straightway.errors import Bug, ToolFailed

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


class Output(io.FileIO):
    """A descriptor that is written to; where the reader is gone (`| head`), the command ends quietly.

    Any layer above takes an OSError for a failure of its own; nobody takes SystemExit for one. The code is
    what shells report for those whom SIGPIPE ends, or that of a device that fails (a full disk).
    """

    def write(self, data: object, /) -> int:
        """Write what the pipe takes."""
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, self.fileno())  # for what is still buffered
            os.close(nothing)
            if isinstance(error, BrokenPipeError):
                raise SystemExit(_SIGNALLED + signal.SIGPIPE) from None
            sys.stderr.write(f"error: the result can't be written: {error.strerror}\n")
            raise SystemExit(ToolFailed.exit_code) from None


def watched(stream: TextIO | None) -> TextIO:
    """The same stream: what a terminal's encoding lacks is spelled out, and its reader may go away.

    One that was closed before (`>&-`) takes everything and gives it to nobody.
    """
    if stream is None:
        return Path(os.devnull).open("w", encoding="utf-8")
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    if not isinstance(getattr(stream.buffer, "raw", stream.buffer), io.FileIO):
        stream.reconfigure(errors="backslashreplace")
        return stream
    stream.flush()
    raw = Output(stream.fileno(), "w", closefd=False)
    made = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    return cast("TextIO", made)


def main() -> None:
    """Run the command line."""
    sys.stdout, sys.stderr = watched(sys.stdout), watched(sys.stderr)
    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:  # `nohup` ignores hang-ups
            signal.signal(number, _end)
    try:
        app()
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is, it is our fault
        report_bug(error)
        sys.exit(Bug.exit_code)
    finally:
        sys.stdout.flush()


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that drafts go away and engines end; being told twice must not stop that."""
    for other in _ENDING:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(_SIGNALLED + number)


if __name__ == "__main__":
    main()
