"""Ops that work element by element."""

from straightway.ir import Node
from straightway.tflite.rows import shapes
from straightway.tflite.rows.conditions import FLOAT, SAME_FLOAT, UP_TO_6D
from straightway.tflite.rows.row import ACTIVATION, LOGICAL, Row, field_, types

ROWS: list[Row] = []


def _broadcasts(node: Node) -> bool:
    return len({v.shape for v in node.operands()}) > 1


def _arithmetic(name: str, options: str, names: str, quant: str, kernel: str) -> None:
    ROWS.append(
        Row(
            name=name,
            layout="elementwise",
            infer=shapes.broadcast,
            types=types(names),
            kernel=kernel,
            options=options,
            attrs={"activation": ACTIVATION},
            defaults={"activation": "NONE"},
            max_rank=6,
            quant=quant,
            xnnpack=(SAME_FLOAT, UP_TO_6D),
            fuses=True,
        )
    )


_arithmetic("ADD", "AddOptions", "f32 i8 u8 i16 i32 i64", "free", "kernels/add.cc")
_arithmetic("SUB", "SubOptions", "f32 i8 u8 i16 i32 i64", "free", "kernels/sub.cc")
_arithmetic("MUL", "MulOptions", "f32 i8 u8 i16 i32 i64", "free", "kernels/mul.cc")
_arithmetic("DIV", "DivOptions", "f32 u8 i32", "float", "kernels/div.cc")

for _name, _options, _names, _quant, _delegated in (
    ("MAXIMUM", "MaximumMinimumOptions", "f32 i8 u8 i16 i32 i64", "same", True),
    ("MINIMUM", "MaximumMinimumOptions", "f32 i8 u8 i16 i32 i64", "same", True),
    ("SQUARED_DIFFERENCE", "SquaredDifferenceOptions", "f32 i8 i32", "free", True),
    ("POW", "PowOptions", "f32 i32", "float", False),
    ("FLOOR_DIV", "FloorDivOptions", "f32 i8 i16 i32", "float", False),
    ("FLOOR_MOD", "FloorModOptions", "f32 i8 i16 i32 i64", "float", False),
):
    ROWS.append(
        Row(
            name=_name,
            layout="elementwise",
            infer=shapes.broadcast,
            types=types(_names),
            kernel=f"kernels/{_name.lower()}.cc",
            options=_options,
            max_rank=4 if _name in ("POW", "FLOOR_DIV", "FLOOR_MOD") else 6,
            quant=_quant,
            xnnpack=(SAME_FLOAT, UP_TO_6D) if _delegated else f"XNNPACK has no {_name}",
        )
    )

for _name, _options in (
    ("EQUAL", "EqualOptions"),
    ("NOT_EQUAL", "NotEqualOptions"),
    ("LESS", "LessOptions"),
    ("LESS_EQUAL", "LessEqualOptions"),
    ("GREATER", "GreaterOptions"),
    ("GREATER_EQUAL", "GreaterEqualOptions"),
):
    ROWS.append(
        Row(
            name=_name,
            layout="elementwise",
            infer=shapes.compare,
            types=types("f32 i8 u8 i32 i64" + (" bool" if "EQUAL" in _name[-9:] else "")),
            kernel="kernels/comparisons.cc",
            options=_options,
            max_rank=4,
            quant="free",
            xnnpack="XNNPACK's delegate takes no comparison",
        )
    )

for _name, _options in (
    ("LOGICAL_AND", "LogicalAndOptions"),
    ("LOGICAL_OR", "LogicalOrOptions"),
):
    ROWS.append(
        Row(
            name=_name,
            layout="elementwise",
            infer=shapes.broadcast,
            types=types("bool"),
            kernel="kernels/logical.cc",
            options=_options,
            max_rank=4,
            quant="int",
            xnnpack="XNNPACK's delegate takes no logic",
        )
    )

for _name, _options, _names, _quant, _delegated in (
    ("ABS", "AbsOptions", "f32 i8 i16 i32", "free", True),
    ("NEG", "NegOptions", "f32 i8 i32 i64", "float", True),
    ("EXP", "ExpOptions", "f32", "float", True),
    ("LOG", "", "f32", "float", True),
    ("SQRT", "", "f32", "float", True),
    ("RSQRT", "", "f32 i8", "free", True),
    ("SQUARE", "SquareOptions", "f32", "float", True),
    ("SIN", "", "f32", "float", True),
    ("COS", "CosOptions", "f32", "float", True),
    ("FLOOR", "", "f32", "float", True),
    ("CEIL", "", "f32", "float", True),
    ("ROUND", "", "f32", "float", True),
    ("SIGN", "SignOptions", "f32 i32", "float", True),
    ("LOGISTIC", "", "f32 i8 u8 i16", "fixed:1/256,-128", True),
    ("TANH", "", "f32 i8 u8 i16", "fixed:1/128,0", True),
    ("RELU", "", "f32 i8 u8 i16", "free", True),
    ("RELU6", "", "f32 i8 u8", "free", True),
    ("RELU_N1_TO_1", "", "f32 i8 u8", "free", True),
    ("RELU_0_TO_1", "", "f32 i8 u8", "free", False),
    ("ELU", "", "f32 i8", "free", True),
    ("HARD_SWISH", "", "f32 i8 u8", "free", True),
    ("LOGICAL_NOT", "LogicalNotOptions", "bool", "int", False),
):
    ROWS.append(
        Row(
            name=_name,
            layout="elementwise",
            infer=shapes.same,
            types=types(_names),
            kernel="kernels/elementwise.cc",
            options=_options,
            quant=_quant,
            xnnpack=(FLOAT,) if _delegated else f"XNNPACK's delegate has no {_name}",
        )
    )

ROWS += [
    Row(
        name="GELU",
        layout="elementwise",
        infer=shapes.same,
        types=types("f32 i8"),
        kernel="kernels/gelu.cc",
        options="GeluOptions",
        attrs={"approximate": field_("approximate")},
        defaults={"approximate": False},
        quant="free",
        xnnpack=(FLOAT,),
    ),
    Row(
        name="LEAKY_RELU",
        layout="elementwise",
        infer=shapes.same,
        types=types("f32 i8 u8 i16"),
        kernel="kernels/activations.cc",
        options="LeakyReluOptions",
        attrs={"alpha": field_("alpha")},
        quant="free",
        xnnpack=(FLOAT,),
    ),
    Row(
        name="CAST",
        layout="elementwise",
        infer=shapes.cast,
        types=types("f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 bool"),
        kernel="kernels/cast.cc",
        options="CastOptions",
        attrs={"dtype": LOGICAL},
        quant="float",
        xnnpack="XNNPACK's delegate takes no CAST",
    ),
    Row(
        name="SELECT_V2",
        layout="elementwise",
        infer=shapes.select,
        types=types("bool"),
        kernel="kernels/select.cc",
        options="SelectV2Options",
        max_rank=5,
        quant="same",
        xnnpack="XNNPACK's delegate takes no SELECT_V2",
    ),
]
