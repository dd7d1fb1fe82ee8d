"""Samples that XNNPACK's delegate leaves out, one for each thing that it asks."""

from dataclasses import replace

import numpy as np

from row_samples import control, elementwise, matrix, reduce, shape, window
from row_samples.numbers import whole
from row_samples.quantized import quant, quantize, quantize_weights
from row_samples.ranks import BY_RANK
from row_samples.sample import Sample

BASE: dict[str, Sample] = {}
for _sample in (
    *elementwise.SAMPLES,
    *shape.SAMPLES,
    *reduce.SAMPLES,
    *window.SAMPLES,
    *matrix.SAMPLES,
    *control.SAMPLES,
):
    BASE.setdefault(_sample.op, _sample)

TANH = {"fusedActivationFunction": 4}
MORE = whole(2, 1, 2, 1, 3, 1, 2)
INT8 = np.dtype(np.int8)
FLOAT16 = np.dtype(np.float16)


def changed(op: str, **changes: object) -> Sample:
    """The op's first sample with something else."""
    return replace(BASE[op], **changes)


def eight_bit(op: str, scales: dict[int | str, float]) -> Sample:
    """An int8 sample with these scales."""
    base = BASE[op].as_type(INT8)
    return replace(base, quants={k: quant(scale) for k, scale in scales.items()})


def delegated() -> list[Sample]:
    """The first sample of each row that XNNPACK may take."""
    return [sample for sample in BASE.values() if not isinstance(sample.row.xnnpack, str)]


def wrong_types() -> list[Sample]:
    """int32 everywhere; float16 where only float32 is taken."""
    int32 = [sample.as_type(np.dtype(np.int32)) for sample in delegated()]
    half = ("MAX_POOL_2D", "RESIZE_BILINEAR", "SPACE_TO_DEPTH", "TRANSPOSE_CONV")
    float16 = [BASE[op].as_type(FLOAT16) for op in half]
    return [*int32, *float16]


SAMPLES = [
    # an activation that XNNPACK can't fuse
    *(
        changed(op, written=TANH)
        for op in (
            "ADD",
            "SUB",
            "MUL",
            "DIV",
            "CONV_2D",
            "DEPTHWISE_CONV_2D",
            "TRANSPOSE_CONV",
            "FULLY_CONNECTED",
            "AVERAGE_POOL_2D",
            "MAX_POOL_2D",
        )
    ),
    *wrong_types(),
    # more than six dimensions
    *(BY_RANK[s.op](7) for s in delegated() if s.op in BY_RANK and s.row.max_rank == 8),
    changed("PAD", inputs=(np.float32(3).reshape(()),), attrs={"paddings": np.zeros((0, 2))}),
    changed("QUANTIZE", inputs=(MORE,)),
    changed("DEQUANTIZE", inputs=(MORE.astype(np.int8),)),
    # scales too far apart
    eight_bit("ADD", {0: 1.0, 1: 1.0, "y0": 2.0**-9}),
    eight_bit("SUB", {0: 1.0, 1: 1.0, "y0": 2.0**11}),
    eight_bit("MUL", {0: 1.0, 1: 1.0, "y0": 2.0**-9}),
    replace(eight_bit("LEAKY_RELU", {0: 1.0, "y0": 2.0**-8}), attrs={"alpha": 0.5}),
    eight_bit("QUANTIZE", {0: 1.0, "y0": 2.0**-8}),
    eight_bit("RESHAPE", {0: 1.0, "y0": 2.0}),
    replace(
        BASE["CONCATENATION"].as_type(np.dtype(np.uint8)),
        quants={0: quant(1.0), 1: quant(2.0), 2: quant(1.0), "y0": quant(1.0)},
    ),
    # products with weights that are quantized as they run
    quantize_weights(BASE["DEPTHWISE_CONV_2D"], INT8, dynamic=True),
    replace(
        quantize(BASE["BATCH_MATMUL"], INT8),
        quants={0: quant(0.1), 1: quant(0.1, 3), "y0": quant(1.0)},
    ),
    # what must be constant
    changed("PRELU", variable=(1,)),
    changed("RESHAPE", variable=(1,), written={"newShape": np.int32([6, 20])}),
    changed("TRANSPOSE", variable=(1,)),
    changed("SLICE", variable=(1,)),
    changed("SLICE", variable=(2,)),
    changed("STRIDED_SLICE", variable=(1,)),
    changed("STRIDED_SLICE", variable=(2,)),
    changed("STRIDED_SLICE", variable=(3,)),
    changed("PAD", variable=(1,)),
    changed("SPLIT", variable=(0,)),
    *(changed(op, variable=(1,)) for op in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")),
    *(
        changed(op, variable=(k,))
        for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
        for k in (1, 2)
    ),
    changed("TRANSPOSE_CONV", variable=(0,)),
    changed("TRANSPOSE_CONV", variable=(1,)),
    changed("TRANSPOSE_CONV", inputs=(*BASE["TRANSPOSE_CONV"].inputs, whole(3)), variable=(3,)),
    changed("RESIZE_BILINEAR", variable=(1,)),
    # forms
    changed("RESHAPE", inputs=(whole(5),), attrs={"shape": (5,)}, operands={1: np.int32([-1])}),
    changed("RESHAPE", inputs=(MORE,), attrs={"shape": (24,)}),
    changed("RESHAPE", inputs=(whole(24),), attrs={"shape": MORE.shape}),
    changed("SLICE", operands={2: np.int32([2, -1, 4, -1])}),
    changed("SLICE", inputs=(MORE,), attrs={"begin": (0,) * 7, "size": (1, 1, 2, 1, 2, 1, 2)}),
    changed(
        "STRIDED_SLICE",
        attrs={
            "begin": (0, 2, 0, 4),
            "end": (2, -1, 4, -1),
            "strides": (1, -1, 2, -1),
            "end_mask": (0, 1, 0, 1),
        },
    ),
    changed(
        "STRIDED_SLICE",
        inputs=(MORE,),
        attrs={
            "begin": (0,) * 7,
            "end": (1, 1, 2, 1, 2, 1, 2),
            "strides": (1,) * 7,
            "end_mask": (0,) * 7,
        },
    ),
    changed(
        "STRIDED_SLICE",
        inputs=(whole(3, 4),),
        attrs={"begin": (1, 0), "end": (2, 4), "strides": (1, 1), "end_mask": (0, 0)},
        written={"shrinkAxisMask": 1},
    ),
    changed(
        "STRIDED_SLICE",
        inputs=(whole(3, 4),),
        attrs={"begin": (1, 0), "end": (2, 4), "strides": (1, 1), "end_mask": (0, 0)},
        written={"ellipsisMask": 2},
    ),
    changed(
        "STRIDED_SLICE",
        inputs=(whole(3, 4),),
        attrs={"begin": (1, 0), "end": (2, 4), "strides": (1, 1), "end_mask": (0, 0)},
        written={"newAxisMask": 1},
    ),
    changed("TRANSPOSE", inputs=(MORE,), attrs={"perm": (6, *range(6))}),
    changed("CONCATENATION", inputs=(whole(2, 3),), attrs={"axis": 1}),
    changed("CONCATENATION", inputs=(whole(2, 3),) * 6, attrs={"axis": 1}),
    changed("SPLIT", inputs=(whole(2, 5),), attrs={"axis": 1, "num_splits": 5}),
    changed("SPLIT", inputs=(whole(2, 5),), attrs={"axis": 1, "num_splits": 1}),
    *(
        changed(op, attrs={"axes": (), "keep_dims": True})
        for op in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN")
    ),
    changed("LEAKY_RELU", attrs={"alpha": 0.0}),
    changed("CONV_2D", inputs=BASE["CONV_2D"].inputs[:2]),
    changed("CONV_2D", inputs=(*BASE["CONV_2D"].inputs[:2], None)),
    changed("DEPTHWISE_CONV_2D", inputs=BASE["DEPTHWISE_CONV_2D"].inputs[:2]),
    changed(
        "TRANSPOSE_CONV",
        attrs={"strides": (2, 3), "padding": "SAME", "output_shape": (2, 3, 10, 18)},
    ),
    changed(
        "TRANSPOSE_CONV",
        attrs={"strides": (2, 1), "padding": "SAME", "output_shape": (2, 3, 9, 6)},
    ),
    *(
        changed(op, attrs={"filter": (2, 3), "strides": (3, 1), "padding": "VALID"})
        for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
    ),
    changed("DEPTH_TO_SPACE", attrs={"block_size": 1}),
    changed("SPACE_TO_DEPTH", attrs={"block_size": 1}),
]
