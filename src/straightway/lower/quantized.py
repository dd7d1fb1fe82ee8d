"""Quantized numbers at run time, computed as the specification says: in float32, exactly.

Products of 8-bit numbers add up to whole numbers below 2**24 as long as they are at most 258, so that
float32 holds each of them; longer sums are made of such pieces, as int32.
"""

import math
from collections.abc import Sequence
from functools import reduce

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import INT32, is_integer
from straightway.lower.matrix import of_matrices, product
from straightway.lower.selection import part, take
from straightway.lower.window import FLAT, Window, conv_3d, convolve, no_bias, spatial

FLOAT = np.dtype(np.float32)
INT8 = np.dtype(np.int8)
UINT8 = np.dtype(np.uint8)
INT16 = np.dtype(np.int16)
# kernels compute with the reciprocal
SMALLEST_SCALE = 2.0**-126
MOST_PRODUCTS = 2**24 // 255**2
NUMBERS = run(np.arange(24).reshape(2, 3, 4) * 11 - 128, np.int8)
BYTES = run(np.arange(24).reshape(2, 3, 4) * 11, np.uint8)
REALS = run(np.linspace(-3, 3, 24).reshape(2, 3, 4))
SCALES = np.array([0.5, 0.25, 0.125], np.float32)
SCALE = np.array(0.0625, np.float32)


def axis_of(scale: Value, axis: int, rank: int) -> int:
    """The dimension that scales differ along. One scale for all of the tensor is along none."""
    return 0 if math.prod(scale.shape) == 1 and not -rank <= axis < rank else counted(axis, rank)


def aligned(g: Builder, x: Value, parameter: Value, axis: int, block_size: int) -> Value:
    """Give a scale or a zero point the dimensions of its tensor: of all, of an axis, or of blocks."""
    if block_size:
        size = x.shape[axis]
        blocks = [-(-d // block_size) if k == axis else d for k, d in enumerate(x.shape)]
        if list(parameter.shape) != blocks:
            raise InvalidModel(
                f"blocks of {block_size} of {x.type} have no scales {parameter.type}"
            )
        return take(g, parameter, [k // block_size for k in range(size)], axis)
    if math.prod(parameter.shape) == 1:
        return g.reshape(parameter, ())
    if parameter.shape != x.shape[axis : axis + 1]:
        raise InvalidModel(f"axis {axis} of {x.type} has no scales {parameter.type}")
    return g.reshape(parameter, [d if k == axis else 1 for k, d in enumerate(x.shape)])


def less_zero_point(g: Builder, x: Value, zero_point: Value | None) -> Value:
    """Quantized numbers less their zero point, as floats: exact up to 24 bits."""
    wide = g.cast(x, FLOAT)
    return wide if zero_point is None else g.SUB(wide, g.cast(zero_point, FLOAT))


def saturated(g: Builder, quotient: Value, zero_point: Value | None, dtype: np.dtype) -> Value:
    """Round, halves to even, add the zero point, and keep within the type's limits."""
    limits = np.iinfo(dtype)
    whole = g.ROUND(quotient)
    if zero_point is not None:
        whole = g.ADD(whole, g.cast(zero_point, FLOAT))
    return g.cast(g.MINIMUM(g.MAXIMUM(whole, float(limits.min)), float(limits.max)), dtype)


def fixed(scale: Value, zero_point: Value | None, dtype: np.dtype) -> dict[str, float | int] | None:
    """The attributes of QUANTIZE and DEQUANTIZE; None where the parameters are not theirs.

    They are constants, one for the tensor, and int16 has a zero point of 0.
    """
    if dtype not in (INT8, UINT8, INT16) or scale.const is None or scale.const.size != 1:
        return None
    if zero_point is not None and (zero_point.const is None or zero_point.const.size != 1):
        return None
    factor = float(scale.const.reshape(-1)[0])
    offset = 0 if zero_point is None else int(zero_point.const.reshape(-1)[0])  # type: ignore[union-attr]
    if not (SMALLEST_SCALE < factor < math.inf) or (dtype == INT16 and offset):
        return None
    return {"scale": factor, "zero_point": offset}


def unlike(scale: Value, dtype: np.dtype) -> str:
    """What QUANTIZE takes, where these parameters are not its own; see `fixed`."""
    if dtype not in (INT8, UINT8, INT16):
        return f"TFLite's QUANTIZE gives int8, uint8 and int16; the model rounds to {dtype}"
    if scale.const is None:
        return "TFLite's QUANTIZE has a constant scale; that of the model is computed as it runs"
    if scale.const.size != 1:
        return "TFLite's QUANTIZE has one scale for a tensor that is no constant; the model has several"
    if dtype == INT16:
        return "TFLite's QUANTIZE to int16 has a zero point of 0; that of the model is another"
    return "TFLite's QUANTIZE has a constant scale and zero point within the range of floats"


def signed(found: dict[str, float | int]) -> dict[str, float | int]:
    """The same for int8, which holds uint8 less 128."""
    return {**found, "zero_point": int(found["zero_point"]) - 128}


@lower(
    "DequantizeLinear",
    needs=[
        need(
            lambda x: is_integer(x) and x.dtype.itemsize <= 4,
            "operands at run time must be integers of 8 to 32 bits; got {x.type}",
            possible=True,
        )
    ],
    samples=[
        case(x=NUMBERS, x_scale=SCALE, x_zero_point=np.array(3, np.int8)),
        case(x=BYTES, x_scale=SCALES, x_zero_point=np.array([1, 128, 255], np.uint8), axis=1),
        case(x=NUMBERS, x_scale=run(SCALES), axis=-2),
        case(
            x=BYTES,
            x_scale=np.array([[[0.5] * 4], [[0.25] * 4]], np.float32).repeat(2, 1),
            axis=1,
            block_size=2,
        ),
        case(x=run([[70000, -3]], np.int32), x_scale=SCALE),
    ],
    refuses=[case(x=(2, 3), x_scale=SCALE)],
)
def dequantize(
    g: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None = None,
    /,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Value:
    """(x - zero point) · scale."""
    found = None if block_size else fixed(x_scale, x_zero_point, x.dtype)
    if found is not None and x.const is None:
        if x.dtype == UINT8:
            found = signed(found)
            x = g.QUANTIZE(x, dtype=INT8, **found)
        return g.DEQUANTIZE(x, **found)
    place = axis_of(x_scale, axis, x.rank)
    scale, zero_point = (
        None if v is None else aligned(g, x, v, place, block_size) for v in (x_scale, x_zero_point)
    )
    return g.MUL(less_zero_point(g, x, zero_point), scale)


@lower(
    "QuantizeLinear",
    needs=[
        need(
            lambda x, out: (
                x.dtype == FLOAT
                and np.issubdtype(out[0].dtype, np.integer)
                and out[0].dtype.itemsize <= 2
            ),
            "operands at run time must be floats, and become integers of 8 or 16 bits; got {x.type}, {out[0]}",
            possible=True,
        )
    ],
    samples=[
        case(x=REALS, y_scale=SCALE, y_zero_point=np.array(3, np.int8)),
        case(x=REALS, y_scale=SCALES, y_zero_point=np.array([1, 128, 255], np.uint8), axis=1),
        case(x=run([[0.5, 1.5, 2.5, -0.5, 1e9, -1e9]]), y_scale=np.array(1, np.float32)),
        case(x=REALS, y_scale=run(SCALE), y_zero_point=run(-5000, np.int16)),
    ],
    refuses=[case(x=run([[3]], np.int32), y_scale=SCALE)],
)
def quantize(
    g: Builder,
    x: Value,
    y_scale: Value,
    y_zero_point: Value | None = None,
    /,
    *,
    axis: int = 1,
    saturate: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    out: list[TensorType],
) -> Value:
    """X / scale, rounded, plus the zero point."""
    known = y_scale.const
    if known is not None and not (np.isfinite(known) & (known > 0)).all():
        raise NotYet(f"a scale is a positive number; got {known.reshape(-1)[:4]}")
    found = None if block_size else fixed(y_scale, y_zero_point, out[0].dtype)
    if found is not None and x.const is None:
        if out[0].dtype == UINT8:
            return g.QUANTIZE(g.QUANTIZE(x, dtype=INT8, **signed(found)), dtype=UINT8, **found)
        return g.QUANTIZE(x, dtype=out[0].dtype, **found)
    if x.const is None:
        g.miss(f"rounded by ops on floats, for {unlike(y_scale, out[0].dtype)}")
    place = axis_of(y_scale, axis, x.rank)
    scale, zero_point = (
        None if v is None else aligned(g, x, v, place, block_size) for v in (y_scale, y_zero_point)
    )
    return saturated(g, g.DIV(x, scale), zero_point, out[0].dtype)


@lower(
    "DynamicQuantizeLinear",
    needs=[
        need(
            lambda x: 0 not in x.shape,
            "the tensor must not be empty; got {x.shape}",
            kernel="onnx/docs/Operators.md#DynamicQuantizeLinear",
            remedy="leave the operator out, or give its input sizes above zero with --dim or --shape",
        )
    ],
    samples=[
        case(x=REALS, outputs=3),
        case(x=run([[0.5, 1.25, 7.0]]), outputs=3),
        case(x=run([[-3.0, -1.25, -0.5]]), outputs=3),
    ],
    refuses=[case(x=run(np.zeros((2, 0))), outputs=3)],
)
def dynamic_quantize(g: Builder, x: Value, /) -> list[Value]:
    """To uint8 over the range of the tensor and zero."""
    axes = tuple(range(x.rank))
    low = g.MINIMUM(g.REDUCE_MIN(x, axes=axes, keep_dims=False), 0.0)
    high = g.MAXIMUM(g.REDUCE_MAX(x, axes=axes, keep_dims=False), 0.0)
    scale = g.DIV(g.SUB(high, low), 255.0)
    # a range of zero: onnxruntime's scale is 1 then, as it is of a tensor of zeros in the file
    some = g.SELECT_V2(g.GREATER(scale, 0.0), scale, g.const(1, FLOAT))
    zero_point = g.ROUND(g.DIV(g.SUB(g.const(0, FLOAT), low), some))
    numbers = saturated(g, g.DIV(x, some), zero_point, UINT8)
    return [numbers, some, g.cast(zero_point, UINT8)]


def multiplied(g: Builder, a: Value, b: Value) -> Value:
    """Multiply matrices of whole numbers, floats of 9 bits, as int32."""
    inner = a.shape[-1]
    pieces = []
    for start in range(0, max(inner, 1), MOST_PRODUCTS):
        count = min(MOST_PRODUCTS, inner - start)
        rows, columns = part(g, a, a.rank - 1, start, count), part(g, b, b.rank - 2, start, count)
        pieces.append(g.cast(product(g, rows, columns), INT32))
    return reduce(g.ADD, pieces)


def by_row(g: Builder, parameter: Value | None) -> Value | None:
    """Let a parameter of rows stand beside a matrix."""
    if parameter is None or parameter.rank != 1 or parameter.shape[0] == 1:
        return parameter
    return g.reshape(parameter, (*parameter.shape, 1))


LONG = (np.arange(600) % 256).astype(np.uint8)


@lower(
    "MatMulInteger",
    samples=[
        case(a=BYTES, b=run(LONG[:20].reshape(4, 5), np.uint8)),
        case(
            a=NUMBERS,
            b=LONG[:20].reshape(4, 5) // 2,
            a_zero_point=np.array(3, np.int8),
            b_zero_point=np.array([1, 2, 3, 4, 5], np.uint8),
        ),
        case(a=run(LONG.reshape(1, 600), np.uint8), b=LONG[::-1].reshape(600, 1).copy()),
        case(a=run(LONG, np.uint8), b=LONG[::-1].reshape(600, 1).copy()),
    ],
)
def matmul_integer(
    g: Builder,
    a: Value,
    b: Value,
    a_zero_point: Value | None = None,
    b_zero_point: Value | None = None,
    /,
) -> Value:
    """A product of floats, in pieces that float32 holds."""
    rows = less_zero_point(g, a, by_row(g, a_zero_point))
    return of_matrices(g, rows, less_zero_point(g, b, b_zero_point), multiplied)


def requantized(
    g: Builder, whole: Value, scales: Sequence[Value], zero_point: Value, dtype: np.dtype
) -> Value:
    """Whole numbers times the scales of both operands over that of the result, as ONNX Runtime has it."""
    first, second, result = scales
    factor = g.DIV(g.MUL(first, second), result)
    return saturated(g, g.MUL(g.cast(whole, FLOAT), factor), zero_point, dtype)


@lower(
    "QLinearMatMul",
    samples=[
        case(
            a=BYTES,
            a_scale=SCALE,
            a_zero_point=np.array(7, np.uint8),
            b=LONG[:20].reshape(4, 5),
            b_scale=np.array(0.05, np.float32),
            b_zero_point=np.array(9, np.uint8),
            y_scale=np.array(0.9, np.float32),
            y_zero_point=np.array(100, np.uint8),
        )
    ],
)
def qlinear_matmul(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    a: Value,
    a_scale: Value,
    a_zero_point: Value,
    b: Value,
    b_scale: Value,
    b_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    /,
    *,
    out: list[TensorType],
) -> Value:
    """A product of whole numbers, scaled and rounded."""
    rows = less_zero_point(g, a, by_row(g, a_zero_point))
    whole = of_matrices(g, rows, less_zero_point(g, b, b_zero_point), multiplied)
    row_scale = by_row(g, a_scale)
    scales = [row_scale if row_scale is not None else a_scale, b_scale, y_scale]
    return requantized(g, whole, scales, y_zero_point, out[0].dtype)


def window_fits(w: Value) -> bool:
    """Whether float32 holds the sum over one channel of a window."""
    return math.prod(w.shape[2:]) <= MOST_PRODUCTS


FITS = need(
    window_fits,
    f"a window must have at most {MOST_PRODUCTS} elements; got {{w.type}}",
    possible=True,
)
IMAGE = run((np.arange(120) * 7 % 256).reshape(2, 3, 4, 5), np.uint8)
FILTERS = (np.arange(36) * 5 % 256).reshape(2, 3, 3, 2).astype(np.uint8)
DEEP_IMAGE = run((np.arange(300 * 4) * 7 % 256).reshape(1, 300, 2, 2), np.uint8)


def convolved(g: Builder, x: Value, w: Value, win: Window, sizes: Sequence[int]) -> Value:
    """Convolve whole numbers, floats of 9 bits, as int32."""
    win.check_weights(x, w, None, (w.shape[1] * win.group, w.shape[0]))
    spans = win.spans(x.shape[2:], w.shape[2:], sizes)
    channels, groups = w.shape[1], win.group
    step = max(MOST_PRODUCTS // math.prod(w.shape[2:]), 1)
    split = g.reshape(x, (x.shape[0], groups, channels, *x.shape[2:]))
    slide = conv_3d if len(spans) == 3 else convolve
    pieces = []
    for start in range(0, channels, step):
        count = min(step, channels - start)
        lead = (x.shape[0], groups * count)
        some = g.reshape(part(g, split, 2, start, count), (*lead, *x.shape[2:]))
        filters = part(g, w, 1, start, count)
        found = slide(g, some, filters, no_bias(g, x, w.shape[0]), spans)
        pieces.append(g.cast(found, INT32))
    return reduce(g.ADD, pieces)


def by_filter(g: Builder, w: Value, parameter: Value | None) -> Value | None:
    """Let a parameter of filters stand beside them."""
    if parameter is None or math.prod(parameter.shape) == 1:
        return None if parameter is None else g.reshape(parameter, ())
    if parameter.shape != w.shape[:1]:
        raise InvalidModel(
            f"there is a zero point for each filter of {w.type}; got {parameter.type}"
        )
    return g.reshape(parameter, (w.shape[0], *[1] * (w.rank - 1)))


def by_channel(g: Builder, parameter: Value, rank: int) -> Value:
    """Let a parameter of channels stand beside a tensor."""
    if math.prod(parameter.shape) == 1:
        return g.reshape(parameter, ())
    if parameter.rank != 1:
        raise InvalidModel(f"a number for each channel has one dimension; got {parameter.type}")
    return g.reshape(parameter, (parameter.shape[0], *[1] * (rank - 2)))


@lower(
    "ConvInteger",
    needs=[spatial(1, 3), FLAT, FITS],
    samples=[
        case(x=IMAGE, w=FILTERS, x_zero_point=np.array(9, np.uint8), pads=(1, 0, 1, 1)),
        case(x=IMAGE, w=FILTERS, w_zero_point=np.array([3, 100], np.uint8), strides=(1, 2)),
        case(x=DEEP_IMAGE, w=np.full((2, 300, 1, 1), 250, np.uint8)),
    ],
    refuses=[
        case(x=run(np.zeros((1, 1, 2, 2, 2, 2)), np.uint8), w=np.ones((1,) * 6, np.uint8)),
        case(x=run(np.zeros((0, 1, 2, 2)), np.uint8), w=np.ones((1,) * 4, np.uint8)),
        case(x=run(np.zeros((1, 1, 17, 17)), np.uint8), w=np.ones((1, 1, 17, 17), np.uint8)),
    ],
)
def conv_integer(
    g: Builder,
    x: Value,
    w: Value,
    x_zero_point: Value | None = None,
    w_zero_point: Value | None = None,
    /,
    *,
    win: Window,
    out: list[TensorType],
) -> Value:
    """A convolution of floats, in pieces that float32 holds; padding is the zero point."""
    filters = less_zero_point(g, w, by_filter(g, w, w_zero_point))
    return convolved(g, less_zero_point(g, x, x_zero_point), filters, win, out[0].dims[2:])


@lower(
    "QLinearConv",
    needs=[spatial(1, 3), FLAT, FITS],
    samples=[
        case(
            x=IMAGE,
            x_scale=SCALE,
            x_zero_point=np.array(9, np.uint8),
            w=FILTERS,
            w_scale=np.array([0.05, 0.02], np.float32),
            w_zero_point=np.array([100, 100], np.uint8),
            y_scale=np.array(2.3, np.float32),
            y_zero_point=np.array(120, np.uint8),
            b=np.array([300, -500], np.int32),
            pads=(1, 0, 1, 1),
        )
    ],
    refuses=[
        case(
            x=run(np.zeros(shape), np.uint8),
            x_scale=SCALE,
            x_zero_point=np.array(9, np.uint8),
            w=np.ones(kernel, np.uint8),
            w_scale=SCALE,
            w_zero_point=np.array(0, np.uint8),
            y_scale=SCALE,
            y_zero_point=np.array(0, np.uint8),
        )
        for shape, kernel in (
            ((1, 1, 2, 2, 2, 2), (1,) * 6),
            ((0, 1, 2, 2), (1,) * 4),
            ((1, 1, 17, 17), (1, 1, 17, 17)),
        )
    ],
)
def qlinear_conv(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value,
    w: Value,
    w_scale: Value,
    w_zero_point: Value,
    y_scale: Value,
    y_zero_point: Value,
    b: Value | None = None,
    /,
    *,
    win: Window,
    out: list[TensorType],
) -> Value:
    """A convolution of whole numbers plus the bias, scaled and rounded."""
    filters = less_zero_point(g, w, by_filter(g, w, w_zero_point))
    whole = convolved(g, less_zero_point(g, x, x_zero_point), filters, win, out[0].dims[2:])
    whole = whole if b is None else g.ADD(whole, by_channel(g, b, x.rank))
    scales = [x_scale, by_channel(g, w_scale, x.rank), y_scale]
    return requantized(g, whole, scales, y_zero_point, out[0].dtype)
