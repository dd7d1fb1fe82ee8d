"""Functions of one operand, element by element."""

import math
from typing import Any

from straightway.ir import Node
from straightway.tflite.rows import shapes, tables, versions
from straightway.tflite.rows.conditions import (
    floats,
    floats_or_8_bit,
    per_tensor,
    present,
    ranks,
    scale_of,
)
from straightway.tflite.rows.row import Condition, Row, field_, pointwise, types
from straightway.tflite.rows.versions import by_type

ROWS: list[Row] = []
RANKS = ranks(0)
# VisitUnaryNode, delegates/xnnpack/xnnpack_delegate.cc:4478
FLOAT_ONLY = (floats(0), RANKS)
FLOAT_OR_8_BIT = (floats_or_8_bit(0), RANKS)


def _unary(name: str, names: str, kernel: str, **columns: Any) -> None:
    xnnpack = columns.pop("xnnpack", FLOAT_ONLY)
    ROWS.append(pointwise(name, names, kernel, infer=shapes.same, xnnpack=xnnpack, **columns))


_INT8_INT16 = by_type("i8:2 i16:2")
_unary(
    "ABS",
    "f32 i16 i32",
    "kernels/elementwise.cc:309",
    options="AbsOptions",
    quantized="i8 i16",
    quant="free",
    version=versions.ABS,
)
_unary("NEG", "f32 f16 bf16 i8 i16 i32 i64", "kernels/neg.cc:54", options="NegOptions")
_unary(
    "EXP",
    "f32",
    "kernels/exp.cc:97",
    options="ExpOptions",
    quantized="i8 i16",
    quant="free",
    # its curvature is its value, at most the greatest number stored
    table=tables.interpolated(lambda node: 32767 * scale_of(node.output)),
    version=_INT8_INT16,
)
_unary(
    "LOG",
    "f32",
    "kernels/elementwise.cc:362",
    quantized="i8 i16",
    quant="free",
    table=tables.STEEP,
    version=_INT8_INT16,
)
_unary(
    "SQRT",
    "f32",
    "kernels/elementwise.cc:425",
    quantized="i8 i16",
    quant="free",
    version=_INT8_INT16,
)
_unary(
    "RSQRT",
    "f32",
    "kernels/elementwise.cc:495",
    quantized="i8 i16",
    quant="free",
    table=tables.STEEP,
    version=versions.INT8_INT16,
)
_unary("SQUARE", "f32", "kernels/elementwise.cc:510", options="SquareOptions")
_unary("SIN", "f32 f16", "kernels/elementwise.cc:329", version=by_type("f16:2"))
_unary(
    "COS", "f32 f16", "kernels/elementwise.cc:342", options="CosOptions", version=by_type("f16:2")
)
_unary("FLOOR", "f32 f16 bf16", "kernels/floor.cc:47")
_unary("CEIL", "f32", "kernels/ceil.cc:39")
_unary("ROUND", "f32 f16 bf16", "kernels/round.cc:58")
_unary(
    "SIGN",
    "f32 f64 i32",
    "kernels/sign.cc:65",
    options="SignOptions",
    version=by_type("i32:2"),
    xnnpack="XNNPACK's delegate has no SIGN",
)
_unary(
    "LOGICAL_NOT",
    "bool",
    "kernels/elementwise.cc:514",
    options="LogicalNotOptions",
    quant="int",
    xnnpack="XNNPACK's delegate has no LOGICAL_NOT",
)
_unary(
    "LOGISTIC",
    "f32 f16 bf16",
    "kernels/activations.cc:1057",
    quantized="i8 u8 i16",
    quant="fixed:1/256,-128",
    table=tables.always(tables.LOGISTIC),
    version=versions.INT8_INT16,
    xnnpack=FLOAT_OR_8_BIT,
)
_unary(
    "TANH",
    "f32 f16 bf16",
    "kernels/activations.cc:951",
    quantized="i8 u8 i16",
    quant="fixed:1/128,0",
    table=tables.always(tables.TANH),
    version=versions.INT8_INT16,
    xnnpack=FLOAT_OR_8_BIT,
)
_unary(
    "RELU",
    "f32",
    "kernels/activations.cc:766",
    quantized="i8 u8 i16",
    quant="free",
    version=by_type("i16:3 i8:2 u8:2"),
)
_unary(
    "RELU6",
    "f32",
    "kernels/activations.cc:917",
    quantized="i8 u8 i16",
    quant="free",
    version=versions.INT8_INT16,
)
_unary("RELU_N1_TO_1", "f32", "kernels/activations.cc:801", quantized="i8 u8", quant="free")
_unary(
    "RELU_0_TO_1",
    "f32",
    "kernels/activations.cc:887",
    quantized="i8 u8",
    quant="free",
    xnnpack="XNNPACK's delegate has no RELU_0_TO_1",
)
_unary(
    "ELU",
    "f32",
    "kernels/activations.cc:1604",
    quantized="i8",
    quant="free",
    xnnpack=FLOAT_OR_8_BIT,
)
_unary(
    "HARD_SWISH",
    "f32",
    "kernels/activations.cc:833",
    quantized="i8 u8",
    quant="free",
)


def _alpha_is_normal(node: Node) -> bool:
    alpha = abs(float(node.attrs["alpha"]))
    return math.isfinite(alpha) and alpha >= 2.0**-126


def _leaky_scales(node: Node) -> bool:
    x, y = present(node, 0), node.output
    if x is None or not (per_tensor(x) and per_tensor(y)):
        return True
    positive = scale_of(x) / scale_of(y)
    negative = positive * float(node.attrs["alpha"])
    return (
        1 / 256 <= positive <= 128 and -127.99609375 <= negative <= 128 and abs(negative) >= 1 / 256
    )


ROWS += [
    Row(
        name="GELU",
        layout="elementwise",
        infer=shapes.same,
        types=types("f32 f16"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/activations.cc:1671",
        options="GeluOptions",
        attrs={"approximate": field_("approximate")},
        defaults={"approximate": False},
        quant="free",
        # bent most at zero
        table=tables.interpolated(lambda _: 0.8),
        xnnpack=FLOAT_ONLY,
        version=by_type("f16:3 i8:2 u8:2"),
    ),
    Row(
        name="LEAKY_RELU",
        layout="elementwise",
        infer=shapes.same,
        types=types("f32"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/activations.cc:1552",
        options="LeakyReluOptions",
        attrs={"alpha": field_("alpha")},
        quant="free",
        xnnpack=(
            *FLOAT_OR_8_BIT,
            Condition(test=_alpha_is_normal, text="alpha must be a normal number, not 0"),
            Condition(
                test=_leaky_scales,
                text="scales must be 1/256 to 128 times the result's, also with alpha",
            ),
        ),
        version=by_type("i16:2"),
    ),
]
