"""Versions of written nodes against the rules of op_version.cc, read by hand (LiteRT v2.2.0)."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from row_samples.numbers import whole
from row_samples.quantized import quant, quantize, quantize_weights
from row_samples.ranks import BY_RANK
from row_samples.refused import BASE
from row_samples.sample import Sample, write_down

from straightway.ir.types import SHORT_NAMES
from straightway.tflite.rows import ROWS

DTYPES = {short: dtype for dtype, short in SHORT_NAMES.items()}
# op: versions by the type of the data operand, without a scale
PLAIN = {
    "ADD": "f32:1 i32:1 f16:6 i16:5 i64:4",
    "SUB": "f32:1 i32:1 i64:4",
    "MUL": "f32:1 i32:1 f16:8 i16:7 u32:7 i64:5",
    "DIV": "f32:1 i32:1",
    "MAXIMUM": "f32:1 i32:1 i16:4 i8:2",
    "MINIMUM": "f32:1 i32:1 i16:4 i8:2",
    "SQUARED_DIFFERENCE": "f32:1 i32:1",
    "POW": "f32:1 i32:1",
    "FLOOR_DIV": "f32:2 i8:3 i16:3 i32:1",
    "FLOOR_MOD": "f32:1 i8:2 i16:2 i32:1 i64:1",
    "EQUAL": "f32:1 i16:5 bool:1",
    "NOT_EQUAL": "f32:1 i32:1 bool:1",
    "LESS": "f32:1 i16:3",
    "GREATER_EQUAL": "f32:1 i16:3",
    "GREATER": "f32:1 i16:1",
    "LESS_EQUAL": "f32:1 i16:1",
    "ABS": "f32:1 i32:5 i16:4",
    "SIN": "f32:1 f16:2",
    "COS": "f32:1 f16:2",
    "SIGN": "f32:1 i32:2",
    "GELU": "f32:1 f16:3",
    "RESHAPE": "f32:1 i8:1 bool:1",
    "TRANSPOSE": "f32:1 f16:9 bf16:8 i16:5 bool:3 i8:2",
    "SLICE": "f32:1 f16:8 u32:6 i16:4 i8:2 bool:1",
    "STRIDED_SLICE": "f32:1 u32:7 bool:3 i8:2 i16:1",
    "PAD": "f32:1 bool:5 i16:3 i8:2",
    "PADV2": "f32:1 bool:5 i16:3 i8:2",
    "MIRROR_PAD": "f32:1 i16:3 i8:2",
    "TILE": "f32:1 i8:3",
    "BROADCAST_TO": "f32:2 i8:3 i16:3 i32:2",
    "CONCATENATION": "f32:1 f16:6 u32:4 i16:3 i8:2",
    "PACK": "f32:1 i8:2 i16:3 u32:4",
    "UNPACK": "f32:1 i8:2 u8:2 bool:3 i16:4 f16:5",
    "SPLIT": "f32:1 i8:2 i32:3 i16:4",
    "SPLIT_V": "f32:1 i8:2 i16:1",
    "REVERSE_V2": "f32:1 i8:3 bool:2",
    "GATHER": "f32:1 i8:2 bool:3 i16:4",
    "GATHER_ND": "f32:1 bool:5 i16:3 i8:1",
    "REDUCE_MAX": "f32:1 i8:2 i16:3",
    "REDUCE_PROD": "f32:1 i8:2 i16:2",
    "ARG_MAX": "f32:1 i8:2 bool:3",
    "SOFTMAX": "f32:1 f16:4",
    "TOPK_V2": "f32:1 i8:2 i16:3",
    "DYNAMIC_UPDATE_SLICE": "f32:1 bf16:6 i16:4 f16:3",
    "WHERE": "f32:2 i32:2 bool:1",
    "RESIZE_NEAREST_NEIGHBOR": "f32:1 i8:2 i16:4",
    "DEPTH_TO_SPACE": "f32:1 i8:2 i32:1",
    "SPACE_TO_DEPTH": "f32:1 i8:2 i32:1",
    "SELECT_V2": "f32:1 i8:1 u32:1",
    "CUMSUM": "f32:1 i64:1",
}
# op: versions by the type, with a scale
SCALED = {
    "ADD": "i8:2 u8:1 i16:3",
    "SUB": "i8:2 u8:1 i16:5",
    "MAXIMUM": "i8:2 i16:4",
    "SQUARED_DIFFERENCE": "i8:2",
    "EQUAL": "i8:2 u8:1 i16:5",
    "LESS_EQUAL": "i8:2",
    "ABS": "i8:2 i16:3",
    "EXP": "i8:2 i16:2",
    "RSQRT": "i8:2 i16:3",
    "LOGISTIC": "i8:2 u8:1 i16:3",
    "RELU": "i8:2 u8:2 i16:3",
    "RELU6": "i8:2 i16:3",
    "RELU_N1_TO_1": "i8:1",
    "ELU": "i8:1",
    "HARD_SWISH": "i8:1",
    "GELU": "i8:2 u8:2",
    "LEAKY_RELU": "i8:1 i16:2",
    "PRELU": "i8:1",
    "MEAN": "i8:2 i16:3",
    "SUM": "i8:2 i16:1",
    "REDUCE_MIN": "i8:2 i16:3",
    "SOFTMAX": "i8:2 i16:3",
    "LOG_SOFTMAX": "i8:2 u8:1",
    "L2_NORMALIZATION": "i8:2 u8:1",
    "CONV_2D": "i8:3 u8:1 i16:1",
    "DEPTHWISE_CONV_2D": "i8:3 u8:1",
    "TRANSPOSE_CONV": "i8:2 u8:1",
    "FULLY_CONNECTED": "i8:5 u8:5 i16:5",
    "BATCH_MATMUL": "i8:2 i16:3",
    "AVERAGE_POOL_2D": "i8:2 i16:3 u8:1",
    "MAX_POOL_2D": "i8:2 i16:3",
    "RESIZE_BILINEAR": "i8:2 i16:4",
}


def version(sample: Sample) -> int:
    return ROWS[sample.op].version(write_down(sample).node)


def entries(table):
    for op, line in table.items():
        for entry in line.split():
            short, wanted = entry.split(":")
            yield pytest.param(op, DTYPES[short], int(wanted), id=f"{op}-{short}")


@pytest.mark.parametrize(("op", "dtype", "wanted"), list(entries(PLAIN)))
def test_by_type(op, dtype, wanted):
    assert version(BASE[op].as_type(dtype)) == wanted


@pytest.mark.parametrize(("op", "dtype", "wanted"), list(entries(SCALED)))
def test_by_quantized_type(op, dtype, wanted):
    assert version(quantize(BASE[op], dtype)) == wanted


def changed(op, **changes):
    return replace(BASE[op], **changes)


def scaled(op, scales):
    quants = {k: quant(s) for k, s in scales.items()}
    return replace(BASE[op].as_type(np.dtype(np.int8)), quants=quants)


def cast(source, target):
    return changed("CAST", inputs=(whole(2, 3).astype(source),), attrs={"dtype": np.dtype(target)})


CONV, DEPTHWISE = BASE["CONV_2D"], BASE["DEPTHWISE_CONV_2D"]
X, W = whole(2, 5), whole(4, 5)
FLAT = {"axis": 1, "keep_num_dims": False}
HALVES = {"size": (7, 8), "align_corners": False, "half_pixel_centers": True}
CORNERS = {"size": (7, 8), "align_corners": True, "half_pixel_centers": False}
SPECIAL = {
    "broadcast of 5 dimensions": (BY_RANK["MAXIMUM"](5), 3),
    "broadcast of 4 dimensions": (BY_RANK["MAXIMUM"](4), 1),
    "SUB, broadcast of 5 dimensions": (BY_RANK["SUB"](5), 3),
    "DIV, broadcast of 5 dimensions": (BY_RANK["DIV"](5), 2),
    "5 dimensions, no broadcast": (changed("DIV", inputs=(whole(2, 1, 3, 1, 2),) * 2), 1),
    "MUL that grows": (scaled("MUL", {0: 1.0, 1: 1.0, "y0": 0.5}), 3),
    "MUL that shrinks": (scaled("MUL", {0: 1.0, 1: 1.0, "y0": 2.0}), 2),
    "int16 ADD by powers of two": (
        replace(quantize(BASE["ADD"], np.dtype(np.int16)), attrs={"pot_scale": True}),
        1,
    ),
    "TRANSPOSE of 5": (BY_RANK["TRANSPOSE"](5), 4),
    "TRANSPOSE of 6": (BY_RANK["TRANSPOSE"](6), 6),
    "TRANSPOSE of 7": (BY_RANK["TRANSPOSE"](7), 8),
    "SLICE of 5": (BY_RANK["SLICE"](5), 5),
    "STRIDED_SLICE of 5": (BY_RANK["STRIDED_SLICE"](5), 4),
    "STRIDED_SLICE with an ellipsis": (changed("STRIDED_SLICE", written={"ellipsisMask": 1}), 6),
    "STRIDED_SLICE with a new axis": (changed("STRIDED_SLICE", written={"newAxisMask": 1}), 6),
    "STRIDED_SLICE by offset": (changed("STRIDED_SLICE", written={"offset": True}), 8),
    "PAD of 5": (BY_RANK["PAD"](5), 4),
    "GATHER by int16": (
        changed("GATHER", inputs=(whole(2, 4, 3), np.array([1], np.int16))),
        6,
    ),
    "GATHER in batches": (changed("GATHER", attrs={"axis": 1, "batch_dims": 1}), 5),
    "GATHER_ND by int16": (
        changed("GATHER_ND", inputs=(whole(2, 4), np.array([[1, 0]], np.int16))),
        4,
    ),
    "update at int64": (
        changed(
            "DYNAMIC_UPDATE_SLICE", inputs=(whole(3, 5), whole(2, 3), np.array([1, 4], np.int64))
        ),
        2,
    ),
    "CONV_2D": (CONV, 1),
    "CONV_2D, grouped": (
        changed("CONV_2D", inputs=(whole(2, 4, 9, 8), whole(6, 2, 3, 2), whole(6))),
        6,
    ),
    "CONV_2D, weights per channel": (quantize_weights(CONV, np.dtype(np.int8), dynamic=True), 5),
    "DEPTHWISE_CONV_2D": (DEPTHWISE, 1),
    "DEPTHWISE_CONV_2D, dilated": (
        replace(DEPTHWISE, attrs={**DEPTHWISE.attrs, "dilations": (2, 1)}),
        2,
    ),
    "DEPTHWISE_CONV_2D, weights per channel": (
        quantize_weights(DEPTHWISE, np.dtype(np.int8), dynamic=True),
        6,
    ),
    "TRANSPOSE_CONV": (BASE["TRANSPOSE_CONV"], 1),
    "TRANSPOSE_CONV with a bias": (
        changed("TRANSPOSE_CONV", inputs=(*BASE["TRANSPOSE_CONV"].inputs, whole(3))),
        3,
    ),
    "TRANSPOSE_CONV with an activation": (
        changed("TRANSPOSE_CONV", attrs={**BASE["TRANSPOSE_CONV"].attrs, "activation": "RELU"}),
        4,
    ),
    "FULLY_CONNECTED": (changed("FULLY_CONNECTED", inputs=(X, W, whole(4)), attrs=FLAT), 1),
    "FULLY_CONNECTED, dimensions kept": (BASE["FULLY_CONNECTED"], 5),
    "FULLY_CONNECTED of two operands": (
        changed("FULLY_CONNECTED", inputs=(X, W), attrs=FLAT),
        6,
    ),
    "FULLY_CONNECTED, weights per channel": (
        quantize_weights(BASE["FULLY_CONNECTED"], np.dtype(np.int8), dynamic=True),
        12,
    ),
    "RESIZE_BILINEAR, half pixels": (changed("RESIZE_BILINEAR", attrs=HALVES), 3),
    "RESIZE_BILINEAR, corners": (changed("RESIZE_BILINEAR", attrs=CORNERS), 1),
    "RESIZE_NEAREST_NEIGHBOR, half pixels": (changed("RESIZE_NEAREST_NEIGHBOR", attrs=HALVES), 3),
    "RESIZE_NEAREST_NEIGHBOR, corners": (changed("RESIZE_NEAREST_NEIGHBOR", attrs=CORNERS), 3),
    "CAST": (cast(np.float32, np.int32), 1),
    "CAST from uint32": (cast(np.uint32, np.float32), 2),
    "CAST to int8": (cast(np.float32, np.int8), 3),
    "CAST to uint16": (cast(np.float32, np.uint16), 4),
    "CAST to float64": (cast(np.float32, np.float64), 5),
    "CAST from float16": (cast(np.float16, np.float32), 5),
    "CAST to bfloat16": (cast(np.float16, ml_dtypes.bfloat16), 7),
    "QUANTIZE to int8": (BASE["QUANTIZE"], 1),
    "QUANTIZE to int16": (
        changed("QUANTIZE", attrs={"dtype": np.dtype(np.int16)}, quants={"y0": quant(0.1)}),
        2,
    ),
    "DEQUANTIZE of int8": (BASE["DEQUANTIZE"], 2),
    "DEQUANTIZE of uint8": (BASE["DEQUANTIZE"].as_type(np.dtype(np.uint8)), 1),
    "DEQUANTIZE of float16": (
        changed("DEQUANTIZE", inputs=(whole(2).astype(np.float16),), quants={}),
        3,
    ),
    "EMBEDDING_LOOKUP": (BASE["EMBEDDING_LOOKUP"], 1),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (BASE["UNIDIRECTIONAL_SEQUENCE_LSTM"], 1),
    "LSTM with diagonal recurrent weights": (
        changed("UNIDIRECTIONAL_SEQUENCE_LSTM", written={"diagonalRecurrentTensors": True}),
        4,
    ),
}


@pytest.mark.parametrize(("sample", "wanted"), SPECIAL.values(), ids=SPECIAL)
def test_by_form(sample, wanted):
    assert version(sample) == wanted


@pytest.mark.parametrize(
    "op", sorted(set(ROWS) - set(PLAIN) - set(SCALED) - {s.op for s, _ in SPECIAL.values()})
)
def test_other_float_nodes_are_of_version_1(op):
    assert version(BASE[op]) == 1
