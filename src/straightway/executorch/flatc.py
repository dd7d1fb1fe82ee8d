"""Flatbuffers as JSON, by the flatc that comes with the executorch package."""

import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import executorch.exir

from straightway.errors import InvalidModel, ToolFailed

# `executorch` itself is a namespace, to which a folder of that name on the path belongs, too.
PACKAGE = Path(executorch.exir.__file__).parent.parent
_FLATC = PACKAGE / "data" / "bin" / "flatc"
_TIMEOUT_S = 300
# flatc prints infinite numbers bare, which JSON has no word for.
_BARE = re.compile(r"(?<=[:,\[ ])(-?)(inf|nan)\b")


def decode(data: bytes, schema: Path, subject: str, *options: str) -> dict[str, Any]:
    """Decode a buffer by a schema file; `options` are flatc's.

    Raises InvalidModel for a damaged buffer, ToolFailed where flatc does not run.
    """
    with tempfile.TemporaryDirectory(prefix="straightway-") as folder:
        file = Path(folder) / "buffer.bin"
        file.write_bytes(data)
        _run(file, schema, subject, options)
        text = file.with_suffix(".json").read_text(encoding="utf-8", errors="replace")
    try:
        found: dict[str, Any] = json.loads(_BARE.sub(_spelled, text))
    except ValueError as error:
        raise InvalidModel(f"{subject}: is damaged: {error}") from error
    return found


def _run(file: Path, schema: Path, subject: str, options: Sequence[str]) -> None:
    command = [str(_FLATC), "--json", "--strict-json", "--defaults-json", "--raw-binary"]
    command += [*options, "-o", str(file.parent), str(schema), "--", str(file)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolFailed(f"{subject}: flatc of the executorch package failed: {error}") from error
    if done.returncode or not file.with_suffix(".json").exists():
        said = " ".join((done.stderr + done.stdout).split())[:200]
        raise InvalidModel(f"{subject}: is damaged or of another version: {said}")


def _spelled(match: re.Match[str]) -> str:
    return match[1] + ("Infinity" if match[2] == "inf" else "NaN")
