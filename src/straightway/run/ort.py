"""Requests for onnxruntime: run an ONNX file, or profile it. Give them to a `Child`.

with Child(engines=["onnxruntime"]) as child:
    pending = child.start(ort.run("m.onnx", {"x": x}))
    ...  # something else meanwhile
    y = pending.result()["y"]
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from straightway.errors import InvalidRequest
from straightway.run import ort_trace
from straightway.run.process import Call
from straightway.run.wire import Array
from straightway.trace.schema import Trace


def run(
    path: Path | str,
    inputs: Mapping[str, Array],
    *,
    optimise: bool = True,
    outputs: Sequence[str] = (),
    extra_outputs: Sequence[str] = (),
) -> Call[dict[str, Array]]:
    """Run a model once, single-threaded; the answer holds its tensor outputs by name.

    `extra_outputs` names interior values to return as well, `outputs` all that is wanted where that
    is not everything. Open dimensions take the arrays' sizes; external data is found beside the
    file. The child keeps the model for the next call on the same file and options.
    """
    return Call(
        verb="onnx.run",
        subject=f"onnxruntime on {Path(path).name}",
        params={
            "path": str(path),
            "inputs": list(inputs),
            "optimise": optimise,
            "outputs": list(outputs),
            "extra_outputs": list(extra_outputs),
        },
        arrays=tuple(np.asarray(array) for array in inputs.values()),
        decode=_named,
    )


def evaluate(
    path: Path | str,
    inputs: Mapping[str, Array],
    *,
    extra_outputs: Sequence[str] = (),
) -> Call[dict[str, Array]]:
    """The same by ONNX's own reference evaluator, slowly; it gives those extra outputs that it knows."""
    return Call(
        verb="onnx.evaluate",
        subject=f"ONNX's reference evaluator on {Path(path).name}",
        params={
            "path": str(path),
            "inputs": list(inputs),
            "extra_outputs": list(extra_outputs),
        },
        arrays=tuple(np.asarray(array) for array in inputs.values()),
        decode=_named,
    )


def profile(
    path: Path | str,
    inputs: Mapping[str, Array],
    *,
    runs: int = 30,
    warmup: int = 5,
    threads: int = 1,
) -> Call[Trace]:
    """Time a model node by node, after onnxruntime's optimisation, into a `Trace`."""
    if runs < 1 or warmup < 0:
        raise InvalidRequest(f"a profile needs at least one run; got {runs}, warm-up {warmup}")
    return Call(
        verb="onnx.profile",
        subject=f"onnxruntime's profiler on {Path(path).name}",
        params={
            "path": str(path),
            "inputs": list(inputs),
            "runs": runs,
            "warmup": warmup,
            "threads": threads,
        },
        arrays=tuple(np.asarray(array) for array in inputs.values()),
        decode=lambda answer, _: ort_trace.to_trace(
            answer, model=Path(path).name, warmup=warmup, threads=threads
        ),
    )


def _named(answer: dict[str, Any], arrays: list[Array]) -> dict[str, Array]:
    return dict(zip(answer["names"], arrays, strict=True))
