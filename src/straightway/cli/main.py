"""`straightway`: the entry point."""

import io
import sys

from straightway.cli import convert, deploy, doctor, inspect, ops, profile, verify
from straightway.cli.app import app, report_bug
from straightway.errors import Bug

COMMANDS = (deploy, inspect, convert, verify, profile, ops, doctor)


def main() -> None:
    """Run the command line; what a terminal's encoding lacks is spelled out."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except Exception as error:  # noqa: BLE001 - the last resort: whatever it is, it is our fault
        report_bug(error)
        sys.exit(Bug.exit_code)


if __name__ == "__main__":
    main()
