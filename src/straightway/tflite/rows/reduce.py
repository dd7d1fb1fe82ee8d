"""Reductions, and the ops that normalise along an axis."""

from straightway.tflite.rows import shapes
from straightway.tflite.rows.conditions import FLOAT
from straightway.tflite.rows.row import Attr, Row, field_, operand, types

ROWS = [
    Row(
        name=name,
        layout="reduce",
        infer=shapes.reduced,
        types=types(names),
        kernel="kernels/reduce.cc",
        options="ReducerOptions",
        attrs={"axes": operand(1, "axes"), "keep_dims": field_("keepDims")},
        quant=quant,
        xnnpack=(FLOAT,) if delegated else f"XNNPACK's delegate takes no {name}",
    )
    for name, names, quant, delegated in (
        ("MEAN", "f32 i8 u8 i16 i32 i64", "free", True),
        ("SUM", "f32 i8 u8 i16 i32 i64", "free", True),
        ("REDUCE_MAX", "f32 i8 u8 i16 i32 i64", "same", True),
        ("REDUCE_MIN", "f32 i8 u8 i16 i32 i64", "same", True),
        ("REDUCE_PROD", "f32 i8 i16 i32 i64", "free", False),
        ("REDUCE_ANY", "bool", "int", False),
        ("REDUCE_ALL", "bool", "int", False),
    )
]
ROWS += [
    Row(
        name=name,
        layout="arg",
        infer=shapes.arg,
        types=types("f32 i8 u8 i32 bool"),
        kernel="kernels/arg_min_max.cc",
        options=options,
        attrs={
            "axis": operand(1, "axis"),
            "output_type": field_("outputType", role="enum", enum="TensorType"),
        },
        quant="free",
        xnnpack=f"XNNPACK's delegate takes no {name}",
    )
    for name, options in (("ARG_MAX", "ArgMaxOptions"), ("ARG_MIN", "ArgMinOptions"))
]
ROWS += [
    Row(
        name="SOFTMAX",
        layout="last",
        infer=shapes.same,
        types=types("f32 i8 u8 i16"),
        kernel="kernels/activations.cc",
        options="SoftmaxOptions",
        attrs={"axis": Attr(role="logical"), "beta": field_("beta")},
        defaults={"beta": 1.0},
        quant="fixed:1/256,-128",
        xnnpack=(FLOAT,),
    ),
    Row(
        name="LOG_SOFTMAX",
        layout="last",
        infer=shapes.same,
        types=types("f32 i8 u8"),
        kernel="kernels/activations.cc",
        options="LogSoftmaxOptions",
        attrs={"axis": Attr(role="logical")},
        quant="fixed:16/256,127",
        xnnpack="XNNPACK's delegate takes no LOG_SOFTMAX",
    ),
    Row(
        name="TOPK_V2",
        layout="fixed",
        infer=shapes.top_k,
        types=types("f32 i8 u8 i16 i32 i64"),
        kernel="kernels/topk_v2.cc",
        options="TopKV2Options",
        attrs={"k": operand(1)},
        quant="same",
        xnnpack="XNNPACK's delegate takes no TOPK_V2",
    ),
]
