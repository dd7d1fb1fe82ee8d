"""Conversions of the element type."""

from straightway.ir import Node
from straightway.tflite.rows import shapes, versions
from straightway.tflite.rows.conditions import (
    floats_or_8_bit_each,
    is_float,
    per_tensor,
    ranks,
    scale_of,
)
from straightway.tflite.rows.row import LOGICAL, Condition, Row, types
from straightway.tflite.rows.versions import by_type, highest, per_channel, when


def _requantizes(node: Node) -> bool:
    """Float to anything, 8-bit to the same type with a scale not too far."""
    x, y = node.operands()[0], node.output
    if is_float(x) or not (per_tensor(x) and per_tensor(y)):
        return True
    return x.dtype == y.dtype and 1 / 256 <= scale_of(x) / scale_of(y) <= 128


# how the integers of QUANTIZE's result, or of DEQUANTIZE's operand, are to be read
SCHEME = {"scale": LOGICAL, "zero_point": LOGICAL}
ROWS = [
    Row(
        name="CAST",
        layout="elementwise",
        infer=shapes.cast,
        types=types("f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 bool"),
        kernel="kernels/cast.cc:461",
        options="CastOptions",
        attrs={"dtype": LOGICAL},
        xnnpack="XNNPACK's delegate takes no CAST",
        version=versions.cast,
    ),
    Row(
        name="BITCAST",
        layout="fixed",
        infer=shapes.bitcast,
        types=types("f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool"),
        kernel="kernels/bitcast.cc:36",
        options="BitcastOptions",
        # to a wider type the last dimension vanishes, to a narrower one there is one more
        attrs={"dtype": LOGICAL},
        xnnpack="XNNPACK's delegate takes no BITCAST",
    ),
    Row(
        name="QUANTIZE",
        layout="elementwise",
        infer=shapes.cast,
        types=types("f32"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/quantize.cc:171",
        options="QuantizeOptions",
        attrs={"dtype": LOGICAL, **SCHEME},
        quant="free",
        # VisitUnaryNode, delegates/xnnpack/xnnpack_delegate.cc:4568
        xnnpack=(
            floats_or_8_bit_each(0),
            ranks(0),
            Condition(
                test=_requantizes,
                text="8-bit to 8-bit must keep the type, with scales 1/256 to 128 times the result's",
            ),
        ),
        version=highest(
            when(lambda node: per_channel(node, 0), 3),
            when(lambda node: node.output.dtype == "int16", 2),
        ),
    ),
    Row(
        name="DEQUANTIZE",
        layout="elementwise",
        infer=shapes.dequantized,
        types=types("f16"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/dequantize.cc:60",
        options="DequantizeOptions",
        attrs=SCHEME,
        quant="free",
        # VisitUnaryNode, delegates/xnnpack/xnnpack_delegate.cc:4524
        xnnpack=(
            Condition(
                test=lambda node: per_tensor(node.operands()[0]),
                text="the operand must be 8-bit with one scale",
            ),
            ranks(0),
        ),
        version=highest(when(lambda node: per_channel(node, 0), 5), by_type("i16:3 f16:3 i8:2")),
    ),
]
