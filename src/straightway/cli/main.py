"""`straightway`: the entry point."""

from straightway.cli import convert, deploy, doctor, ops, profile, verify
from straightway.cli.app import app

COMMANDS = (deploy, convert, verify, profile, ops, doctor)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
