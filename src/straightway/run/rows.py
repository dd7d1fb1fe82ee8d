"""Rows of what a model's weights are multiplied with: drawn by onnxruntime, in a child process."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from straightway.run.process import Call, Child
from straightway.run.wire import Array


class RowDrawer:
    """Draws rows of the operands that specifications (`quant.rows`) describe, evenly from all samples."""

    def __init__(
        self, child: Child, path: Path, specs: Sequence[Mapping[str, Any]], at_once: int = 256
    ) -> None:
        """A run of the model holds `at_once` operands."""
        self._child, self._path = child, path
        names = list(dict.fromkeys(str(spec["value"]) for spec in specs))
        starts = range(0, len(names), at_once)
        self._groups = [names[start : start + at_once] for start in starts]
        self._specs = [
            {str(k): dict(spec) for k, spec in enumerate(specs) if spec["value"] in group}
            for group in self._groups
        ]
        self.samples = 0

    def add(self, inputs: Mapping[str, Array]) -> None:
        """Run the model on one sample; raises what `ort.run` raises."""
        for number, names in enumerate(self._groups):
            params = {
                "path": str(self._path),
                "inputs": list(inputs),
                "names": names,
                "specs": self._specs[number],
                "group": number,
                "sample": self.samples,
                "fresh": self.samples == 0 and number == 0,
            }
            arrays = tuple(np.asarray(array) for array in inputs.values())
            self._child.call(self._call("onnx.draw", params, arrays))
        self.samples += 1

    def result(self) -> dict[int, Array]:
        """Rows [groups, rows, weights] by the number of their specification."""
        if not self.samples or not self._groups:
            return {}
        facts, arrays = self._child.call(self._call("onnx.drawn", {}, ()))
        return dict(zip(facts["numbers"], arrays, strict=True))

    def _call(
        self, verb: str, params: dict[str, Any], arrays: tuple[Array, ...]
    ) -> Call[tuple[dict[str, Any], list[Array]]]:
        return Call(
            verb=verb,
            subject=f"onnxruntime on {self._path.name}",
            params=params,
            arrays=arrays,
            decode=lambda answer, results: (answer, results),
        )
