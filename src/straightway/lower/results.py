"""What a declaration gives, where ONNX's shape functions don't say it: found by lowering the node.

onnxruntime's optimiser writes operators of its own, often without the types of their results.
"""

from dataclasses import replace

import ml_dtypes
import numpy as np

from straightway.errors import InvalidModel, Unsupported
from straightway.ir import Graph, Node, TensorType, Value
from straightway.lower.bind import bind, check
from straightway.lower.builder import Builder
from straightway.lower.declare import LOWERINGS, Lowering, given
from straightway.onnx_io.schema import schema
from straightway.passes.types import Kinds, unknown

FLOAT = np.dtype(np.float32)
# a result's type that is not known: no size can be asked of it
OPEN = TensorType(dtype=np.dtype(object), shape=("",))
# what passes.widen has computed in float32
WIDENED = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float64))


def result_types(node: Node, *, refuse: bool = False) -> Kinds:
    """The types of a node's results; None for those of what is not lowered, or is of open shape.

    With `refuse`, raises what its lowering raises.
    """
    lowering = LOWERINGS.get((node.op.dialect, node.op.name))
    operands = node.operands()
    if node.op.dialect == "onnx" and schema(node.op) is not None:  # it depends on the data
        return unknown(node)
    if lowering is None or not all(v.type is not None and v.type.is_static for v in operands):
        return unknown(node)
    narrow = next((v.dtype for v in operands if v.dtype in WIDENED), FLOAT)
    try:
        found = _lowered(lowering, node)
    except (Unsupported, InvalidModel):
        if refuse:
            raise
        return unknown(node)
    except ValueError:  # it asks for the sizes that are wanted here
        return unknown(node)
    kinds = [None if value is None else _narrowed(value.known_type, narrow) for value in found]
    return [*kinds, *[None] * len(node.outputs)][: len(node.outputs)]


def _lowered(lowering: Lowering, node: Node) -> list[Value | None]:
    """What the declaration makes of copies of the operands, in a graph of its own."""
    operands = [None if v is None else _copy(v) for v in node.inputs]
    arguments = bind(lowering, node, operands)
    if "out" in arguments:
        arguments["out"] = [value.type or OPEN for value in node.outputs]
    check(lowering.needs, arguments)
    builder = Builder(Graph(name="types"))
    builder.node = node.name
    positional, keywords = given(lowering, arguments)
    result = lowering.function(builder, *positional, **keywords)
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _copy(value: Value) -> Value:
    """An operand in the type that it is computed in."""
    kind = value.known_type
    if kind.dtype in WIDENED:
        const = None if value.const is None else np.asarray(value.const).astype(FLOAT)
        return Value(value.name, replace(kind, dtype=FLOAT), const)
    return Value(value.name, kind, value.const)


def _narrowed(kind: TensorType, dtype: np.dtype) -> TensorType:
    """The type in the model of what is computed in float32."""
    return replace(kind, dtype=dtype) if kind.dtype == FLOAT else kind
