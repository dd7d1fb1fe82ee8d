"""Ops that move elements: reshape, transpose, slice, pad, join, split, repeat."""

import numpy as np

from straightway.ir import Node
from straightway.tflite.rows import shapes, versions
from straightway.tflite.rows.conditions import (
    constant,
    constant_of,
    floats_or_8_bit,
    option,
    quantization,
    ranks,
    same_quantization,
)
from straightway.tflite.rows.row import DELEGATE_RANK, Condition, Row, field_, operand, types
from straightway.tflite.rows.versions import by_type, has_option, highest, rank_above

# kernels that copy by the size of an element, whatever it means
ANY = "f16 bf16 f32 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool"
QUANTIZED = types("i8 u8 i16")


def _positive_sizes(node: Node) -> bool:
    sizes = constant_of(node, 2)
    return sizes is None or bool((sizes > 0).all())


def _unit_strides(node: Node) -> bool:
    strides = constant_of(node, 3)
    return strides is None or bool((strides == 1).all())


def _alike(node: Node) -> bool:
    return len({quantization(v) for v in (*node.operands(), node.output)}) == 1


def _not_legacy_scalar(node: Node) -> bool:
    shape = constant_of(node, 1)
    return shape is None or not (shape.size == 1 and shape.ravel()[0] in (0, -1))


RESULT_RANK = Condition(
    test=lambda node: node.output.rank <= 6 and 0 not in node.output.shape,
    text="the result must have at most 6 dimensions, and elements",
)
PAD_VERSION = highest(by_type("bool:5 i16:3 i8:2"), rank_above(4, 4))

ROWS = [
    Row(
        name="RESHAPE",
        layout="rename",
        infer=shapes.reshape,
        types=types(ANY),
        quantized=QUANTIZED,
        kernel="kernels/reshape.cc:132",
        options="ReshapeOptions",
        attrs={"shape": operand(1)},
        quant="same",
        # VisitReshapeNode, delegates/xnnpack/xnnpack_delegate.cc:5632
        xnnpack=(
            floats_or_8_bit(0),
            ranks(0),
            RESULT_RANK,
            same_quantization(0),
            constant(1, "the shape"),
            Condition(
                test=_not_legacy_scalar, text="the shape must not be [0] or [-1] of one dimension"
            ),
        ),
    ),
    Row(
        name="TRANSPOSE",
        layout="rename",
        infer=shapes.transpose,
        types=types(ANY),
        quantized=QUANTIZED,
        kernel="kernels/transpose.cc:118",
        options="TransposeOptions",
        attrs={"perm": operand(1)},
        quant="same",
        # VisitTransposeNode, delegates/xnnpack/xnnpack_delegate.cc:6078
        xnnpack=(floats_or_8_bit(0), ranks(0, least=1), constant(1, "the permutation")),
        version=highest(
            by_type("f16:9 bf16:8 i16:5 bool:3 i8:2"),
            rank_above(6, 8),
            rank_above(5, 6),
            rank_above(4, 4),
        ),
    ),
    Row(
        name="SLICE",
        layout="along",
        infer=shapes.sliced,
        types=types(ANY),
        quantized=QUANTIZED,
        kernel="kernels/slice.cc:298",
        options="SliceOptions",
        attrs={"begin": operand(1, "dims"), "size": operand(2, "dims")},
        quant="same",
        # VisitSliceNode, delegates/xnnpack/xnnpack_delegate.cc:5818
        xnnpack=(
            constant(1, "the begin"),
            constant(2, "the size"),
            floats_or_8_bit(0),
            ranks(0),
            Condition(test=_positive_sizes, text="sizes must be positive; -1 is not taken"),
        ),
        version=highest(by_type("f16:8 u32:6 i16:4 i8:2"), rank_above(4, 5)),
    ),
    Row(
        name="STRIDED_SLICE",
        layout="along",
        infer=shapes.strided,
        types=types(ANY),
        quantized=QUANTIZED,
        kernel="kernels/strided_slice.cc:268",
        options="StridedSliceOptions",
        attrs={
            "begin": operand(1, "dims"),
            "end": operand(2, "dims"),
            "strides": operand(3, "dims"),
            "end_mask": field_("endMask", role="dims"),
        },
        quant="same",
        # VisitStridedSliceNode, delegates/xnnpack/xnnpack_delegate.cc:6134
        xnnpack=(
            option("ellipsisMask", lambda v: not v, "there must be no ellipsis mask"),
            option("newAxisMask", lambda v: not v, "there must be no new-axis mask"),
            option("shrinkAxisMask", lambda v: not v, "there must be no shrink-axis mask"),
            constant(1, "the begin"),
            constant(2, "the end"),
            constant(3, "the strides"),
            Condition(test=_unit_strides, text="strides must be 1"),
            floats_or_8_bit(0),
            ranks(0),
        ),
        version=highest(
            by_type("u32:7 bool:3 i8:2"),
            has_option("offset", 8),
            has_option("ellipsisMask", 6),
            has_option("newAxisMask", 6),
            rank_above(4, 4),
        ),
    ),
    Row(
        name="PAD",
        layout="along",
        infer=shapes.padded,
        types=types("f32 f16 bf16 i8 u8 i16 i32 i64 bool"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/pad.cc:519",
        options="PadOptions",
        attrs={"paddings": operand(1, "dims")},
        max_rank=5,
        quant="same",
        # VisitPadNode, delegates/xnnpack/xnnpack_delegate.cc:5503
        xnnpack=(
            floats_or_8_bit(0),
            ranks(0, least=1),
            constant(1, "the paddings"),
        ),
        version=PAD_VERSION,
    ),
    Row(
        name="PADV2",
        layout="along",
        infer=shapes.padded,
        types=types("f32 f16 bf16 i8 u8 i16 i32 i64 bool"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/pad.cc:519",
        options="PadV2Options",
        attrs={"paddings": operand(1, "dims")},
        max_rank=5,
        quant="same",
        xnnpack="XNNPACK's delegate takes no PADV2",
        version=PAD_VERSION,
    ),
    Row(
        name="MIRROR_PAD",
        layout="along",
        infer=shapes.padded,
        types=types(ANY),
        quantized=QUANTIZED,
        kernel="kernels/mirror_pad.cc:335",
        options="MirrorPadOptions",
        attrs={
            "paddings": operand(1, "dims"),
            "mode": field_("mode", role="enum", enum="MirrorPadMode"),
        },
        quant="same",
        xnnpack="XNNPACK's delegate takes no MIRROR_PAD",
        version=versions.INT8_INT16,
    ),
    Row(
        name="TILE",
        layout="along",
        infer=shapes.tiled,
        types=types(ANY),
        quantized=QUANTIZED,
        kernel="kernels/tile.cc:279",
        options="TileOptions",
        attrs={"multiples": operand(1, "dims")},
        quant="same",
        xnnpack="XNNPACK's delegate takes no TILE",
        version=by_type("i8:3"),
    ),
    Row(
        name="BROADCAST_TO",
        layout="elementwise",
        infer=shapes.broadcast_to,
        types=types(ANY),
        quantized=QUANTIZED,
        kernel="kernels/broadcast_to.cc:95",
        options="BroadcastToOptions",
        attrs={"shape": operand(1, "dims")},
        quant="same",
        xnnpack="XNNPACK's delegate takes no BROADCAST_TO",
        # version 1 was another op (op_version.cc:1184)
        version=by_type("i8:3 i16:3", otherwise=2),
    ),
    Row(
        name="CONCATENATION",
        layout="along",
        infer=shapes.concatenation,
        types=types("f16 bf16 f32 i8 u8 i16 i32 u32 i64 bool"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/concatenation.cc:144",
        options="ConcatenationOptions",
        attrs={"axis": field_("axis", role="axis")},
        max_rank=DELEGATE_RANK,
        quant="same",
        # VisitConcatenationNode, delegates/xnnpack/xnnpack_delegate.cc:3787
        xnnpack=(
            Condition(
                test=lambda node: 2 <= len(node.inputs) <= 5, text="2 to 5 operands are taken"
            ),
            floats_or_8_bit(*range(5)),
            Condition(
                test=lambda node: node.output.dtype != np.uint8 or _alike(node),
                text="uint8 operands must have the result's scale and zero point",
            ),
        ),
        version=by_type("f16:6 u32:4 i16:3 i8:2"),
    ),
    Row(
        name="PACK",
        layout="fixed",
        infer=shapes.pack,
        types=types("f32 i8 u8 i16 i32 u32 i64"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/pack.cc:50",
        options="PackOptions",
        attrs={"axis": field_("axis"), "values_count": field_("valuesCount")},
        quant="same",
        xnnpack="XNNPACK's delegate takes no PACK",
        version=by_type("i8:2 i16:3 u32:4"),
    ),
    Row(
        name="UNPACK",
        layout="fixed",
        infer=shapes.unpack,
        types=types("f16 bf16 f32 i8 u8 i16 i32 bool"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/unpack.cc:49",
        options="UnpackOptions",
        attrs={"axis": field_("axis"), "num": field_("num")},
        quant="same",
        xnnpack="XNNPACK's delegate takes no UNPACK",
        version=by_type("i8:2 u8:2 bool:3 i16:4 f16:5 bf16:5"),
    ),
    Row(
        name="SPLIT",
        layout="along",
        infer=shapes.split,
        types=types("f32 i8 u8 i16 i32 i64"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/split.cc:88",
        options="SplitOptions",
        attrs={"axis": operand(0, "axis"), "num_splits": field_("numSplits")},
        max_rank=DELEGATE_RANK,
        quant="same",
        # VisitSplitNode, delegates/xnnpack/xnnpack_delegate.cc:6018
        xnnpack=(
            Condition(
                test=lambda node: 2 <= len(node.outputs) <= 4, text="2 to 4 results are taken"
            ),
            constant(0, "the axis"),
            floats_or_8_bit(1),
        ),
        version=by_type("i16:4 i32:3 i8:2", operand=1),
    ),
    Row(
        name="SPLIT_V",
        layout="along",
        infer=shapes.split_v,
        types=types("f32 i8 u8 i16 i32 i64"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/split_v.cc:141",
        options="SplitVOptions",
        attrs={
            "sizes": operand(1),
            "axis": operand(2, "axis"),
            "num_splits": field_("numSplits"),
        },
        quant="same",
        xnnpack="XNNPACK's delegate takes no SPLIT_V",
        version=versions.INT8,
    ),
    Row(
        name="REVERSE_V2",
        layout="along",
        infer=shapes.same,
        types=types("f16 bf16 f32 i8 u8 i16 i32 i64 bool"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/reverse.cc:50",
        options="ReverseV2Options",
        attrs={"axes": operand(1, "axes")},
        quant="same",
        xnnpack="XNNPACK's delegate takes no REVERSE_V2",
        version=by_type("i8:3 bool:2"),
    ),
    Row(
        name="CUMSUM",
        layout="along",
        infer=shapes.same,
        types=types("f32 i32 i64"),
        kernel="kernels/cumsum.cc:66",
        options="CumsumOptions",
        attrs={
            "axis": operand(1, "axis"),
            "exclusive": field_("exclusive"),
            "reverse": field_("reverse"),
        },
        xnnpack="XNNPACK's delegate takes no CUMSUM",
    ),
    Row(
        name="SHAPE",
        layout="fixed",
        infer=shapes.shape,
        types=types(ANY),
        quantized=QUANTIZED,
        kernel="kernels/shape.cc:50",
        options="ShapeOptions",
        quant="free",
        attrs={"output_type": field_("outType", role="enum", enum="TensorType")},
        xnnpack="XNNPACK's delegate takes no SHAPE",
    ),
]
