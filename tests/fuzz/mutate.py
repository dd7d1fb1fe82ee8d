"""Small damage to an ONNX model, drawn from a seeded generator."""

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WHOLE = [-(2**63), -(2**31), -100, -2, -1, 0, 1, 2, 3, 4, 5, 7, 8, 100, 2**31, 2**63 - 1]
REAL = [float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 0.5, 1.0, 1e-30, 1e30]
SIZES = [-1, 0, 1, 1, 2, 3, 4, 5, 7, 8, 64, 2**20, 2**40]
ELEMENTS = [*range(1, 17), 17, 21, 22, 99]
WORDS = [b"", b"SAME_UPPER", b"VALID", b"linear", b"cubic", b"reflect", b"\xff\xfe", b"ab,bc->ac"]
OPS = [
    "Add", "Concat", "Conv", "Gather", "Gemm", "MatMul", "Relu", "Reshape", "Resize", "Slice",
    "Softmax", "Split", "Squeeze", "Transpose", "Where", "Pad", "ReduceMean", "Identity",
    "LayerNormalization", "Expand", "Tile", "TopK", "LSTM", "If", "Loop", "Nonsense", "",
]  # fmt: skip
MOST_DAMAGES = 3
UNDECLARED = 0.6
BROKEN_BYTES = 0.03


def mutated(model: onnx.ModelProto, rng: random.Random) -> bytes:
    """The bytes of a damaged copy."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    if rng.random() < UNDECLARED:  # else most damage contradicts what the outputs declare
        for value in made.graph.output:
            if value.type.tensor_type.HasField("shape"):
                value.type.tensor_type.ClearField("shape")
    for _ in range(rng.randint(1, MOST_DAMAGES)):
        rng.choice(DAMAGES)(made, rng)
    data = bytearray(made.SerializeToString())
    if rng.random() < BROKEN_BYTES:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _node(model: onnx.ModelProto, rng: random.Random) -> onnx.NodeProto | None:
    return rng.choice(model.graph.node) if model.graph.node else None


def _names(model: onnx.ModelProto) -> list[str]:
    graph = model.graph
    return [
        *(v.name for v in graph.input),
        *(t.name for t in graph.initializer),
        *(name for node in graph.node for name in node.output),
        "",
    ]


def attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another value of the same kind, or one more or less in a list."""
    node = _node(model, rng)
    if node is None or not node.attribute:
        return
    one = rng.choice(node.attribute)
    kind = onnx.AttributeProto
    if one.type == kind.INT:
        one.i = rng.choice(WHOLE)
    elif one.type == kind.FLOAT:
        one.f = rng.choice(REAL)
    elif one.type == kind.STRING:
        one.s = rng.choice(WORDS)
    elif one.type == kind.INTS:
        _list(one.ints, WHOLE, rng)
    elif one.type == kind.FLOATS:
        _list(one.floats, REAL, rng)
    elif one.type == kind.TENSOR:
        _tensor(one.t, rng)


def _list(values: list, choices: list, rng: random.Random) -> None:
    action = rng.randrange(3)
    if action == 0 and values:
        values[rng.randrange(len(values))] = rng.choice(choices)
    elif action == 1 and values:
        del values[rng.randrange(len(values))]
    else:
        values.append(rng.choice(choices))


def attribute_kind(model: onnx.ModelProto, rng: random.Random) -> None:
    """An attribute gone, of another kind, or one that the operator does not have."""
    node = _node(model, rng)
    if node is None:
        return
    if node.attribute and rng.random() < 0.7:
        place = rng.randrange(len(node.attribute))
        name = node.attribute[place].name
        del node.attribute[place]
        if rng.random() < 0.4:
            return
    else:
        name = rng.choice(["axis", "axes", "pads", "strides", "perm", "mode", "to", "bogus"])
    value = rng.choice([1, 1.5, "word", [1, 2], [0.5], np.ones(2, np.float32)])
    if isinstance(value, np.ndarray):
        value = numpy_helper.from_array(value)
    node.attribute.append(helper.make_attribute(name, value))


def operands(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another operand, one more, one less, none, or two swapped."""
    node = _node(model, rng)
    if node is None:
        return
    names, action = _names(model), rng.randrange(4)
    if action == 0 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(names)
    elif action == 1 and node.input:
        del node.input[rng.randrange(len(node.input))]
    elif action == 2 and len(node.input) > 1:
        a, b = rng.sample(range(len(node.input)), 2)
        node.input[a], node.input[b] = node.input[b], node.input[a]
    else:
        node.input.append(rng.choice(names))


def results(model: onnx.ModelProto, rng: random.Random) -> None:
    """A result more, less, or under another name."""
    node = _node(model, rng)
    if node is None:
        return
    action = rng.randrange(3)
    if action == 0 and node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice([*_names(model), "fresh"])
    elif action == 1 and node.output:
        del node.output[rng.randrange(len(node.output))]
    else:
        node.output.append(rng.choice(["more", ""]))


def operator(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another operator, or one of another domain."""
    node = _node(model, rng)
    if node is not None and rng.random() < 0.8:
        node.op_type = rng.choice(OPS)
    elif node is not None:
        node.domain = rng.choice(["com.microsoft", "ai.onnx.ml", "nowhere", "ai.onnx"])


def nodes(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node gone, there twice, or at another place."""
    graph = model.graph
    if not graph.node:
        return
    place = rng.randrange(len(graph.node))
    copy = onnx.NodeProto()
    copy.CopyFrom(graph.node[place])
    action = rng.randrange(3)
    if action != 1:
        del graph.node[place]
    if action == 1:
        for k, name in enumerate(copy.output):
            copy.output[k] = f"{name}_again"
    if action:
        graph.node.append(copy)


def constant(model: onnx.ModelProto, rng: random.Random) -> None:
    """Other numbers, dimensions or bytes in an initializer."""
    if model.graph.initializer:
        _tensor(rng.choice(model.graph.initializer), rng)


def _tensor(tensor: TensorProto, rng: random.Random) -> None:
    action = rng.randrange(4)
    if action == 0:
        dims = list(tensor.dims)
        _list(dims, SIZES, rng)
        tensor.ClearField("dims")
        tensor.dims.extend(dims)
    elif action == 1:
        tensor.data_type = rng.choice(ELEMENTS)
    elif action == 2 and tensor.raw_data:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
    else:
        _numbers(tensor, rng)


def _numbers(tensor: TensorProto, rng: random.Random) -> None:
    """Same type and shape, one number or all changed; or a shape of its own."""
    try:
        array = numpy_helper.to_array(tensor).copy()
    except (ValueError, TypeError, KeyError):
        return
    if array.dtype.kind not in "iuf":
        return
    if rng.random() < 0.3:
        array = np.resize(array, [rng.choice([0, 1, 2, 3, 5]) for _ in range(rng.randint(0, 4))])
    choices = REAL if array.dtype.kind == "f" else [w for w in WHOLE if _holds(array.dtype, w)]
    if array.size:
        array.reshape(-1)[rng.randrange(array.size)] = rng.choice(choices)
    with np.errstate(all="ignore"):
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _holds(dtype: np.dtype, number: int) -> bool:
    return np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


def declared(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another shape or type of an input or an output."""
    graph = model.graph
    values = graph.input if rng.random() < 0.8 else graph.output
    if not values:
        return
    kind = rng.choice(values).type.tensor_type
    action = rng.randrange(4)
    if action == 0:
        kind.elem_type = rng.choice(ELEMENTS)
    elif action == 1 and kind.shape.dim:
        kind.shape.dim[rng.randrange(len(kind.shape.dim))].dim_value = rng.choice(SIZES)
    elif action == 2 and kind.shape.dim:
        del kind.shape.dim[rng.randrange(len(kind.shape.dim))]
    else:
        kind.shape.dim.add().dim_value = rng.choice(SIZES)


def opened(model: onnx.ModelProto, rng: random.Random) -> None:
    """A dimension of an input is known when the model runs, with a name or without."""
    if not model.graph.input:
        return
    dims = rng.choice(model.graph.input).type.tensor_type.shape.dim
    if dims:
        rng.choice(dims).dim_param = rng.choice(["N", "N", "M", ""])


def role(model: onnx.ModelProto, rng: random.Random) -> None:
    """A constant becomes an input, an input a constant, an inner value an output."""
    graph, action = model.graph, rng.randrange(3)
    if action == 0 and graph.initializer:
        place = rng.randrange(len(graph.initializer))
        tensor = graph.initializer[place]
        made = helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
        del graph.initializer[place]
        graph.input.append(made)
    elif action == 1 and graph.input:
        place = rng.randrange(len(graph.input))
        value = graph.input[place]
        shape = [min(max(d.dim_value, 0), 64) for d in value.type.tensor_type.shape.dim]
        numbers = np.random.default_rng(rng.randrange(2**32)).normal(0, 1, shape)
        dtype = np.float32 if value.type.tensor_type.elem_type == 1 else np.int64
        graph.initializer.append(numpy_helper.from_array(numbers.astype(dtype), value.name))
        del graph.input[place]
    else:
        graph.output.append(onnx.ValueInfoProto(name=rng.choice(_names(model))))


def version(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another opset."""
    if model.opset_import:
        rng.choice(model.opset_import).version = rng.randint(1, 28)


DAMAGES: list[Callable[[onnx.ModelProto, random.Random], None]] = [
    attribute, attribute, attribute_kind, operands, operands, results, operator, nodes,
    constant, constant, declared, declared, opened, opened, role, version,
]  # fmt: skip
