"""Convolutions, pools, resizing: windows over N, spatial dimensions, channels."""

import math

from straightway.ir import Node
from straightway.tflite.rows import shapes, versions
from straightway.tflite.rows.conditions import (
    ACTIVATIONS,
    constant,
    float32_or_8_bit,
    floats,
    floats_or_8_bit,
    option,
    present,
    required,
)
from straightway.tflite.rows.matrix import weights_condition
from straightway.tflite.rows.row import ACTIVATION, LOGICAL, Condition, Row, field_, operand, types
from straightway.tflite.rows.versions import by_type, has_option, highest, when

PADDING = field_("padding", role="enum", enum="Padding")
STRIDES = field_("strideH", "strideW", role="spatial")
DILATIONS = field_("dilationHFactor", "dilationWFactor", role="spatial")
STRIDES_3D = field_("strideD", "strideH", "strideW", role="spatial")
DILATIONS_3D = field_("dilationDFactor", "dilationHFactor", "dilationWFactor", role="spatial")
QUANTIZED = types("i8 u8 i16")


def _pool_strides(node: Node) -> bool:
    sizes = ("filterHeight", "strideH"), ("filterWidth", "strideW")
    return all(node.attrs[stride] <= node.attrs[size] for size, stride in sizes)


def _transposed_windows(node: Node) -> bool:
    """CalculateTransposeConvPaddings, delegates/xnnpack/xnnpack_delegate.cc:1754."""
    filters, x = present(node, 1), present(node, 2)
    if filters is None or x is None:
        return False
    for k, stride in ((1, node.attrs["strideH"]), (2, node.attrs["strideW"])):
        kernel, out = filters.shape[k], node.output.shape[k]
        if node.attrs["padding"] in (1, "VALID"):
            fits = kernel <= out
        else:
            fits = kernel >= stride and math.ceil(out / stride) == x.shape[k]
        if not fits:
            return False
    return True


BLOCK = option("blockSize", lambda block: block > 1, "the block must be greater than 1")
CONVOLUTION = (
    required(2, "the bias"),
    weights_condition(0, 1),
    constant(1, "the filter"),
    constant(2, "the bias"),
    ACTIVATIONS,
)
POOL = (
    Condition(test=_pool_strides, text="strides must not exceed the window"),
    ACTIVATIONS,
)
CONVOLUTION_ATTRS = {
    "strides": STRIDES,
    "dilations": DILATIONS,
    "padding": PADDING,
    "activation": ACTIVATION,
    # a hybrid kernel's: floats are rounded as it runs
    "rounds": LOGICAL,
}
NO_ACTIVATION = {"activation": "NONE"}

RESIZED = {
    "size": operand(1, "spatial"),
    "align_corners": field_("alignCorners"),
    "half_pixel_centers": field_("halfPixelCenters"),
}

ROWS = [
    Row(
        name="CONV_2D",
        layout="window",
        # without a bias the runtime fails (conv.cc:411); DEPTHWISE_CONV_2D crashes
        infer=shapes.convolution,
        types=types("f32"),
        quantized=QUANTIZED,
        kernel="kernels/conv.cc:376",
        options="Conv2DOptions",
        attrs=CONVOLUTION_ATTRS,
        defaults=NO_ACTIVATION,
        max_rank=4,
        quant="weights",
        # VisitConv2DNode, delegates/xnnpack/xnnpack_delegate.cc:3873
        xnnpack=CONVOLUTION,
        version=versions.convolution,
        fuses=True,
        channels="mixed",
        weights=(0, "spatial", 1),
    ),
    Row(
        name="DEPTHWISE_CONV_2D",
        layout="window",
        infer=shapes.convolution,
        types=types("f32"),
        quantized=QUANTIZED,
        kernel="kernels/depthwise_conv.cc:143",
        options="DepthwiseConv2DOptions",
        attrs={**CONVOLUTION_ATTRS, "multiplier": field_("depthMultiplier")},
        defaults=NO_ACTIVATION,
        max_rank=4,
        quant="weights",
        # VisitDepthwiseConv2DNode, delegates/xnnpack/xnnpack_delegate.cc:4096
        xnnpack=(
            *CONVOLUTION,
            Condition(
                test=lambda node: present(node, 0).dtype == present(node, 1).dtype,  # type: ignore[union-attr]
                text="the filter must have the operand's type",
            ),
        ),
        version=versions.depthwise,
        fuses=True,
        weights=(1, "spatial", 0),
    ),
    Row(
        name="TRANSPOSE_CONV",
        layout="window",
        infer=shapes.transposed_convolution,
        types=types("f32"),
        quantized=QUANTIZED,
        kernel="kernels/transpose_conv.cc:336",
        options="TransposeConvOptions",
        # written: the result's shape, the filter, the operand, the bias
        attrs={
            "strides": STRIDES,
            "padding": PADDING,
            "activation": ACTIVATION,
            "output_shape": operand(0, "dims"),
        },
        defaults=NO_ACTIVATION,
        max_rank=4,
        quant="weights",
        # VisitTransposeConvNode, delegates/xnnpack/xnnpack_delegate.cc:6727
        xnnpack=(
            constant(0, "the result's shape"),
            constant(1, "the filter"),
            constant(3, "the bias"),
            float32_or_8_bit(2),
            weights_condition(2, 1),
            Condition(
                test=_transposed_windows,
                text="VALID: the filter must fit the result; SAME: it must reach the stride",
            ),
            ACTIVATIONS,
        ),
        version=highest(
            has_option("fusedActivationFunction", 4),
            when(lambda node: present(node, 3) is not None, 3),
            by_type("i8:2", operand=1),
        ),
        fuses=True,
        channels="mixed",
        weights=(1, "spatial", 0),
    ),
    Row(
        name="CONV_3D",
        layout="window",
        infer=shapes.convolution,
        types=types("f32"),
        kernel="kernels/conv3d.cc:142",
        options="Conv3DOptions",
        attrs={
            "strides": STRIDES_3D,
            "dilations": DILATIONS_3D,
            "padding": PADDING,
            "activation": ACTIVATION,
        },
        defaults=NO_ACTIVATION,
        max_rank=5,
        xnnpack="XNNPACK's delegate takes no CONV_3D",
        fuses=True,
        channels="mixed",
        weights=("spatial", 1, 0),
    ),
    Row(
        name="CONV_3D_TRANSPOSE",
        layout="window",
        infer=shapes.transposed_convolution,
        types=types("f32"),
        kernel="kernels/conv3d_transpose.cc:188",
        options="Conv3DOptions",
        # written: the result's shape, the filter, the operand, the bias
        attrs={
            "strides": STRIDES_3D,
            "dilations": DILATIONS_3D,
            "padding": PADDING,
            "activation": ACTIVATION,
            "output_shape": operand(0, "dims"),
        },
        defaults=NO_ACTIVATION,
        max_rank=5,
        xnnpack="XNNPACK's delegate takes no CONV_3D_TRANSPOSE",
        channels="mixed",
        weights=("spatial", 1, 0),
    ),
    *(
        Row(
            name=name,
            layout="window",
            infer=shapes.pool,
            types=types(names),
            quantized=types(quantized),
            kernel=f"kernels/pooling.cc:{line}",
            options="Pool2DOptions",
            attrs={
                "filter": field_("filterHeight", "filterWidth", role="spatial"),
                "strides": STRIDES,
                "padding": PADDING,
                "activation": ACTIVATION,
            },
            defaults=NO_ACTIVATION,
            max_rank=4,
            quant="same" if quantized else "float",
            xnnpack=delegated,
            version=versions.INT8_INT16,
            fuses=True,
        )
        for name, names, line, quantized, delegated in (
            # VisitAveragePool2DNode, delegates/xnnpack/xnnpack_delegate.cc:3455
            ("AVERAGE_POOL_2D", "f32", 390, "i8 u8 i16", (floats(0), *POOL)),
            # VisitMaxPool2DNode, delegates/xnnpack/xnnpack_delegate.cc:5123
            (
                "MAX_POOL_2D",
                "f32 i8 u8 i16",
                420,
                "i8 u8 i16",
                (float32_or_8_bit(0), *POOL),
            ),
            ("L2_POOL_2D", "f32", 453, "", "XNNPACK's delegate takes no L2_POOL_2D"),
        )
    ),
    Row(
        name="RESIZE_BILINEAR",
        layout="window",
        infer=shapes.resize,
        types=types("f32"),
        quantized=QUANTIZED,
        kernel="kernels/resize_bilinear.cc:119",
        options="ResizeBilinearOptions",
        attrs=RESIZED,
        max_rank=4,
        quant="same",
        # VisitResizeBilinearNode, delegates/xnnpack/xnnpack_delegate.cc:5739
        xnnpack=(
            float32_or_8_bit(0),
            constant(1, "the size"),
        ),
        version=highest(by_type("i16:4 i8:2"), has_option("halfPixelCenters", 3)),
    ),
    Row(
        name="RESIZE_NEAREST_NEIGHBOR",
        layout="window",
        infer=shapes.resize,
        types=types("f16 bf16 f32 i8 u8 i16 u16 i32 u32 bool"),
        quantized=QUANTIZED,
        moves=True,
        kernel="kernels/resize_nearest_neighbor.cc:109",
        options="ResizeNearestNeighborOptions",
        attrs=RESIZED,
        max_rank=4,
        quant="same",
        xnnpack="XNNPACK's delegate takes no RESIZE_NEAREST_NEIGHBOR",
        version=highest(
            by_type("i16:4 i8:2"), has_option("halfPixelCenters", 3), has_option("alignCorners", 3)
        ),
    ),
    Row(
        name="DEPTH_TO_SPACE",
        layout="window",
        infer=shapes.depth_to_space,
        types=types("f32 i8 u8 i32 i64"),
        quantized=types("i8 u8"),
        moves=True,
        kernel="kernels/depth_to_space.cc:57",
        options="DepthToSpaceOptions",
        attrs={"block_size": field_("blockSize")},
        max_rank=4,
        quant="same",
        # VisitDepthToSpaceNode, delegates/xnnpack/xnnpack_delegate.cc:4232
        xnnpack=(floats_or_8_bit(0), BLOCK),
        version=versions.INT8,
        channels="fixed",
    ),
    Row(
        name="SPACE_TO_DEPTH",
        layout="window",
        infer=shapes.space_to_depth,
        types=types("f32 i8 u8 i32 i64"),
        quantized=types("i8 u8"),
        moves=True,
        kernel="kernels/space_to_depth.cc:57",
        options="SpaceToDepthOptions",
        attrs={"block_size": field_("blockSize")},
        max_rank=4,
        quant="same",
        # VisitSpaceToDepthNode, delegates/xnnpack/xnnpack_delegate.cc:5953
        xnnpack=(
            float32_or_8_bit(0),
            BLOCK,
        ),
        version=versions.INT8,
        channels="fixed",
    ),
    Row(
        name="LOCAL_RESPONSE_NORMALIZATION",
        layout="window",
        infer=shapes.same,
        types=types("f32"),
        kernel="kernels/local_response_norm.cc:50",
        options="LocalResponseNormalizationOptions",
        # divides by (bias + alpha · sum of squares) ^ beta, over radius channels on either side
        attrs={
            "radius": field_("radius"),
            "bias": field_("bias"),
            "alpha": field_("alpha"),
            "beta": field_("beta"),
        },
        max_rank=4,
        xnnpack="XNNPACK's delegate takes no LOCAL_RESPONSE_NORMALIZATION",
        channels="fixed",
    ),
]
