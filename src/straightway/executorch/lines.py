"""The line of the user's own code that an error comes from."""

import re
import sysconfig
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import torch
import torchao

from straightway import errors

_USER_CODE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_LIBRARIES = (
    # not imported: it takes a second, and any folder of that name is part of a namespace
    str(distribution("executorch").locate_file("executorch")),
    *(
        str(Path(file).parent)
        for file in (torch.__file__, torchao.__file__, errors.__file__)
        if file
    ),
)


def user_line(error: BaseException) -> str:
    """The innermost line outside of libraries, of the traceback or of what the message quotes."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    found = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if is_users(file):
            found = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    quoted: list[Any] = [
        match for match in _USER_CODE.finditer(str(error)) if is_users(match["file"])
    ]
    return f"{quoted[-1]['file']}:{quoted[-1]['line']}" if quoted else found


def at_line(error: BaseException) -> str:
    """That line for a message, behind what failed; nothing where there is none."""
    found = user_line(error)
    return f" at {found}" if found else ""


def is_users(file: str) -> bool:
    """Whether a file is none of the libraries', and one at all."""
    installed = (
        file.startswith(sysconfig.get_path("stdlib"))
        or "site-packages" in file
        or "dist-packages" in file
    )
    return not installed and not file.startswith(("<", "importlib", *_LIBRARIES))
