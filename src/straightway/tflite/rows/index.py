"""Ops that address elements by indices."""

from straightway.tflite.rows import shapes
from straightway.tflite.rows.row import Row, field_, operand, types
from straightway.tflite.rows.versions import by_type, has_option, highest, per_channel, when

COPIED = "f16 bf16 f32 i8 u8 i16 i32 i64 bool"
QUANTIZED = types("i8 u8 i16")

ROWS = [
    Row(
        name="GATHER",
        layout="gather",
        infer=shapes.gather,
        types=types(COPIED),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/gather.cc:81",
        options="GatherOptions",
        attrs={"axis": field_("axis", role="axis"), "batch_dims": field_("batchDims")},
        defaults={"batch_dims": 0},
        quant="same",
        xnnpack="XNNPACK's delegate takes no GATHER",
        version=highest(
            by_type("i16:6", operand=1), has_option("batchDims", 5), by_type("i16:4 bool:3 i8:2")
        ),
    ),
    Row(
        name="GATHER_ND",
        layout="fixed",
        infer=shapes.gather_nd,
        types=types(COPIED),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/gather_nd.cc:45",
        options="GatherNdOptions",
        quant="same",
        xnnpack="XNNPACK's delegate takes no GATHER_ND",
        version=highest(by_type("bool:5 i16:3"), by_type("i16:4", operand=1)),
    ),
    Row(
        name="EMBEDDING_LOOKUP",
        layout="fixed",
        infer=shapes.embedding_lookup,
        types=types("f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool"),
        quantized=QUANTIZED,
        kernel="kernels/embedding_lookup.cc:403",
        # operands: one dimension of int32 rows, then the table
        data=1,
        quant="same",
        xnnpack="XNNPACK's delegate takes no EMBEDDING_LOOKUP",
        version=when(lambda node: per_channel(node, 1), 4),
    ),
    Row(
        name="SCATTER_ND",
        layout="fixed",
        infer=shapes.scatter_nd,
        types=types("f32 i8 u8 i32 i64 bool"),
        moves=True,
        kernel="kernels/scatter_nd.cc:84",
        # operands: indices, then updates, which add up in zeros of the given shape; those are stored
        # zeros, so that quantized values with another zero point come out wrong
        data=1,
        options="ScatterNdOptions",
        attrs={"shape": operand(2)},
        xnnpack="XNNPACK's delegate takes no SCATTER_ND",
    ),
    *(
        Row(
            name=f"UNSORTED_SEGMENT_{name.upper()}",
            layout="fixed",
            infer=shapes.segments,
            types=types("f32 i32"),
            kernel="kernels/unsorted_segment.cc:119",
            # operands: rows, then the int32 segment that each belongs to; a segment without rows is 0,
            # 1, or the type's least or greatest finite number; negative segments are left out
            options=f"UnsortedSegment{name}Options",
            attrs={"count": operand(2)},
            xnnpack=f"XNNPACK's delegate takes no UNSORTED_SEGMENT_{name.upper()}",
        )
        for name in ("Max", "Min", "Prod", "Sum")
    ),
    Row(
        name="DYNAMIC_UPDATE_SLICE",
        layout="fixed",
        infer=shapes.same,
        types=types("f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool"),
        quantized=QUANTIZED,
        kernel="kernels/dynamic_update_slice.cc:339",
        # operands: what is updated, the update, where it begins (clamped so that it fits)
        options="DynamicUpdateSliceOptions",
        quant="same",
        xnnpack="XNNPACK's delegate takes no DYNAMIC_UPDATE_SLICE",
        version=highest(by_type("bf16:6 i16:4 f16:3"), by_type("i64:2", operand=2)),
    ),
    Row(
        name="REVERSE_SEQUENCE",
        layout="fixed",
        infer=shapes.same,
        types=types("f32 u8 i16 i32 i64"),
        quantized=types("u8 i16"),
        moves=True,
        kernel="kernels/reverse_sequence.cc:46",
        options="ReverseSequenceOptions",
        attrs={"sequence_axis": field_("seqDim"), "batch_axis": field_("batchDim")},
        quant="same",
        xnnpack="XNNPACK's delegate takes no REVERSE_SEQUENCE",
    ),
    Row(
        name="ONE_HOT",
        layout="fixed",
        infer=shapes.one_hot,
        types=types("f32 i8 u8 i32 i64 bool"),
        quantized=types("i8 u8"),
        moves=True,
        kernel="kernels/one_hot.cc:177",
        # operands: indices, the value that is on, the value that is off
        data=1,
        options="OneHotOptions",
        attrs={"axis": field_("axis"), "depth": operand(1)},
        quant="same",
        xnnpack="XNNPACK's delegate takes no ONE_HOT",
    ),
    Row(
        name="WHERE",
        layout="fixed",
        infer=shapes.where,
        types=types("f32 i8 u8 i32 u32 i64 bool"),
        kernel="kernels/where.cc:85",
        options="WhereOptions",
        xnnpack="XNNPACK's delegate takes no WHERE",
        open_size=True,
        version=by_type("bool:1", otherwise=2),
    ),
    Row(
        name="NON_MAX_SUPPRESSION_V4",
        layout="fixed",
        infer=shapes.selected,
        types=types("f32"),
        kernel="kernels/non_max_suppression.cc:89",
        # operands: boxes of two corners, scores, then the least overlap that suppresses and the score
        # to be passed, both numbers; of equal scores any may come first
        # (internal/reference/non_max_suppression.h:101)
        options="NonMaxSuppressionV4Options",
        attrs={"most": operand(2)},
        xnnpack="XNNPACK's delegate takes no NON_MAX_SUPPRESSION_V4",
    ),
    Row(
        name="RANGE",
        layout="fixed",
        infer=shapes.counted,
        types=types("f32 i32 i64"),
        kernel="kernels/range.cc:74",
        # operands: start, limit, step, all numbers; it fails where the limit lies behind the start
        options="RangeOptions",
        xnnpack="XNNPACK's delegate takes no RANGE",
        open_size=True,
    ),
    Row(
        name="FILL",
        layout="fixed",
        infer=shapes.filled,
        types=types("f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool"),
        quantized=types("i8 u8 i16"),
        kernel="kernels/fill.cc:151",
        # operands: sizes, int32 or int64, then the number
        data=1,
        options="FillOptions",
        quant="same",
        xnnpack="XNNPACK's delegate takes no FILL",
        open_size=True,
    ),
]
