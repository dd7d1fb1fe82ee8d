"""What a node is given, under the names of ONNX's schema: attribute or constant operand alike."""

import math
from typing import Any

import numpy as np

from straightway.ir import Node, Op, Value
from straightway.onnx_io.schema import schema


class RuntimeOperandError(ValueError):
    """An operand that had to be known is computed at run time."""


def onnx_op(name: str, version: int) -> Op:
    """Return ONNX's operator as it is since opset `version`."""
    return Op(dialect="onnx", name=name, version=version)


def is_onnx(node: Node, *names: str) -> bool:
    """Whether the node is one of these official operators."""
    return node.op.name in names and node.op.dialect == "onnx"


def operand(node: Node, name: str) -> Value | None:
    """Return the operand that the schema calls `name`, or None where it is absent."""
    official = schema(node.op)
    if official is None or name not in official.inputs:
        return None
    index = official.inputs.index(name)
    return node.inputs[index] if index < len(node.inputs) else None


def argument(node: Node, name: str, default: Any = None) -> Any:
    """Return attribute or constant operand `name`, its default by the schema, or `default`.

    So `axes` and `pads`, attributes once and operands now, read the same in every opset. Raises
    RuntimeOperandError where the operand is no constant.
    """
    if name in node.attrs:
        return node.attrs[name]
    value = operand(node, name)
    if value is not None:
        if value.const is None:
            raise RuntimeOperandError(f"{node}: operand '{name}' is computed at run time")
        return value.const
    official = schema(node.op)
    known = official.defaults.get(name) if official is not None else None
    return default if known is None else known


def integers(value: Any) -> tuple[int, ...] | None:
    """Turn an argument into a tuple of Python integers; None stays None."""
    if value is None:
        return None
    return tuple(int(v) for v in np.asarray(value).reshape(-1).tolist())


def axes_of(node: Node, rank: int) -> tuple[int, ...] | None:
    """Return the sorted, non-negative axes that the node names, or None where it names none."""
    found = integers(argument(node, "axes"))
    return None if found is None else tuple(sorted(axis % rank for axis in found))


def number(value: Any) -> float | None:
    """Turn an argument that holds one number into it; None where it is absent or holds more."""
    if value is None:
        return None
    array = np.asarray(value)
    return float(array.reshape(-1)[0]) if array.size == 1 else None


def clip_limits(node: Node) -> tuple[float, float]:
    """Between which numbers a Clip keeps its operand: infinite where there is no bound, or the type's own.

    What holds more or less than one number is no bound, but NaN. Raises RuntimeOperandError.
    """
    low, high = argument(node, "min", -math.inf), argument(node, "max", math.inf)
    return _bound(node, low), _bound(node, high)


def _bound(node: Node, value: Any) -> float:
    found = number(value)
    if found is None:
        return math.nan
    dtype = node.outputs[0].dtype
    largest = float(np.finfo(dtype).max) if dtype.kind == "f" else math.inf
    return math.copysign(math.inf, found) if abs(found) >= largest else found
