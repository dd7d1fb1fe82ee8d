"""Where the user's own code makes each module: nn.Sequential has no line of its own for its parts."""

import linecache
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from straightway.executorch.lines import is_users


@contextmanager
def recorded() -> Iterator[dict[int, str]]:
    """While it is open: the line that made each module, by the module's id.

    A module that is freed gives its id to another, which is recorded in its turn.
    """
    found: dict[int, str] = {}
    plain = torch.nn.Module.__init__

    def init(self: torch.nn.Module, *inputs: Any, **keywords: Any) -> None:
        found[id(self)] = _line(sys._getframe(1), self)  # noqa: SLF001 - the stack without its cost
        plain(self, *inputs, **keywords)

    torch.nn.Module.__init__ = init
    try:
        yield found
    finally:
        torch.nn.Module.__init__ = plain


def parts(module: torch.nn.Module, lines: Mapping[int, str]) -> dict[str, str]:
    """By path: what a part is, and where it is made ("1: BatchNorm2d, made at nets.py:7 …")."""
    found = {}
    for path, one in module.named_modules():
        line = lines.get(id(one), "")
        found[path] = f"{path or 'the model'}: {type(one).__name__}" + (
            f", made at {line}" if line else ""
        )
    return found


def _line(frame: FrameType | None, made: torch.nn.Module) -> str:
    """The innermost line of the user's that is no part of the module's own making."""
    while frame is not None:
        code = frame.f_code
        first = code.co_varnames[0] if code.co_argcount else ""
        if is_users(code.co_filename) and frame.f_locals.get(first) is not made:
            text = linecache.getline(code.co_filename, frame.f_lineno).strip()
            return f"{code.co_filename}:{frame.f_lineno} {text}".strip()
        frame = frame.f_back
    return ""
