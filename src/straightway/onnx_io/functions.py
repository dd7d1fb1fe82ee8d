"""ONNX defines many operators by a function of simpler ones: their bodies, for one node."""

from collections.abc import Mapping
from typing import Any

import onnx
import onnx.defs
import onnx.helper
import onnx_ir

from straightway.ir import Node, Value
from straightway.onnx_io.schema import official, to_proto, type_proto, value_info


def body(node: Node, opsets: Mapping[str, int]) -> onnx_ir.Model | None:
    """The function that defines a node's operator at its types, as a model of its own; else None.

    Its opsets are its own, and the model's where it names none. Its inputs and outputs stand in the order of the operator's; an absent operand is no input, and
    the node's attributes are filled in.
    """
    function = _function(node)
    if function is None or len(node.inputs) > len(function.input):
        return None
    operands = [*node.inputs, *[None] * (len(function.input) - len(node.inputs))]
    present = {n: v for n, v in zip(function.input, operands, strict=True) if v is not None}
    absent = set(function.input) - set(present)
    graph = onnx.GraphProto(name=f"{node.op.name}_body")
    graph.node.extend(_bound(n, _attributes(function, node), absent) for n in function.node)
    graph.input.extend(_input(name, value) for name, value in present.items())
    graph.output.extend(onnx.ValueInfoProto(name=n) for n in function.output[: len(node.outputs)])
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph)
    model.opset_import.extend(function.opset_import)
    named = {entry.domain for entry in function.opset_import}
    model.opset_import.extend(
        onnx.helper.make_opsetid(domain, version)
        for domain, version in opsets.items()
        if domain not in named
    )
    return onnx_ir.from_proto(model)


def _function(node: Node) -> onnx.FunctionProto | None:
    found: Any = official(node.op)  # onnx types no functions in its stubs
    if found is None or any(v.type is None for v in node.operands()):
        return None
    version = node.op.version
    if found.has_function:
        known = _newest(found.function_opset_versions, version)
        return _parsed(found.get_function_with_opset_version(known))
    if found.has_context_dependent_function:
        known = _newest(found.context_dependent_function_opset_versions, version)
        types = [b"" if v is None else _type(v) for v in node.inputs]
        data = to_proto(node).SerializeToString()
        return _parsed(found.get_context_dependent_function_with_opset_version(known, data, types))
    return None


def _newest(versions: list[int], most: int) -> int:
    fitting = [v for v in versions if v <= most]
    return max(fitting) if fitting else min(versions)


def _parsed(function: Any) -> onnx.FunctionProto | None:
    if not function:
        return None
    parsed = onnx.FunctionProto()
    if isinstance(function, bytes):
        parsed.ParseFromString(function)
    else:
        parsed.CopyFrom(function)
    return parsed


def _type(value: Value) -> bytes:
    if value.type is None:
        return b""
    return bytes(type_proto(value.type).SerializeToString())


def _input(name: str, value: Value) -> onnx.ValueInfoProto:
    info = value_info(value)
    info.name = name
    return info


def _attributes(function: onnx.FunctionProto, node: Node) -> dict[str, onnx.AttributeProto]:
    """The node's attributes, the operator's defaults behind them, the function's last."""
    found = {attr.name: attr for attr in function.attribute_proto}
    schema = official(node.op)
    if schema is not None:
        for name, attr in schema.attributes.items():
            if attr.default_value.name:
                found[name] = attr.default_value
    found |= {attr.name: attr for attr in to_proto(node).attribute}
    return found


def _bound(
    node: onnx.NodeProto, attributes: dict[str, onnx.AttributeProto], absent: set[str]
) -> onnx.NodeProto:
    """Fill in references to the function's attributes, and blank operands that were not given."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for attr in node.attribute:
        if attr.ref_attr_name:
            if attr.ref_attr_name in attributes:
                value = made.attribute.add()
                value.CopyFrom(attributes[attr.ref_attr_name])
                value.name = attr.name
            continue
        value = made.attribute.add()
        value.CopyFrom(attr)
        if attr.HasField("g"):
            inner = [_bound(n, attributes, absent) for n in attr.g.node]
            del value.g.node[:]
            value.g.node.extend(inner)
    for index, name in enumerate(made.input):
        if name in absent:
            made.input[index] = ""
    return made
