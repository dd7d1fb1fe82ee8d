"""Requests for TensorFlow Lite for Microcontrollers: what Cortex-M runs, by its reference kernels.

with Child() as child:
    (y,) = child.call(micro.run("m.tflite", [x]))
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from straightway.run.process import Call
from straightway.run.wire import Array


def run(path: Path | str, inputs: Sequence[Array]) -> Call[tuple[Array, ...]]:
    """Run a file once; `inputs` and the answer stand in the file's order.

    The call raises ToolFailed where the package is missing or an operator has no kernel there (its
    name stands in the message), InvalidRequest where inputs don't fit.
    """
    return Call(
        verb="micro.run",
        subject=f"TensorFlow Lite Micro on {Path(path).name}",
        params={"path": str(path)},
        arrays=tuple(np.asarray(array) for array in inputs),
        decode=lambda _, arrays: tuple(arrays),
    )
