"""`straightway`: the entry point."""

from straightway.cli import convert, deploy
from straightway.cli.app import app

COMMANDS = (convert, deploy)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
