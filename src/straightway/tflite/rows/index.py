"""Ops that address elements by indices."""

from straightway.tflite.rows import shapes
from straightway.tflite.rows.row import LOGICAL, Row, field_, types

ROWS = [
    Row(
        name="GATHER",
        layout="gather",
        infer=shapes.gather,
        types=types("f32 i8 u8 i16 i32 i64 bool"),
        kernel="kernels/gather.cc",
        options="GatherOptions",
        attrs={"axis": field_("axis", role="axis"), "batch_dims": field_("batchDims")},
        defaults={"batch_dims": 0},
        quant="same",
        xnnpack="XNNPACK's delegate takes no GATHER",
    ),
    Row(
        name="GATHER_ND",
        layout="fixed",
        infer=shapes.gather_nd,
        types=types("f32 i8 u8 i16 i32 i64 bool"),
        kernel="kernels/gather_nd.cc",
        options="GatherNdOptions",
        quant="same",
        xnnpack="XNNPACK's delegate takes no GATHER_ND",
    ),
    Row(
        name="ONE_HOT",
        layout="fixed",
        infer=shapes.one_hot,
        types=types("i32 i64"),
        kernel="kernels/one_hot.cc",
        options="OneHotOptions",
        attrs={"axis": field_("axis"), "depth": LOGICAL},
        quant="same",
        xnnpack="XNNPACK's delegate takes no ONE_HOT",
    ),
]
