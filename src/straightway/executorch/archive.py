"""Saved programs are archives; what would run code when it is read is refused."""

import os
import pickletools
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch

from straightway.errors import InvalidModel

# More than a saved program has; reading the names of so many takes long.
_MOST_MEMBERS = 100_000
# What a pickle of tensors builds (torch.load's weights_only list), beside storages, types and what
# rebuilds tensors of them: anything else is code.
_HARMLESS = (
    "collections OrderedDict",
    "torch Size",
    "torch Tensor",
    "torch device",
    "torch.nn.parameter Parameter",
    "torch.storage UntypedStorage",
)
# Constants that torch reads by pickle, or makes of a class in C++ (torch/export/pt2_archive/constants.py).
_OBJECTS = ("opaque_obj", "custom_obj")
_FORCE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def _is_harmless(name: str) -> bool:
    """Of a module and a name in it; one with a dot is looked up step by step, and may lead anywhere."""
    module, _, own = name.partition(" ")
    if name in _HARMLESS or not own.isidentifier():
        return name in _HARMLESS
    if module == "torch._utils":
        return own.startswith("_rebuild")
    is_type = isinstance(getattr(torch, own, None), torch.dtype)
    return module == "torch" and (own.endswith("Storage") or is_type)


def check_archive(path: Path) -> None:
    """Refuse a .pt2 file that is no archive, is a bomb, or holds pickles that call anything.

    Raises InvalidModel.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise InvalidModel(f"{path}: holds {len(members):,} files, more than any program")
            unpacked_bytes = sum(member.file_size for member in members)
            if unpacked_bytes > path.stat().st_size:
                raise InvalidModel(
                    f"{path}: unpacks to {unpacked_bytes:,} bytes, more than it has itself; "
                    "torch.export.save compresses nothing"
                )
            for member in members:
                _check_member(path, archive, member)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
        raise InvalidModel(f"{path}: is no program saved by torch.export.save: {error}") from error


def _check_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    if any(kind in member.filename.lower() for kind in _OBJECTS):
        raise InvalidModel(
            f"{path}: {member.filename} is an object that only its own code can read; not loaded"
        )
    with archive.open(member) as stream:
        head = stream.read(4)
    if head[:2] == b"PK":
        with archive.open(member) as stream, zipfile.ZipFile(stream) as inner:
            for part in inner.infolist():
                _check_member(path, inner, part)
        return
    if head[:1] != b"\x80":
        return
    with archive.open(member) as stream:
        data = stream.read()
    for name in globals_of(data):
        if not _is_harmless(name):
            raise InvalidModel(
                f"{path}: {member.filename} would call {name.replace(' ', '.')} when it is opened; "
                "not loaded"
            )


def globals_of(data: bytes) -> list[str]:
    """What a pickle names to be imported, without running it; [] for what is no pickle."""
    found: list[str] = []
    strings: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name in {"GLOBAL", "INST"}:
                found.append(str(argument))
            elif opcode.name == "STACK_GLOBAL":
                found.append(" ".join(strings[-2:]))
            elif isinstance(argument, str):
                strings.append(argument)
    except (ValueError, IndexError, KeyError, UnicodeDecodeError):
        return found
    return found


_hooks: list[Any] = []
_guarded: ContextVar[bool] = ContextVar("guarded", default=False)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Python tells of each name that a pickle looks up; raises InvalidModel for one that is code."""
    if event != "pickle.find_class" or not _guarded.get():
        return
    name = " ".join(str(one) for one in arguments)
    if not _is_harmless(name):
        raise InvalidModel(f"a pickle in it would call {name.replace(' ', '.')}")


@contextmanager
def no_code() -> Iterator[None]:
    """While torch reads an archive no pickle in it calls anything, however it is disguised.

    torch.export.load falls back to reading by pickle whatever it can't read safely.
    """
    if _refuse not in _hooks:
        _hooks.append(_refuse)
        sys.addaudithook(_refuse)
    token, before = _guarded.set(True), os.environ.get(_FORCE)
    os.environ[_FORCE] = "1"
    try:
        yield
    finally:
        _guarded.reset(token)
        if before is None:
            del os.environ[_FORCE]
        else:
            os.environ[_FORCE] = before
