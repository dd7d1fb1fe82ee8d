"""Files out: whole or not at all, and never over the input."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from straightway.errors import InvalidRequest, ToolFailed


def check_output(output: Path, model: Path) -> None:
    """Refuse an output that is the input, a directory, or lies in no directory."""
    if output.exists() and model.exists() and output.samefile(model):
        raise InvalidRequest(f"{output}: is the input; give another output")
    if output.is_dir():
        raise InvalidRequest(f"{output}: is a directory; give a file")
    if not output.parent.is_dir():
        raise InvalidRequest(f"{output}: there is no folder '{output.parent}'")


@contextmanager
def written(output: Path, data: bytes | memoryview) -> Iterator[Path]:
    """Write beside `output` under another name, and put it in its place when all went well.

    The body gets the path of the finished file to check. If it raises, nothing is left. Raises
    ToolFailed where the disk is full or the folder can't be written.
    """
    handle, name = _temporary(output)
    part = Path(name)
    try:
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise failed(output, error, len(data)) from error
        yield part
        try:
            part.chmod(0o666 & ~_umask())
            part.replace(output)
        except OSError as error:
            raise failed(output, error, len(data)) from error
    finally:
        part.unlink(missing_ok=True)


def _temporary(output: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(prefix=f".{output.stem}-", suffix=output.suffix, dir=output.parent)
    except OSError as error:
        raise failed(output, error, 0) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def failed(output: Path, error: OSError, size_bytes: int) -> ToolFailed:
    """Say why a file could not be written."""
    if error.errno == errno.ENOSPC:
        return ToolFailed(f"{output}: no space left for {size_bytes:,} bytes; nothing was written")
    return ToolFailed(f"{output}: cannot be written: {error.strerror or error}")


def write_text(output: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with written(output, text.encode()):
        pass
