"""A model written at fixed sizes, with the dimensions open that its own inputs leave open.

Where the same model at other sizes differs only in a constant that says a shape, one size of it is −1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import numpy_helper

from straightway.errors import NotYet

ROUNDINGS = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
Shape = Sequence[int | str]


def reopened(
    rounded: bytes, samples: Sequence[bytes], shapes: Mapping[str, Shape], sizes: Sequence[Shape]
) -> bytes:
    """The rounded model with open dimensions.

    `samples` is the model that it was made of, not rounded, at the sizes of the rounded one and at
    others; `shapes` are those of the inputs, with names where they are open, and `sizes` what each
    name (in the order in which they appear) is in each sample. Raises NotYet
    where the sizes decide more than shapes.
    """
    model = onnx.ModelProto.FromString(rounded)
    copies = [_Sample(graph=onnx.ModelProto.FromString(one).graph) for one in samples]
    nodes = [node for node in model.graph.node if node.op_type not in ROUNDINGS]
    listed = [copy.nodes() for copy in copies]
    if any([n.op_type for n in one] != [n.op_type for n in nodes] for one in listed):
        raise NotYet("the sizes decide which operators there are")
    for node, *same in zip(nodes, *listed, strict=True):
        _open_node(model.graph, node, same, copies)
    for value in model.graph.input:
        _set_dims(value, shapes[value.name])
    outputs = [list(copy.graph.output) for copy in copies]
    for value, *others in zip(model.graph.output, *outputs, strict=True):
        _set_dims(value, _named(value.name, others, shapes, sizes))
    del model.graph.value_info[:]
    data: bytes = model.SerializeToString()
    return data


@dataclass(slots=True, kw_only=True)
class _Sample:
    graph: onnx.GraphProto
    constants: dict[str, onnx.TensorProto] = field(init=False)

    def __post_init__(self) -> None:
        """Find the constants by name."""
        self.constants = {tensor.name: tensor for tensor in self.graph.initializer}

    def nodes(self) -> list[onnx.NodeProto]:
        """The nodes without those that only give an input another name."""
        inputs = {value.name for value in self.graph.input}
        return [
            node
            for node in self.graph.node
            if not (node.op_type == "Identity" and node.input[0] in inputs)
        ]


def _open_node(
    graph: onnx.GraphProto,
    node: onnx.NodeProto,
    same: Sequence[onnx.NodeProto],
    copies: Sequence[_Sample],
) -> None:
    """Let one operand say −1 where the samples differ in it."""
    if len({tuple(a.SerializeToString() for a in one.attribute) for one in same}) > 1:
        raise NotYet(f"the sizes decide an attribute of {node.op_type} '{node.name}'")
    for place, names in enumerate(zip(*(one.input for one in same), strict=True)):
        tensors = [c.constants.get(n) for c, n in zip(copies, names, strict=True)]
        known = [tensor for tensor in tensors if tensor is not None]
        if (
            len({tensor.raw_data for tensor in known} | {None}) <= 2
            and len({tuple(tensor.dims) for tensor in known}) <= 1
        ):
            continue
        arrays = [numpy_helper.to_array(tensor) for tensor in known]
        if node.op_type != "Reshape" or place != 1 or len({a.shape for a in arrays}) > 1:
            raise NotYet(f"the sizes decide operand {place} of {node.op_type} '{node.name}'")
        differs = np.any(np.stack(arrays) != arrays[0], axis=0)
        if differs.sum() != 1 or (arrays[0] <= 0).any():
            raise NotYet(f"{node.op_type} '{node.name}' has several open dimensions")
        target = np.where(differs, -1, arrays[0])
        name = f"{node.input[1]}/open"
        if all(tensor.name != name for tensor in graph.initializer):
            graph.initializer.append(numpy_helper.from_array(target.astype(np.int64), name))
        node.input[1] = name


def _named(
    name: str,
    values: Sequence[onnx.ValueInfoProto],
    shapes: Mapping[str, Shape],
    sizes: Sequence[Shape],
) -> list[int | str]:
    """An output's dimensions: those that differ by the name of an input's that is the same."""
    names = list(dict.fromkeys(d for dims in shapes.values() for d in dims if isinstance(d, str)))
    by_sizes = dict(zip(map(tuple, sizes), names, strict=True))
    dims = zip(*([d.dim_value for d in v.type.tensor_type.shape.dim] for v in values), strict=True)
    return [
        one[0] if len(set(one)) == 1 else by_sizes.get(one, f"{name}_{k}")
        for k, one in enumerate(dims)
    ]


def _set_dims(value: onnx.ValueInfoProto, dims: Shape) -> None:
    shape = value.type.tensor_type.shape
    del shape.dim[:]
    for size in dims:
        if isinstance(size, str):
            shape.dim.add().dim_param = size
        else:
            shape.dim.add().dim_value = size
