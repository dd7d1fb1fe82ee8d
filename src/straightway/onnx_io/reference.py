"""Models by ONNX's own reference evaluator: what the standard means, where no fast runtime has a kernel."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.version_converter
from onnx.reference import ReferenceEvaluator

# The evaluator has today's operators: models of before opset 7 broadcast in another way. At 15 none of
# them is of a version that it gets wrong (BatchNormalization of 9 trains, Softmax before 13).
OLDEST_EVALUATED = 7
BROUGHT_TO = 15


class Evaluator:
    """A model that can be evaluated, and any of its values asked for."""

    def __init__(self, path: Path) -> None:
        """Read the file with its external data. Raises what onnx and numpy raise."""
        model = onnx.load(str(path))
        _check_loops(model.graph)
        opsets = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
        if opsets and opsets[0] < OLDEST_EVALUATED:
            model = _brought_up(model)
        self._evaluator = ReferenceEvaluator(model)

    def run(
        self, feeds: Mapping[str, np.ndarray], extra: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """The tensor outputs by name, or those of the `extra` values that it knows."""
        with np.errstate(all="ignore"):
            found: Any = self._evaluator.run(None, dict(feeds), intermediate=True)
        names = extra or self._evaluator.output_names
        arrays = {name: found[name] for name in names if name in found}
        return {
            n: np.asarray(a) for n, a in arrays.items() if isinstance(a, np.ndarray | np.generic)
        }


def _check_loops(graph: onnx.GraphProto) -> None:
    """Raise ValueError for a Loop without a condition: the evaluator takes no turn of it."""
    for node in graph.node:
        if node.op_type == "Loop" and (len(node.input) < 2 or not node.input[1]):
            raise ValueError(f"it takes no turn of a Loop without a condition: '{node.name}'")
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _check_loops(attribute.g)


def _brought_up(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in a newer opset. Raises ValueError where onnx has no way there."""
    graph = model.graph
    given = {value.name for value in graph.input}
    for tensor in graph.initializer:  # the converter wants them as inputs, too, as IR 3 did
        if tensor.name not in given:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(info)
    try:
        return onnx.version_converter.convert_version(model, BROUGHT_TO)
    except onnx.version_converter.ConvertError as error:
        raise ValueError(str(error)) from error
