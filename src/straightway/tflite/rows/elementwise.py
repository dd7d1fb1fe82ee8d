"""Ops that work element by element."""

from typing import Any

from straightway.tflite.rows import shapes, versions
from straightway.tflite.rows.conditions import (
    ACTIVATIONS,
    BINARY_RANKS,
    PRODUCT_SCALES,
    SUM_SCALES,
    constant,
    floats,
    floats_or_8_bit,
)
from straightway.tflite.rows.row import ACTIVATION, Condition, Row, field_, pointwise, types
from straightway.tflite.rows.versions import Version, by_type

ROWS: list[Row] = []
FLOAT_OR_8_BIT = (floats_or_8_bit(0, 1), BINARY_RANKS, ACTIVATIONS)
FLOAT_ONLY = (floats(0, 1), BINARY_RANKS)


# int16 scales that need not be powers of two, against the schema's default
ANY_SCALE = field_("potScaleInt16")


def _arithmetic(
    name: str, names: str, kernel: str, version: Version, xnnpack: tuple[Condition, ...]
) -> None:
    sums = name in ("ADD", "SUB")
    ROWS.append(
        pointwise(
            name,
            names,
            kernel,
            infer=shapes.broadcast,
            quantized="i8 u8 i16",
            options=f"{name.capitalize()}Options",
            attrs={"activation": ACTIVATION, **({"pot_scale": ANY_SCALE} if sums else {})},
            defaults={"activation": "NONE", **({"pot_scale": False} if sums else {})},
            quant="free",
            xnnpack=xnnpack,
            version=version,
            fuses=True,
        )
    )


_arithmetic(
    "ADD", "f32 f16 i16 i32 i64", "kernels/add.cc:428", versions.ADD, (*FLOAT_OR_8_BIT, SUM_SCALES)
)
_arithmetic("SUB", "f32 i32 i64", "kernels/sub.cc:466", versions.SUB, (*FLOAT_OR_8_BIT, SUM_SCALES))
_arithmetic(
    "MUL",
    "f32 f16 i16 i32 u32 i64",
    "kernels/mul.cc:345",
    versions.MUL,
    (*FLOAT_OR_8_BIT, PRODUCT_SCALES),
)
# the integer division rounds towards zero
_arithmetic("DIV", "f32 i32", "kernels/div.cc:283", versions.DIV, (*FLOAT_ONLY, ACTIVATIONS))


def _binary(name: str, names: str, kernel: str, *, delegated: bool = False, **columns: Any) -> None:
    xnnpack = FLOAT_ONLY if delegated else f"XNNPACK's delegate has no {name}"
    ROWS.append(pointwise(name, names, kernel, infer=shapes.broadcast, xnnpack=xnnpack, **columns))


for _name in ("MAXIMUM", "MINIMUM"):
    _binary(
        _name,
        "f32 f16 bf16 i8 u8 i16 i32 i64",
        "kernels/maximum_minimum.cc:169",
        options="MaximumMinimumOptions",
        quantized="i8 u8 i16",
        quant="same",
        version=versions.EXTREMUM,
        delegated=True,
    )
_binary(
    "SQUARED_DIFFERENCE",
    "f32 i32",
    "kernels/squared_difference.cc:226",
    options="SquaredDifferenceOptions",
    quantized="i8",
    quant="free",
    version=versions.INT8,
    delegated=True,
)
_binary("POW", "f32 i32", "kernels/pow.cc:70", options="PowOptions")
_binary(
    "FLOOR_DIV",
    "f32 i8 i16 i32",
    "kernels/floor_div.cc:74",
    options="FloorDivOptions",
    version=by_type("i8:3 i16:3 f32:2"),
)
_binary(
    "FLOOR_MOD",
    "f32 i8 i16 i32 i64",
    "kernels/floor_mod.cc:74",
    options="FloorModOptions",
    version=by_type("i8:2 i16:2"),
)
_binary("LOGICAL_AND", "bool", "kernels/logical.cc:70", options="LogicalAndOptions", quant="int")
_binary("LOGICAL_OR", "bool", "kernels/logical.cc:70", options="LogicalOrOptions", quant="int")
_binary(
    "BITWISE_XOR",
    "i8 u8 i16 u16 i32 u32",
    "kernels/bitwise_xor.cc:98",
    options="BitwiseXorOptions",
    quant="int",
)
_binary(
    "RIGHT_SHIFT",
    "i8 u8 i16 u16 i32 u32",
    "kernels/right_shift.cc:110",
    options="RightShiftOptions",
    quant="int",
)

for _name, _options, _names, _version in (
    ("EQUAL", "EqualOptions", "f32 f16 i16 i32 i64 bool", by_type("i16:5 i8:2")),
    # int16 without a scale falls through to false (comparisons.cc:266)
    ("NOT_EQUAL", "NotEqualOptions", "f32 f16 i32 i64 bool", by_type("i16:4 i8:2")),
    ("LESS", "LessOptions", "f32 f16 bf16 i16 i32 i64", versions.INT8_INT16),
    ("LESS_EQUAL", "LessEqualOptions", "f32 f16 i16 i32 i64", versions.INT8),
    ("GREATER", "GreaterOptions", "f32 f16 bf16 i16 i32 i64", versions.INT8),
    ("GREATER_EQUAL", "GreaterEqualOptions", "f32 f16 i16 i32 i64", versions.INT8_INT16),
):
    ROWS.append(
        Row(
            name=_name,
            layout="elementwise",
            infer=shapes.compare,
            types=types(_names),
            # of int16 the others ignore the scales (comparisons.cc:304)
            quantized=types("i8 u8 i16" if _name in ("EQUAL", "NOT_EQUAL") else "i8 u8"),
            kernel="kernels/comparisons.cc:163",
            options=_options,
            quant="free",
            xnnpack="XNNPACK's delegate takes no comparison",
            version=_version,
        )
    )

FLOATS = "f16 f32 f64"
INTEGERS = "i8 u8 i16 u16 i32 u32 i64 u64 bool"
STABLEHLO = "kernels/stablehlo_elementwise.h:110"
ROWS += [
    Row(
        name="PRELU",
        layout="elementwise",
        infer=shapes.same,
        types=types("f32"),
        quantized=types("i8 u8"),
        kernel="kernels/activations.cc:1407",
        quant="free",
        # VisitBinaryNode, xnnpack_delegate.cc:4391
        xnnpack=(*FLOAT_ONLY, constant(1, "the slope")),
    ),
    # These take operands of one shape only: no broadcasting, no dropped dimensions. The StableHLO
    # ones compute with plain integers where ADD, MUL … read them as quantized.
    *(
        Row(
            name=name,
            layout="fixed",
            infer=shapes.alike,
            types=types(names),
            kernel=kernel,
            quantized=types("i8 u8 i16" if quant == "same" else ""),
            quant=quant,
            xnnpack=f"XNNPACK's delegate has no {name}",
        )
        for name, names, kernel, quant in (
            ("ATAN2", "f32 f64 f16 bf16", "kernels/atan2.cc:45", "float"),
            ("STABLEHLO_ADD", f"{FLOATS} {INTEGERS}", STABLEHLO, "float"),
            ("STABLEHLO_MULTIPLY", f"{FLOATS} {INTEGERS}", STABLEHLO, "float"),
            ("STABLEHLO_MAXIMUM", f"{FLOATS} {INTEGERS}", STABLEHLO, "same"),
            ("STABLEHLO_MINIMUM", f"{FLOATS} {INTEGERS}", STABLEHLO, "same"),
            ("STABLEHLO_AND", INTEGERS, STABLEHLO, "int"),
        )
    ),
    Row(
        name="SELECT_V2",
        layout="elementwise",
        infer=shapes.select,
        types=types("f32 f16 bf16 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/select.cc:155",
        data=1,
        options="SelectV2Options",
        quant="same",
        xnnpack="XNNPACK's delegate takes no SELECT_V2",
    ),
]
