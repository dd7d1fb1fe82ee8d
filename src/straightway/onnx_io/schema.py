"""ONNX's official schemas: what an operator's operands and attributes are called, and what it gives."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.checker
import onnx.defs
import onnx.helper
import onnx.numpy_helper
import onnx.shape_inference

from straightway.ir import Graph, Node, Op, TensorType, Value
from straightway.onnx_io import guard

DOMAINS = {"onnx": "", "ai.onnx.ml": "ai.onnx.ml"}
NEWEST_OPSET = onnx.defs.onnx_opset_version()
# Values that shape functions read are shapes, axes, pads, scales: few elements.
MOST_SHAPE_ELEMENTS = 1024
# Operators whose own shape functions are wrong or absent, and the version whose function is right. The
# older ones of pools count, with ceil_mode, a last window that starts behind the input, which neither
# the operator's text nor a runtime does; those of trees say nothing before version 3 and since 5;
# those before opset 11 take negative axes for positions.
SHAPED_BY: dict[tuple[str, str], Callable[[int], int]] = {
    ("onnx", "AveragePool"): lambda _: NEWEST_OPSET,
    ("onnx", "LpPool"): lambda _: NEWEST_OPSET,
    ("onnx", "MaxPool"): lambda _: NEWEST_OPSET,
    ("onnx", "Squeeze"): lambda version: max(version, 11),
    ("onnx", "Unsqueeze"): lambda version: max(version, 11),
    ("ai.onnx.ml", "TreeEnsembleClassifier"): lambda _: 3,
    ("ai.onnx.ml", "TreeEnsembleRegressor"): lambda _: 3,
}
# Operators of other domains whose result is shaped as that of one of ONNX's, of so many operands.
SHAPED_AS = {("com.microsoft", "FusedConv"): ("Conv", 3)}
# Attributes whose default the operator's shape function does not know (onnx/defs/math/defs.cc).
FORGOTTEN_DEFAULTS = {"STFT": ("onesided", 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Operand names in order, attribute defaults (None: required or absent), and arity.

    `operand_types` names each operand's type: a key of `types`, which has what may stand for it, or
    a type itself.
    """

    op: str
    since: int
    inputs: tuple[str, ...]
    least_inputs: int
    variadic: bool
    outputs: tuple[str, ...]
    defaults: dict[str, Any]
    required: frozenset[str]
    removed: bool = False
    operand_types: tuple[str, ...] = ()
    types: Mapping[str, tuple[np.dtype, ...]] = field(default_factory=dict)


@cache
def schema(op: Op) -> Schema | None:
    """Return the schema that holds at the opset `op.version`, or None for an unknown operator."""
    found = official(op)
    if found is None:
        return None
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    defaults = {
        name: plain(attr.default_value) if attr.default_value.name else None
        for name, attr in found.attributes.items()
    }
    return Schema(
        op=found.name,
        since=found.since_version,
        inputs=tuple(i.name for i in found.inputs),
        least_inputs=found.min_input,
        variadic=bool(found.inputs) and found.inputs[-1].option == variadic,
        outputs=tuple(o.name for o in found.outputs),
        defaults=defaults,
        required=frozenset(name for name, attr in found.attributes.items() if attr.required),
        removed=bool(found.deprecated) and not is_function(found),
        operand_types=tuple(i.type_str for i in found.inputs),
        types={
            one.type_param_str: tuple(_dtypes(one.allowed_type_strs))
            for one in found.type_constraints
        },
    )


def _dtypes(names: Sequence[str]) -> Iterator[np.dtype]:
    """Of names like "tensor(float16)", those that numpy has."""
    for name in names:
        kind, _, element = name.rstrip(")").partition("(")
        number = dict(onnx.TensorProto.DataType.items()).get(element.upper())
        if kind == "tensor" and number is not None and number != onnx.TensorProto.STRING:
            yield element_dtype(number)


@cache
def history(op: Op) -> tuple[Schema, ...]:
    """The schemas that an operator has had, oldest first; none where it is not ONNX's."""
    domain = DOMAINS.get(op.dialect, op.dialect)
    versions = [
        found.since_version
        for found in onnx.defs.get_all_schemas_with_history()
        if (found.domain, found.name) == (domain, op.name)
    ]
    found = [schema(replace(op, version=version)) for version in sorted(versions)]
    return tuple(one for one in found if one is not None)


@cache
def official(op: Op) -> onnx.defs.OpSchema | None:
    """ONNX's own schema object."""
    domain = DOMAINS.get(op.dialect, op.dialect)
    try:
        return onnx.defs.get_schema(op.name, max(op.version, 1), domain)
    except onnx.defs.SchemaError:
        return None


def is_function(found: Any) -> bool:  # onnx types no functions in its stubs
    """Whether ONNX defines the operator by simpler ones."""
    return bool(found.has_function or found.has_context_dependent_function)


def check_present(op: Op, present: Sequence[bool]) -> None:
    """Raise ValueError where an operand is absent that the operator must have."""
    found = official(op)
    formal = found.inputs if found is not None else ()
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    for position, here in enumerate(present):
        if not here and formal:
            parameter = formal[min(position, len(formal) - 1)]
            if parameter.option != optional:
                raise ValueError(f"operand {position}, '{parameter.name}', may not be absent")


def plain(attribute: onnx.AttributeProto) -> Any:
    """Turn an attribute into plain Python: numbers, strings, tuples of them, arrays."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, (int, float, str)):
        return value
    return tuple(v.decode(errors="replace") if isinstance(v, bytes) else v for v in value)


def infer_types(node: Node, opsets: dict[str, int]) -> list[TensorType | None]:
    """Infer the result types of one node by ONNX's own shape functions.

    Constant operands of up to 1,024 elements are shown to the shape function. Raises ValueError with
    ONNX's message where the operands contradict the operator.
    """
    choose = SHAPED_BY.get((node.op.dialect, node.op.name))
    version = choose(node.op.version) if choose is not None else node.op.version
    like, count = SHAPED_AS.get((node.op.dialect, node.op.name), ("", len(node.inputs)))
    found = official(
        replace(node.op, dialect="onnx", name=like, version=opsets.get("", NEWEST_OPSET))
        if like
        else replace(node.op, version=version)
    )
    if found is None or (found.deprecated and is_function(found)):  # what it means is still known
        guard.check_attributes(node)
        return [None] * len(node.outputs)
    guard.check(node)
    proto = to_proto(node)
    if like:
        proto.op_type, proto.domain = like, ""
        del proto.input[count:]
        own = [one for one in proto.attribute if one.name in found.attributes]
        del proto.attribute[:]
        proto.attribute.extend(own)
    name, default = FORGOTTEN_DEFAULTS.get(node.op.name, ("", 0))
    if name and name not in node.attrs:
        proto.attribute.append(_attribute(name, default))
    types = {v.name: type_proto(v.type) for v in node.operands() if v.type is not None}
    data = {
        v.name: onnx.numpy_helper.from_array(np.asarray(v.const, order="C"), v.name)
        for v in node.operands()
        if v.const is not None and v.const.size <= MOST_SHAPE_ELEMENTS and v.const.dtype != object
    }
    imports = [onnx.helper.make_opsetid(DOMAINS.get(d, d), v) for d, v in opsets.items()]
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            found, proto, types, data, opset_imports=imports
        )
    except (
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        RuntimeError,
        IndexError,  # what C++ raises past the end of a vector
    ) as error:
        raise ValueError(str(error).strip()) from error
    return [_tensor_type(inferred.get(v.name)) for v in node.outputs]


def to_proto(node: Node) -> onnx.NodeProto:
    """Write one node as ONNX has it."""
    proto = onnx.NodeProto(op_type=node.op.name, name=node.name)
    proto.domain = DOMAINS.get(node.op.dialect, node.op.dialect)
    proto.input.extend("" if v is None else v.name for v in node.inputs)
    proto.output.extend(v.name for v in node.outputs)
    for key, value in node.attrs.items():
        proto.attribute.append(_attribute(key, value))
    return proto


def graph_proto(graph: Graph) -> onnx.GraphProto:
    """Write a graph inside a node; what it reads of the graph around it goes by its name."""
    proto = onnx.GraphProto(name=graph.name or "graph")
    proto.input.extend(value_info(value) for value in graph.inputs)
    proto.output.extend(value_info(value) for value in graph.outputs)
    proto.node.extend(to_proto(node) for node in graph.nodes)
    read = [value for node in graph.nodes for value in node.operands()]
    constants = {v.name: v.const for v in (*read, *graph.outputs) if v.const is not None}
    proto.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in constants.items()
    )
    return proto


def value_info(value: Value) -> onnx.ValueInfoProto:
    """Write a value's name and type."""
    info = onnx.ValueInfoProto(name=value.name)
    if value.type is not None:
        info.type.CopyFrom(type_proto(value.type))
    return info


def _attribute(key: str, value: Any) -> onnx.AttributeProto:
    if isinstance(value, Graph):
        value = graph_proto(value)
    if isinstance(value, np.ndarray):
        value = onnx.numpy_helper.from_array(value)
    if isinstance(value, tuple) and not value:
        return onnx.helper.make_attribute(key, value, attr_type=onnx.AttributeProto.INTS)
    return onnx.helper.make_attribute(key, value)


def type_proto(kind: TensorType) -> onnx.TypeProto:
    """Write a type as ONNX has it."""
    element = onnx.helper.np_dtype_to_tensor_dtype(kind.dtype)
    return onnx.helper.make_tensor_type_proto(element, _dims(kind))


def _dims(kind: TensorType) -> list[int | str | None]:
    # make_tensor_type_proto takes None for an unknown dimension and 0 for an empty one
    return [d if d != "" else None for d in kind.shape]


def _tensor_type(proto: onnx.TypeProto | None) -> TensorType | None:
    if proto is None or not proto.HasField("tensor_type"):
        return None
    tensor = proto.tensor_type
    if not tensor.HasField("shape") or not tensor.elem_type:
        return None
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim
    )
    return TensorType(dtype=element_dtype(tensor.elem_type), shape=shape)


def element_dtype(element: int) -> np.dtype:
    """Return numpy's type for ONNX's element type number."""
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element))
