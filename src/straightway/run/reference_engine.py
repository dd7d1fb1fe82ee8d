"""Child side: ONNX models by ONNX's own reference evaluator."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from straightway.errors import ToolFailed
from straightway.onnx_io.reference import Evaluator
from straightway.run.wire import Array

# What its operators, written in numpy, raise for what they lack or do not take.
_RAISED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


class _Kept:
    """The last model: verification runs one on several inputs."""

    key: tuple[str, float] = ("", 0.0)
    evaluator: Evaluator | None = None


def run(params: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[dict[str, Any], list[Array]]:
    """Evaluate the model once; the answer names the outputs, extra ones after the model's own."""
    path = Path(params["path"])
    try:
        key = (str(path), path.stat().st_mtime)
        if key != _Kept.key or _Kept.evaluator is None:
            _Kept.evaluator, _Kept.key = Evaluator(path), key
        feeds = dict(zip(params["inputs"], arrays, strict=True))
        found = _Kept.evaluator.run(feeds, params["extra_outputs"])
    except _RAISED as error:
        raise ToolFailed(f"ONNX's reference evaluator can't run {path.name}: {error}") from error
    return {"names": list(found)}, list(found.values())
