"""A model whose other floats are computed in float32, as LiteRT does; it still rounds at its Casts.

    before  x: f16 ─ Conv ─ y: f16        after  x: f16 ─ Cast ─ Conv (f32) ─ Cast ─ y: f16

That every other result is rounded, too, is how a narrow kernel computes, not what the model means.
"""

from collections.abc import Iterator, MutableSequence

import numpy as np
import onnx
import onnx.helper
import onnx.numpy_helper

from straightway.onnx_io.check import graphs, tensors

FLOAT = onnx.TensorProto.FLOAT
NARROW = frozenset({onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
FOREIGN = NARROW | {onnx.TensorProto.DOUBLE}
WIDE, ROUNDED = "/float32", "/rounded"
# attributes that name the element type of a result, or of what is computed inside
TYPES = {"dtype", "output_dtype", "softmax_precision", "to"}
Kinds = frozenset[int]


def narrow_floats(model: onnx.ModelProto) -> bool:
    """Compute float16 and bfloat16 in float32; inputs and outputs keep their types."""
    return _in_float32(model, NARROW)


def all_floats(model: onnx.ModelProto) -> bool:
    """The same of float64, too."""
    return _in_float32(model, FOREIGN)


def _in_float32(model: onnx.ModelProto, kinds: Kinds) -> bool:
    graph = model.graph
    if not any(kind in kinds for kind in _kinds(graph)):
        return False
    for tensor in tensors(graph):
        if tensor.data_type in kinds:
            array = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for one in graphs(graph):
        _rewrite(one.node, kinds)
        del one.value_info[:]
        for value in () if one is graph else (*one.input, *one.output):
            if value.type.tensor_type.elem_type in kinds:
                value.type.tensor_type.elem_type = FLOAT
    for function in model.functions:
        _rewrite(function.node, kinds)
        del function.value_info[:]
    _keep_ends(graph, kinds)
    return True


def _kinds(graph: onnx.GraphProto) -> Iterator[int]:
    """Element types of what comes in, goes out, is stored, or is made by a Cast and the like."""
    yield from (value.type.tensor_type.elem_type for value in (*graph.input, *graph.output))
    yield from (tensor.data_type for tensor in tensors(graph))
    for one in graphs(graph):
        yield from (a.i for node in one.node for a in node.attribute if a.name in TYPES)


def _rewrite(nodes: MutableSequence[onnx.NodeProto], kinds: Kinds) -> None:
    """Let results that have a type by an attribute be float32; a Cast rounds, and is followed by one back."""
    made: list[onnx.NodeProto] = []
    for node in nodes:
        made.append(node)
        narrow = [a for a in node.attribute if a.name in TYPES and a.i in kinds]
        if node.op_type == "Cast" and narrow:
            result = node.output[0]
            node.output[0] = result + ROUNDED
            made.append(_cast(result + ROUNDED, FLOAT, result))
            continue
        for attribute in narrow:
            attribute.i = FLOAT
    del nodes[:]
    nodes.extend(made)


def _keep_ends(graph: onnx.GraphProto, kinds: Kinds) -> None:
    """Convert where narrow floats come in and go out."""
    entering = [v for v in graph.input if v.type.tensor_type.elem_type in kinds]
    given = {value.name for value in entering}
    leaving = [
        v for v in graph.output if v.type.tensor_type.elem_type in kinds and v.name not in given
    ]
    _rename(graph, {value.name: value.name + WIDE for value in (*entering, *leaving)})
    nodes = [_cast(v.name, FLOAT, v.name + WIDE) for v in entering]
    nodes += graph.node
    nodes += [_cast(v.name + WIDE, v.type.tensor_type.elem_type, v.name) for v in leaving]
    del graph.node[:]
    graph.node.extend(nodes)


def _cast(source: str, kind: int, result: str) -> onnx.NodeProto:
    return onnx.helper.make_node("Cast", [source], [result], to=kind)


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    """Rename what nodes read and give, those inside too, and what is stored."""
    for one in graphs(graph):
        for node in one.node:
            for ends in (node.input, node.output):
                renamed = [names.get(name, name) for name in ends]
                del ends[:]
                ends.extend(renamed)
        for tensor in one.initializer:
            tensor.name = names.get(tensor.name, tensor.name)
        for value in () if one is graph else one.output:
            value.name = names.get(value.name, value.name)
