"""Nodes that multiply by constants and add constants, channel by channel: y = scale·x + offset."""

from dataclasses import dataclass

import numpy as np

from straightway.ir import Node, Value
from straightway.passes.arguments import argument, is_onnx
from straightway.passes.types import same_type

ARITHMETIC = ("Add", "Sub", "Mul", "Div")


@dataclass(frozen=True, slots=True, kw_only=True)
class Channelwise:
    """scale·operand + offset; both of float64, with one number, or one for each index of the axis."""

    operand: Value
    scale: np.ndarray
    offset: np.ndarray

    def over(self, channels: int) -> "Channelwise":
        """The same with numbers for so many channels, where it has one for all."""
        return Channelwise(
            operand=self.operand,
            scale=np.broadcast_to(self.scale, (channels,)),
            offset=np.broadcast_to(self.offset, (channels,)),
        )

    def without_offset(self) -> "Channelwise":
        """The scale alone."""
        zero = np.zeros(self.offset.shape)
        return Channelwise(operand=self.operand, scale=self.scale, offset=zero)

    @property
    def scales(self) -> bool:
        """Whether it multiplies by anything but 1."""
        return bool(np.any(self.scale != 1))

    @property
    def shifts(self) -> bool:
        """Whether it adds anything but 0."""
        return bool(np.any(self.offset != 0))


def read_arithmetic(node: Node, axis: int | None) -> Channelwise | None:
    """Read Neg, or Add, Sub, Mul or Div with a constant that varies along `axis` only, if at all.

    The constant is aligned from the last dimension back, as ONNX broadcasts, and must not widen the
    other operand: sizes alone never say which axis is meant. Without axis it must be one number.
    """
    if is_onnx(node, "Neg"):
        value = node.inputs[0]
        if value is None or value.type is None or not is_floating(value):
            return None
        return Channelwise(operand=value, scale=-np.ones(1), offset=np.zeros(1))
    if not is_onnx(node, *ARITHMETIC) or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    for value, other in ((first, second), (second, first)):
        if value is None or other is None or other.const is None or value.const is not None:
            continue
        numbers = _along(other.const, value, axis) if same_type(value, node.output) else None
        if numbers is not None:
            return _read(node.op.name, value, numbers, constant_first=other is first)
    return None


def _along(constant: np.ndarray, value: Value, axis: int | None) -> np.ndarray | None:
    """One float64 number, or one for each index of the axis; None where the constant is otherwise."""
    rank = value.rank
    if constant.ndim > rank or not is_floating(value):
        return None
    numbers = constant.reshape(-1).astype(np.float64)
    if numbers.size == 1:
        return numbers
    shape = (1,) * (rank - constant.ndim) + constant.shape
    if axis is None or any(size != 1 for place, size in enumerate(shape) if place != axis):
        return None
    return numbers if numbers.size == value.shape[axis] else None


def is_floating(value: Value) -> bool:
    """Whether the elements are floating point numbers, bfloat16 among them."""
    return value.dtype.kind == "f" or value.dtype.name == "bfloat16"


def _read(
    name: str, value: Value, numbers: np.ndarray, *, constant_first: bool
) -> Channelwise | None:
    one, zero = np.ones(numbers.size), np.zeros(numbers.size)
    if name == "Add":
        scale, offset = one, numbers
    elif name == "Mul":
        scale, offset = numbers, zero
    elif name == "Sub":
        scale, offset = (-one, numbers) if constant_first else (one, -numbers)
    elif constant_first or not np.all(numbers):
        return None
    else:
        scale, offset = 1 / numbers, zero
    if not np.all(np.isfinite(scale)) or not np.all(np.isfinite(offset)):
        return None
    return Channelwise(operand=value, scale=scale, offset=offset)


def read_normalization(node: Node) -> Channelwise | str:
    """Read a BatchNormalization at inference, along axis 1, or say why it is none."""
    if _trains(node):
        return "it is in training mode"
    if argument(node, "spatial") == 0:
        return "it normalises each place by itself (spatial=0)"
    if any(value.uses for value in node.outputs[1:]):
        return "its running statistics are used"
    value, *parameters = node.inputs
    arrays = [p.const for p in parameters if p is not None and p.const is not None]
    if value is None or value.type is None or len(arrays) != 4:
        return "its parameters are computed at run time"
    channels = value.type.shape[1] if value.type.rank > 1 else -1
    if any(array.size != channels for array in arrays):
        return f"its parameters do not have the {channels} numbers of axis 1"
    gamma, beta, mean, variance = (array.reshape(-1).astype(np.float64) for array in arrays)
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + float(argument(node, "epsilon")))
        offset = beta - mean * scale
    if not (np.all(np.isfinite(scale)) and np.all(np.isfinite(offset))):
        return "its variance is not positive"
    return Channelwise(operand=value, scale=scale, offset=offset)


def _trains(node: Node) -> bool:
    """Before opset 7 `is_test` says so, since 14 `training_mode`."""
    if node.op.version < 7:
        return not argument(node, "is_test")
    return bool(argument(node, "training_mode", 0))
