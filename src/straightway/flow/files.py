"""Files out: whole or not at all, and never over the input."""

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from straightway.errors import InvalidRequest, ToolFailed
from straightway.onnx_io import check, read
from straightway.tflite.write import Written


def check_output(output: Path, *sources: Path) -> None:
    """Refuse an output that is one of the sources, no regular file, or lies in no folder."""
    if "\0" in str(output):
        raise InvalidRequest(f"{str(output)!r}: no file's name has a zero byte in it")
    try:
        if output.is_dir():
            raise InvalidRequest(f"{output}: is a directory; give a file")
        if not output.parent.is_dir():
            raise InvalidRequest(f"{output}: there is no folder '{output.parent}'")
        if not output.exists():
            return
        if not output.is_file():
            raise InvalidRequest(f"{output}: is no regular file; give another output")
        if any(_same(output, source) for source in sources):
            raise InvalidRequest(f"{output}: is the input; give another output")
    except OSError as error:  # too long a name, a folder without access
        raise InvalidRequest(f"{output}: cannot be written: {error}") from error


def _same(output: Path, source: Path) -> bool:
    try:
        return output.samefile(source)
    except (OSError, ValueError):  # no file: whoever reads the source says so
        return False


def check_model_output(output: Path, model: Path, *sources: Path) -> None:
    """Refuse an output that `check_output` refuses, or that holds the weights of the ONNX model."""
    check_output(output, model, *sources)
    if output.exists():
        check_output(output, *check.external_files(read.parse(model), model))


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """A hidden folder inside `folder`, whose files go there together when all went well.

    `folder` is made if it is not there. If the body raises, nothing is left, not even the folder.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".straightway-", dir=folder) as name:
            yield Path(name)
            for file in sorted(Path(name).iterdir()):
                file.replace(folder / file.name)
        missing = []
    except OSError as error:
        raise failed(folder, error, 0) from error
    finally:
        for path in missing:
            _remove_empty(path)


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # it was never made, or someone else uses it
        return


@contextmanager
def written(output: Path, data: bytes | Written) -> Iterator[Path]:
    """Write beside `output` under another name, and put it in its place when all went well.

    The body gets the path of the finished file to check. If it raises, nothing is left. Raises
    ToolFailed where the disk is full or the folder can't be written.
    """
    handle, name = _temporary(output)
    part = Path(name)
    try:
        try:
            with os.fdopen(handle, "wb") as file:
                file.writelines(_pieces(data))
                file.flush()
                os.fsync(file.fileno())
            part.chmod(0o666 & ~_umask())
        except OSError as error:
            raise failed(output, error, _size_bytes(data)) from error
        yield part
        move(part, output)
    finally:
        part.unlink(missing_ok=True)


def move(part: Path, output: Path) -> None:
    """Put a finished file in its place; raises ToolFailed where that can't be."""
    try:
        part.replace(output)
    except OSError as error:
        raise failed(output, error, 0) from error


@contextmanager
def scratch(name: str, data: bytes | Written) -> Iterator[Path]:
    """A file of these bytes that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="straightway-") as folder:
        path = Path(folder) / name
        try:
            with path.open("wb") as file:
                file.writelines(_pieces(data))
        except OSError as error:
            raise failed(path, error, _size_bytes(data)) from error
        yield path


def _pieces(data: bytes | Written) -> Iterable[bytes | memoryview]:
    return data.pieces() if isinstance(data, Written) else (data,)


def _size_bytes(data: bytes | Written) -> int:
    return data.size_bytes if isinstance(data, Written) else len(data)


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
        size = f" for {size_bytes:,} bytes" if size_bytes else ""
        return ToolFailed(f"{output}: no space left on the disk{size}; nothing was written")
    return ToolFailed(f"{output}: cannot be written: {error.strerror or error}")


def write(output: Path, data: bytes | Written) -> None:
    """Write a file, whole or not at all."""
    with written(output, data):
        pass
