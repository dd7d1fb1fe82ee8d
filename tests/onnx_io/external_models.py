"""Models whose weights lie in another file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from onnx import TensorProto

from onnx_io.small_models import model, node, save, tensor

ROWS, COLUMNS = 2, 3
SIZE_BYTES = 4 * ROWS * COLUMNS


def external(folder: Path, **entries: str) -> Path:
    """A model `m.onnx` whose only weights lie where `entries` say."""
    proto = model(
        [node("Add", "x w", "y")], [tensor("x", [ROWS, COLUMNS])], [tensor("y", [ROWS, COLUMNS])]
    )
    made = proto.graph.initializer.add(
        name="w", data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS], data_location=1
    )
    for key, value in entries.items():
        made.external_data.add(key=key, value=value)
    return save(proto, folder / "m.onnx")


def stored(folder: Path, size_bytes: int = SIZE_BYTES, name: str = "w.bin") -> None:
    """Write the file of weights."""
    (folder / name).write_bytes(np.arange(size_bytes, dtype=np.uint8).tobytes())


def beside(size_bytes: int = SIZE_BYTES, **entries: str) -> Callable[[Path], Path]:
    """A model with a file of weights beside it."""

    def make(folder: Path) -> Path:
        stored(folder, size_bytes)
        return external(folder, **{"location": "w.bin", **entries})

    return make


def linked_out(folder: Path) -> Path:
    """The file of weights is a link to one in another folder."""
    inside = folder / "inside"
    inside.mkdir()
    stored(folder)
    (inside / "link.bin").symlink_to(folder / "w.bin")
    return external(inside, location="link.bin")


def linked_folder(folder: Path) -> Path:
    """The folder of the weights is a link to another one."""
    inside, outside = folder / "inside", folder / "outside"
    inside.mkdir()
    outside.mkdir()
    stored(outside)
    (inside / "sub").symlink_to(outside)
    return external(inside, location="sub/w.bin")


def above(location: str) -> Callable[[Path], Path]:
    """The weights are there, but above the model."""

    def make(folder: Path) -> Path:
        stored(folder)
        inside = folder / "inside"
        inside.mkdir()
        return external(inside, location=location)

    return make


def ring(folder: Path) -> Path:
    """A link to itself."""
    (folder / "w.bin").symlink_to(folder / "w.bin")
    return external(folder, location="w.bin")
