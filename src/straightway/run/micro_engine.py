"""Child side: .tflite files by TensorFlow Lite for Microcontrollers, from the package tflite-micro."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from straightway.errors import InvalidRequest, ToolFailed
from straightway.run.wire import Array

# Memory for activations: only what is touched is taken.
ARENA_BYTES = 256 * 2**20
INSTALL = "TensorFlow Lite Micro is not installed: pip install 'straightway[mcu]'"


def run(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Run the file once on a fresh interpreter."""
    interpreter = _opened(Path(params["path"]))
    for index, array in enumerate(arrays):
        _fill(interpreter, index, array)
    with _told() as lines:
        try:
            interpreter.invoke()
        except (RuntimeError, ValueError) as error:
            raise ToolFailed(
                f"TensorFlow Lite Micro can't run the model: {lines(error)}"
            ) from error
    return {}, list(_outputs(interpreter))


def _opened(path: Path) -> Any:
    try:
        from tflite_micro import runtime  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ToolFailed(INSTALL) from error
    with _told() as lines:
        try:
            return runtime.Interpreter.from_file(str(path), arena_size=ARENA_BYTES)
        except (RuntimeError, ValueError) as error:
            text = f"TensorFlow Lite Micro can't prepare {path.name}: {lines(error)}"
            raise ToolFailed(text) from error


def _fill(interpreter: Any, index: int, array: Array) -> None:
    try:
        wanted = interpreter.get_input_details(index)
    except IndexError as error:
        raise InvalidRequest(f"the file has no input {index}") from error
    shape, dtype = tuple(int(d) for d in wanted["shape"]), np.dtype(wanted["dtype"])
    if (array.shape, array.dtype) != (shape, dtype):
        raise InvalidRequest(
            f"input {index} is {dtype.name}{list(shape)}; got {array.dtype.name}{list(array.shape)}"
        )
    interpreter.set_input(np.asarray(array, order="C"), index)


def _outputs(interpreter: Any) -> Iterator[Array]:
    """All outputs; only the one that is not there tells how many there are."""
    index = 0
    while True:
        with _told():
            try:
                interpreter.get_output_details(index)
            except IndexError:
                return
        yield np.array(interpreter.get_output(index))
        index += 1


@contextmanager
def _told() -> Iterator[Any]:
    """What the C++ code says meanwhile, which its exceptions leave out."""
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)

        def lines(error: Exception) -> str:
            file.seek(0)
            text = file.read().decode("utf-8", "replace")
            found = [line.strip() for line in text.splitlines() if line.strip()]
            return "; ".join([*found[:3], str(error)])

        try:
            yield lines
        finally:
            os.dup2(before, 2)
            os.close(before)
