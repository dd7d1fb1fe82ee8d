"""The lines of a user's own source around a cause, where they are still there."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from straightway.ir.source import Source

_AROUND = 2
_LARGEST_BYTES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A line of a file; `is_cause`: the one that it is about."""

    number: int
    text: str
    is_cause: bool


def snippet(source: Source, around: int = _AROUND) -> Sequence[SourceLine]:
    """The line and those around it.

    Where the file is gone or has changed since, the line alone as the program remembers it; nothing
    where it has no line.
    """
    if not source.file or not source.line:
        return ()
    remembered = SourceLine(number=source.line, text=source.code, is_cause=True)
    lines = _lines(Path(source.file))
    at = source.line - 1
    if at >= len(lines) or (source.code and not _same(lines[at], source.code)):
        return (remembered,) if source.code else ()
    first = max(0, at - around)
    return tuple(
        SourceLine(number=k + 1, text=lines[k].rstrip(), is_cause=k == at)
        for k in range(first, min(len(lines), at + around + 1))
    )


def _lines(path: Path) -> list[str]:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _same(line: str, code: str) -> bool:
    """Whether the line is the one that was exported; a statement may go on in lines after it."""
    return line.strip() == code.strip() or code.strip().startswith(line.strip() or "\0")
