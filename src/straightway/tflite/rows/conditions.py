"""What XNNPACK's delegate asks of a written node.

Source: delegates/xnnpack/xnnpack_delegate.cc of LiteRT v2.2.0, lines as given.
"""

from collections.abc import Callable

import numpy as np

from straightway.ir import Node, Value
from straightway.tflite.rows.row import Condition

FLOATS = (np.dtype(np.float32), np.dtype(np.float16))
EIGHT_BITS = (np.dtype(np.int8), np.dtype(np.uint8))
# XNN_MAX_TENSOR_DIMS
MOST_DIMENSIONS = 6


def present(node: Node, position: int) -> Value | None:
    """Return an operand, or None where it is absent."""
    return node.inputs[position] if position < len(node.inputs) else None


def tensors(node: Node, positions: tuple[int, ...]) -> list[Value]:
    """Operands at these positions that are there, and the results."""
    found = [present(node, k) for k in positions]
    return [*(v for v in found if v is not None), *node.outputs]


def per_tensor(value: Value) -> bool:
    """Whether a value is 8-bit with one scale."""
    quant = value.quant
    return value.dtype in EIGHT_BITS and quant is not None and np.size(quant.scale) == 1


def scale_of(value: Value) -> float:
    """The first scale of a quantized value; 0 where there is none."""
    return 0.0 if value.quant is None else float(np.ravel(value.quant.scale)[0])


def quantization(value: Value) -> tuple[float, int] | None:
    """Scale and zero point of a value with one scale, None where there is none."""
    if value.quant is None:
        return None
    return scale_of(value), int(np.ravel(value.quant.zero_point)[0])


def is_float(value: Value) -> bool:
    """Whether a value is float32 or float16."""
    return value.dtype in FLOATS


def floats(*positions: int) -> Condition:
    """CheckTensorFloatType (:2218)."""
    return Condition(
        test=lambda node: all(is_float(v) for v in tensors(node, positions)),
        text="operands and results must be float32 or float16",
    )


def floats_or_8_bit(*positions: int) -> Condition:
    """CheckTensorFloatOrQUInt8Type (:2381), and all of one type."""

    def test(node: Node) -> bool:
        values = tensors(node, positions)
        return len({v.dtype for v in values}) == 1 and all(
            is_float(v) or per_tensor(v) for v in values
        )

    return Condition(
        test=test, text="operands and results must be of one type, float or 8-bit with one scale"
    )


def floats_or_8_bit_each(*positions: int) -> Condition:
    """CheckTensorFloatOrQUInt8Type (:2381), of any types together."""
    return Condition(
        test=lambda node: all(is_float(v) or per_tensor(v) for v in tensors(node, positions)),
        text="operands and results must be float or 8-bit with one scale",
    )


def float32_or_8_bit(*positions: int) -> Condition:
    """CheckTensorFloat32OrQUInt8Type (:2325), and all of one type."""
    float32 = np.dtype(np.float32)

    def test(node: Node) -> bool:
        values = tensors(node, positions)
        return len({v.dtype for v in values}) == 1 and all(
            v.dtype == float32 or per_tensor(v) for v in values
        )

    return Condition(
        test=test, text="operands and results must be of one type, float32 or 8-bit with one scale"
    )


def ranks(*positions: int, least: int = 0, most: int = MOST_DIMENSIONS) -> Condition:
    """CheckTensorShape (:2783)."""

    def test(node: Node) -> bool:
        values = [v for k in positions if (v := present(node, k)) is not None]
        return all(least <= v.rank <= most and 0 not in v.shape for v in values)

    wanted = f"{least} to {most}" if least else f"at most {most}"
    return Condition(test=test, text=f"operands must have {wanted} dimensions and elements")


def constant(position: int, what: str) -> Condition:
    """CheckTensorStaticAllocation (:2961)."""

    def test(node: Node) -> bool:
        value = present(node, position)
        return value is None or value.const is not None

    return Condition(test=test, text=f"{what} must be a constant")


def constant_of(node: Node, position: int) -> np.ndarray | None:
    """The elements of a constant operand, None where it is no constant."""
    value = present(node, position)
    return None if value is None else value.const


def same_quantization(position: int) -> Condition:
    """An operand must have the result's scale and zero point."""

    def test(node: Node) -> bool:
        value = present(node, position)
        return value is not None and quantization(value) == quantization(node.output)

    return Condition(test=test, text="operand and result must have one scale and zero point")


def required(position: int, what: str) -> Condition:
    """An operand must be there."""
    return Condition(
        test=lambda node: present(node, position) is not None, text=f"{what} must be there"
    )


def option(name: str, test: Callable[[int], bool], text: str) -> Condition:
    """Ask something of an option field."""
    return Condition(test=lambda node: test(node.attrs.get(name, 0)), text=text)


def _sum_scales(node: Node) -> bool:
    scales = [scale_of(v) for v in (*node.operands()[:2], node.output)]
    return 0.0 in scales or all(1 / 1024 <= s / scales[-1] < 256 for s in scales[:-1])


def _product_scales(node: Node) -> bool:
    a, b, y = (scale_of(v) for v in (*node.operands()[:2], node.output))
    return 0.0 in (a, b, y) or 1 / 65536 <= a * b / y < 256


# ConvertActivationToOutputRange (:1836): 0 NONE, 1 RELU, 2 RELU_N1_TO_1, 3 RELU6
ACTIVATIONS = option(
    "fusedActivationFunction",
    lambda value: value in (0, 1, 2, 3, "NONE", "RELU", "RELU_N1_TO_1", "RELU6"),
    "the fused activation must be RELU, RELU6 or RELU_N1_TO_1",
)
# VisitBinaryNode (:4279)
SUM_SCALES = Condition(
    test=_sum_scales,
    text="scales of operands must be 1/1024 to 256 times the result's",
)
PRODUCT_SCALES = Condition(
    test=_product_scales, text="the product of the scales must be 1/65536 to 256 times the result's"
)
BINARY_RANKS = ranks(0, 1)
