"""Convolutions, pools, resizing: windows over N, spatial dimensions, channels."""

from straightway.tflite.rows import shapes
from straightway.tflite.rows.conditions import FLOAT, constant
from straightway.tflite.rows.row import ACTIVATION, Row, field_, operand, types

PADDING = field_("padding", role="enum", enum="Padding")
STRIDES = field_("strideH", "strideW", role="spatial")
DILATIONS = field_("dilationHFactor", "dilationWFactor", role="spatial")


ROWS = [
    Row(
        name="CONV_2D",
        layout="window",
        infer=shapes.convolution,
        types=types("f32 i8 u8 i16"),
        kernel="kernels/conv.cc",
        options="Conv2DOptions",
        attrs={
            "strides": STRIDES,
            "dilations": DILATIONS,
            "padding": PADDING,
            "activation": ACTIVATION,
        },
        defaults={"activation": "NONE"},
        quant="weights",
        xnnpack=(FLOAT, constant(1, "the filter"), constant(2, "the bias")),
        fuses=True,
    ),
    Row(
        name="DEPTHWISE_CONV_2D",
        layout="window",
        infer=shapes.convolution,
        types=types("f32 i8 u8 i16"),
        kernel="kernels/depthwise_conv.cc",
        options="DepthwiseConv2DOptions",
        attrs={
            "strides": STRIDES,
            "dilations": DILATIONS,
            "padding": PADDING,
            "activation": ACTIVATION,
            "multiplier": field_("depthMultiplier"),
        },
        defaults={"activation": "NONE"},
        quant="weights",
        xnnpack=(FLOAT, constant(1, "the filter"), constant(2, "the bias")),
        fuses=True,
    ),
    Row(
        name="TRANSPOSE_CONV",
        layout="window",
        infer=shapes.transposed_convolution,
        types=types("f32 i8 u8 i16"),
        kernel="kernels/transpose_conv.cc",
        options="TransposeConvOptions",
        attrs={
            "strides": STRIDES,
            "padding": PADDING,
            "activation": ACTIVATION,
            "output_shape": operand(0, "dims"),
        },
        defaults={"activation": "NONE"},
        quant="weights",
        xnnpack=(constant(1, "the filter"), constant(3, "the bias")),
        version=lambda node: 3 if len(node.inputs) > 3 else 1,
        fuses=True,
    ),
    *(
        Row(
            name=name,
            layout="window",
            infer=shapes.pool,
            types=types("f32 i8 u8 i16"),
            kernel="kernels/pooling.cc",
            options="Pool2DOptions",
            attrs={
                "filter": field_("filterHeight", "filterWidth", role="spatial"),
                "strides": STRIDES,
                "padding": PADDING,
                "activation": ACTIVATION,
            },
            defaults={"activation": "NONE"},
            quant="same",
            xnnpack=(FLOAT,),
            fuses=True,
        )
        for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D")
    ),
    *(
        Row(
            name=name,
            layout="window",
            infer=shapes.resize,
            types=types("f32 i8 u8 i16"),
            kernel=f"kernels/{name.lower()}.cc",
            options=options,
            attrs={
                "size": operand(1, "spatial"),
                "align_corners": field_("alignCorners"),
                "half_pixel_centers": field_("halfPixelCenters"),
            },
            quant="same",
            xnnpack=delegated,
            version=version,
        )
        for name, options, delegated, version in (
            ("RESIZE_BILINEAR", "ResizeBilinearOptions", (FLOAT,), lambda _: 3),
            (
                "RESIZE_NEAREST_NEIGHBOR",
                "ResizeNearestNeighborOptions",
                "XNNPACK's delegate takes no RESIZE_NEAREST_NEIGHBOR",
                lambda _: 3,
            ),
        )
    ),
    Row(
        name="DEPTH_TO_SPACE",
        layout="window",
        infer=shapes.depth_to_space,
        types=types("f32 i8 u8 i32 i64"),
        kernel="kernels/depth_to_space.cc",
        options="DepthToSpaceOptions",
        attrs={"block_size": field_("blockSize")},
        quant="same",
        xnnpack=(FLOAT,),
    ),
    Row(
        name="SPACE_TO_DEPTH",
        layout="window",
        infer=shapes.space_to_depth,
        types=types("f32 i8 u8 i32 i64"),
        kernel="kernels/space_to_depth.cc",
        options="SpaceToDepthOptions",
        attrs={"block_size": field_("blockSize")},
        quant="same",
        xnnpack=(FLOAT,),
    ),
]
