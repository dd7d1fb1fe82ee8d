"""Models whose weights lie in another file: wrong in every way."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bad_models import Bad

from onnx_io.external_models import (
    SIZE_BYTES,
    above,
    beside,
    external,
    linked_folder,
    linked_out,
    ring,
)
from straightway.errors import InvalidModel


def _bad(name: str, make: Callable[[Path], Path], *words: str) -> Bad:
    return Bad(name=f"external {name}", make=make, error=InvalidModel, words=["'w'", *words])


def _at(location: str) -> Callable[[Path], Any]:
    return lambda folder: external(folder, location=location)


EXTERNAL = [
    _bad("missing", _at("w.bin"), "is missing: 'w.bin'"),
    _bad("a folder", _at("."), "must lie beside the model"),
    _bad("nowhere", external, "must lie beside the model", "location is ''"),
    _bad("above", above("../w.bin"), "must lie beside the model", "'../w.bin'"),
    _bad("above by a detour", above("sub/../../w.bin"), "must lie beside the model"),
    _bad("above, Windows", above("..\\w.bin"), "must lie beside the model"),
    _bad("absolute", lambda f: external(f, location=str(f / "w.bin")), "must lie beside the model"),
    _bad("absolute, Windows", _at("C:\\w.bin"), "must lie beside the model"),
    _bad("absolute, network", _at("\\\\host\\w.bin"), "must lie beside the model"),
    _bad("linked out", linked_out, "leaves the model's folder"),
    _bad("linked folder", linked_folder, "leaves the model's folder"),
    _bad("ring of links", ring, "external data"),
    _bad("zero byte in the name", _at("w\0.bin"), "must lie beside the model"),
    _bad("endless name", _at("w" * 5000), "external data"),
    _bad("too short", beside(SIZE_BYTES - 4), "needs bytes 0 to 24", "it has 20"),
    _bad("too short, no length", beside(SIZE_BYTES - 4), "needs bytes 0 to 24"),
    _bad("too short after the offset", beside(offset="8"), "needs bytes 8 to 32", "it has 24"),
    _bad("negative offset", beside(offset="-4"), "'-4'"),
    _bad("huge offset", beside(offset="9" * 30), "9999"),
    _bad("largest offset", beside(offset=str(2**63 - 1)), "it has 24"),
    _bad("offset in words", beside(offset="four"), "'four'"),
    _bad("negative length", beside(length="-24"), "'-24'"),
    _bad("length of other weights", beside(48, length="48"), "has 48 bytes", "need 24"),
    _bad("length too short", beside(length="20"), "has 20 bytes", "need 24"),
]
