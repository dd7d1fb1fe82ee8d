"""Running the command line in this process, and looking at what it leaves behind."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from straightway.cli.main import app

Run = Callable[..., Result]


@pytest.fixture
def run():
    """Run a command line; what is given is turned into text."""
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def snapshot():
    """All that lies under a folder: kinds, links, and digests of the files."""
    return tree


def tree(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            text = f"link to {path.readlink()}"
        elif path.is_dir():
            text = "folder"
        else:
            text = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = text
    return found
