"""Matrix products."""

from straightway.tflite.rows import shapes
from straightway.tflite.rows.conditions import FLOAT, SAME_FLOAT, UP_TO_6D, constant
from straightway.tflite.rows.row import ACTIVATION, Attr, Row, field_, types

LOGICAL = Attr(role="logical")
ROWS = [
    Row(
        name="FULLY_CONNECTED",
        layout="matrix",
        infer=shapes.matrix,
        types=types("f32 i8 u8 i16"),
        kernel="kernels/fully_connected.cc",
        options="FullyConnectedOptions",
        attrs={
            "axis": LOGICAL,
            "activation": ACTIVATION,
            "keep_num_dims": field_("keepNumDims"),
        },
        defaults={"activation": "NONE", "keep_num_dims": True},
        quant="weights",
        xnnpack=(FLOAT, constant(1, "the weights"), constant(2, "the bias")),
        version=lambda node: 5 if node.attrs.get("keepNumDims") else 1,
        fuses=True,
    ),
    Row(
        name="BATCH_MATMUL",
        layout="batch_matrix",
        infer=shapes.batch_matrix,
        types=types("f32 i8 i16 i32"),
        kernel="kernels/batch_matmul.cc",
        options="BatchMatMulOptions",
        attrs={"adj_x": field_("adjX"), "adj_y": field_("adjY")},
        defaults={"adj_x": False, "adj_y": False},
        max_rank=5,
        quant="free",
        xnnpack=(SAME_FLOAT, UP_TO_6D),
    ),
]
