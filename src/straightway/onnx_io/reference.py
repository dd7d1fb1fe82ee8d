"""Models by ONNX's own reference evaluator: what the standard means, where no fast runtime has a kernel."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.helper
import onnx.version_converter
from onnx.reference import ReferenceEvaluator

from straightway.ir import Op
from straightway.onnx_io.schema import official

# The evaluator has today's operators: models of before opset 7 broadcast in another way. At 15 none of
# them is of a version that it gets wrong (BatchNormalization of 9 trains, Softmax before 13).
OLDEST_EVALUATED = 7
BROUGHT_TO = 15
# an operand of so many dimensions gets the other one aligned
MATRIX = 2
FIXED: dict[str, np.dtype] = {
    "tensor(float)": np.dtype(np.float32),
    "tensor(int64)": np.dtype(np.int64),
}
REGRESSORS = ("LinearRegressor", "SVMRegressor", "TreeEnsembleRegressor")


class Evaluator:
    """A model that can be evaluated, and any of its values asked for."""

    def __init__(self, path: Path) -> None:
        """Read the file with its external data. Raises what onnx and numpy raise."""
        model = onnx.load(str(path))
        _check(model.graph)
        _give_floats(model.graph)
        opsets = [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")]
        if opsets and opsets[0] < OLDEST_EVALUATED:
            model = _brought_up(model)
        self._evaluator = ReferenceEvaluator(model)
        self._kinds = _kinds(model)

    def run(
        self, feeds: Mapping[str, np.ndarray], extra: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """The tensor outputs by name, or those of the `extra` values that it knows."""
        with np.errstate(all="ignore"):
            found: Any = self._evaluator.run(None, dict(feeds), intermediate=True)
        for name, kind in self._kinds.items():
            if getattr(found.get(name), "dtype", kind) != kind:
                raise ValueError(
                    f"it gives {found[name].dtype} where the standard says {kind}: '{name}'"
                )
        names = extra or self._evaluator.output_names
        arrays = {name: found[name] for name in names if name in found}
        return {
            n: np.asarray(a) for n, a in arrays.items() if isinstance(a, np.ndarray | np.generic)
        }


def _check(graph: onnx.GraphProto) -> None:
    """Raise ValueError for what the evaluator gets wrong."""
    for node in graph.node:
        if node.op_type == "Loop" and (len(node.input) < 2 or not node.input[1]):
            raise ValueError(f"it takes no turn of a Loop without a condition: '{node.name}'")
        if node.op_type == "LRN":  # onnx/reference/ops/op_lrn.py at v1.23: range(x.shape[0])
            raise ValueError(f"it normalises as many channels as there are images: '{node.name}'")
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _check(attribute.g)


def _kinds(model: onnx.ModelProto) -> dict[str, np.dtype]:
    """Of results whose type the standard fixes: which. Numpy rounds the results of whole numbers."""
    versions = {one.domain: one.version for one in model.opset_import}
    found: dict[str, np.dtype] = {}
    for node in model.graph.node:
        op = Op(dialect=node.domain, name=node.op_type, version=versions.get(node.domain, 1))
        schema = official(op)
        outputs = () if schema is None else schema.outputs
        for name, output in zip(node.output, outputs, strict=False):
            if output.type_str in FIXED:
                found[name] = FIXED[output.type_str]
    return found


def _give_floats(graph: onnx.GraphProto) -> None:
    """Cast what regressors are given: their results are float32 by the standard.

    The evaluator computes them, and the weights themselves, in the type of what they are given, which may
    be whole numbers (onnx/reference/ops/aionnxml/op_linear_regressor.py at v1.23).
    """
    nodes = [*graph.node]
    del graph.node[:]
    for place, node in enumerate(nodes):
        if node.op_type in REGRESSORS and node.domain == "ai.onnx.ml" and node.input:
            name = f"{node.input[0]}/float{place}"
            cast = onnx.helper.make_node("Cast", [node.input[0]], [name], to=onnx.TensorProto.FLOAT)
            graph.node.append(cast)
            node.input[0] = name
        graph.node.append(node)


def _check_old(graph: onnx.GraphProto) -> None:
    """Raise ValueError for operands that are not aligned as opsets before 7 do it.

    Of axes, the converter sees to those of matrices; the evaluator lets a slope run along the last
    dimension where it fits there, and along the channels only where it does not.
    """
    sizes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.input}
    sizes |= {t.name: list(t.dims) for t in graph.initializer}
    for node in graph.node:
        first, second = ([*(sizes.get(name, []) for name in node.input), [], []])[:2]
        names = {attribute.name for attribute in node.attribute}
        is_deep = not 0 < len(first) <= MATRIX
        fits_last = not first or not second or first[-1] in (1, *second)
        turned = node.op_type == "PRelu" and fits_last and len(second) == 1 and second != [1]
        if (is_deep and turned) or (is_deep and {"axis", "broadcast"} <= names):
            raise ValueError(f"operands of before opset 7 are aligned otherwise: '{node.name}'")


def _turn_slopes(graph: onnx.GraphProto) -> None:
    """Give constant slopes of channels the form that broadcasts along these: [C] becomes [C, 1, ...]."""
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in graph.input}
    constants = {t.name: t for t in graph.initializer}
    for node in graph.node:
        if node.op_type != "PRelu" or len(node.input) != MATRIX:
            continue
        slope, rank = constants.get(node.input[1]), ranks.get(node.input[0], 0)
        if slope is not None and len(slope.dims) == 1 and rank > MATRIX:
            turned = onnx.TensorProto()
            turned.CopyFrom(slope)
            turned.name = f"{node.output[0]}/slope"
            turned.dims.extend([1] * (rank - MATRIX))
            graph.initializer.append(turned)
            node.input[1] = turned.name


def _brought_up(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in a newer opset. Raises ValueError where onnx has no way there."""
    graph = model.graph
    _turn_slopes(graph)
    _check_old(graph)
    given = {value.name for value in graph.input}
    for tensor in graph.initializer:  # the converter wants them as inputs, too, as IR 3 did
        if tensor.name not in given:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            graph.input.append(info)
    try:
        return onnx.version_converter.convert_version(model, BROUGHT_TO)
    except onnx.version_converter.ConvertError as error:
        raise ValueError(str(error)) from error
