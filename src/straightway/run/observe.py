"""What values a model's tensors take over many inputs: asked of onnxruntime, in a child process.

with Child(engines=["onnxruntime"]) as child:
    watch = Observer(child, "m.onnx", [["a", "b"], ["c"]])
    for inputs in data:
        watch.add(inputs)
    ranges = watch.result()
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from straightway.run.process import Call, Child
from straightway.run.wire import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The values of one tensor over all samples.

    `low` and `high` are the exact extremes of its finite elements, and `low_sample`, `high_sample`
    the numbers of the samples that made them. `histogram` counts elements (of large tensors by a part
    of them) in bins of equal width from -`span` to `span`.
    """

    low: float
    high: float
    low_sample: int
    high_sample: int
    elements: int
    not_finite: int
    not_finite_sample: int
    span: float
    histogram: NDArray[np.int64]

    def edges(self) -> NDArray[np.float64]:
        """The borders of the bins."""
        return np.linspace(-self.span, self.span, len(self.histogram) + 1)


class Observer:
    """Watches the named tensors of a model; each group is asked for in a run of its own.

    Groups bound the memory that one run takes: all its tensors are held at once.
    """

    def __init__(
        self,
        child: Child,
        path: Path | str,
        groups: Sequence[Sequence[str]],
        outputs: Sequence[str] = (),
    ) -> None:
        """`outputs` names what the model returns anyway."""
        self._outputs = set(outputs)
        self._child = child
        self._path = str(path)
        self._groups = [list(group) for group in groups if group]
        self.samples = 0

    def add(self, inputs: Mapping[str, Array]) -> None:
        """Run the model on one sample; raises what `ort.run` raises."""
        for number, names in enumerate(self._groups):
            params = {
                "path": self._path,
                "inputs": list(inputs),
                "names": names,
                "interior": [name for name in names if name not in self._outputs],
                "group": number,
                "sample": self.samples,
                "fresh": self.samples == 0 and number == 0,
            }
            arrays = tuple(np.asarray(array) for array in inputs.values())
            self._child.call(self._call("onnx.observe", params, arrays))
        self.samples += 1

    def restore(self, seen: Mapping[str, Observed]) -> None:
        """Go on from what was seen before, on as many samples as `samples` says."""
        facts = {
            name: {fact.name: getattr(one, fact.name) for fact in fields(one)}
            for name, one in seen.items()
        }
        histograms = tuple(np.asarray(one.pop("histogram")) for one in facts.values())
        params = {"path": self._path, "facts": facts}
        self._child.call(self._call("onnx.resume", params, histograms))

    def result(self) -> dict[str, Observed]:
        """The statistics so far, by name; tensors that are not of floats have none."""
        if not self.samples:
            return {}
        facts, histograms = self._child.call(self._call("onnx.observed", {}, ()))
        pairs = zip(facts["facts"].items(), histograms, strict=True)
        return {name: Observed(**one, histogram=counts) for (name, one), counts in pairs}

    def _call(
        self, verb: str, params: dict[str, Any], arrays: tuple[Array, ...]
    ) -> Call[tuple[dict[str, Any], list[Array]]]:
        return Call(
            verb=verb,
            subject=f"onnxruntime on {Path(self._path).name}",
            params=params,
            arrays=arrays,
            decode=lambda answer, results: (answer, results),
        )
