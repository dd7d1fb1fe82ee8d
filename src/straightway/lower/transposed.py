"""Transposed convolutions.

ONNX's pads crop the result; `output_padding` lengthens it. TFLite's SAME crops half before and the
rest behind; VALID crops nothing, and may lengthen the result by less than a stride.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.selection import crop, join, part
from straightway.lower.window import (
    FLAT,
    Span,
    Window,
    convolve,
    depth_taps,
    is_open,
    need_finite,
    no_bias,
    spatial,
    unfolded,
    wave,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transposed(Window):
    """The attributes of a transposed convolution, as the model has them."""

    output_padding: tuple[int, ...] = ()
    output_shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """How a transposed convolution grows one dimension: elements, all of them.

    `before` is what is cropped before; `out` is the size of the result, which says what is cropped
    or added behind.
    """

    size: int
    kernel: int
    stride: int
    before: int
    out: int

    @property
    def full(self) -> int:
        """The size without cropping."""
        return (self.size - 1) * self.stride + self.kernel

    @property
    def behind(self) -> int:
        """Elements cropped behind; negative: elements that no input reaches, which hold the bias."""
        return self.full - self.before - self.out

    @property
    def is_same(self) -> bool:
        """Whether TFLite's SAME is this.

        XNNPACK's delegate wants the stride not to exceed the kernel (xnnpack_delegate.cc,
        CalculateTransposeConvPaddings).
        """
        total = self.full - self.out
        fits = self.size == math.ceil(self.out / self.stride) and total >= 0
        return fits and self.before == total // 2 and self.kernel >= self.stride


def growths(
    win: Transposed, sizes: Sequence[int], kernel: Sequence[int], outs: Sequence[int]
) -> tuple[Growth, ...]:
    """Put the attributes together, one spatial dimension at a time.

    Where `output_shape` or `auto_pad` is given, the padding follows from it: the odd element behind
    for SAME_UPPER, else before (the operator's own text).
    """
    follows = bool(win.output_shape) or win.auto_pad.startswith("SAME")
    found = []
    for d, (size, k, out) in enumerate(zip(sizes, kernel, outs, strict=True)):
        stride = win.strides[d] if win.strides else 1
        extra = win.output_padding[d] if win.output_padding else 0
        before = win.pads[d] if win.pads else 0
        if follows:
            total = max((size - 1) * stride + k + extra - out, 0)
            upper = win.auto_pad == "SAME_UPPER"
            before = total // 2 if upper else total - total // 2
        found.append(Growth(size=size, kernel=k, stride=stride, before=before, out=out))
    return tuple(found)


def spread(g: Builder, w: Value, dilations: Sequence[int]) -> Value:
    """Put dilation into the weights, as zeros between them."""
    for d, dilation in enumerate(dilations):
        size = (w.shape[d + 2] - 1) * dilation + 1
        w = part(g, spaced(g, w, d + 2, dilation), d + 2, 0, size)
    return w


@lower(
    "ConvTranspose",
    needs=[
        spatial(1, 3),
        FLAT,
        need(
            lambda x, out: out[0].rank == x.rank,
            "output_shape must not be smaller than the input, for which ONNX infers no shape; "
            "got {win.output_shape} for {x.shape}",
            kernel="onnx/docs/Operators.md#ConvTranspose",
        ),
        need(
            lambda win: not (win.auto_pad.startswith("SAME") and any(win.output_padding)),
            "with auto_pad, output_padding must be 0, since ONNX's shape inference gives another size than "
            "ONNX Runtime; got {win.output_padding}",
            remedy="write the pads instead of auto_pad",
            possible=True,
        ),
    ],
    samples=[
        case(x=(2, 3, 5, 7), w=wave(3, 4, 3, 3), strides=(2, 3), pads=(1, 0, 0, 1)),
        case(
            x=(2, 3, 5, 7),
            w=wave(3, 4, 2, 3),
            dilations=(3, 1),
            strides=(2, 1),
            output_padding=(1, 0),
        ),
        case(x=(2, 6, 5, 7), w=wave(6, 2, 3, 2), b=(4,), group=2, strides=(1, 2)),
        case(x=(2, 4, 5, 7), w=wave(4, 1, 4, 3), group=4, strides=(2, 1), pads=(1, 1, 1, 1)),
        case(x=(2, 3, 9), w=wave(3, 5, 4), auto_pad="SAME_UPPER", strides=(2,)),
        case(x=(2, 3, 5, 7), w=run(wave(3, 4, 3, 3)), strides=(2, 3), dilations=(1, 2)),
        case(x=(2, 4, 5, 7), w=run(wave(4, 3, 3, 2)), group=4, strides=(2, 1)),
        case(x=(2, 4, 3, 4, 5), w=run(wave(4, 3, 3, 2, 3)), group=2, strides=(2, 1, 2)),
        case(x=(2, 4, 3, 4, 5), w=wave(4, 3, 3, 2, 3), group=2, strides=(2, 1, 2), pads=(1,) * 6),
    ],
    refuses=[
        case(x=(2, 3, 4, 5, 6, 7), w=wave(3, 4, 2, 2, 2, 2)),
        case(x=(0, 3, 4, 5), w=wave(3, 4, 2, 2)),
        case(x=(2, 3, 4, 5), w=wave(3, 4, 2, 2), output_shape=(3, 4)),
        case(
            x=(2, 3, 4, 5),
            w=wave(3, 4, 2, 2),
            strides=(2, 2),
            auto_pad="SAME_UPPER",
            output_padding=(1, 0),
        ),
    ],
)
def conv_transpose(
    g: Builder,
    x: Value,
    w: Value,
    b: Value | None = None,
    /,
    *,
    win: Transposed,
    out: list[TensorType],
) -> Value:
    """Groups run one by one, but for one output channel of each input: that is depthwise."""
    win.check_weights(x, w, b, (w.shape[0], w.shape[1] * win.group))
    need_finite(w)
    if min(out[0].dims) < 1:
        raise InvalidModel(f"the pads {list(win.pads)} crop the whole result: {out[0]}")
    w = spread(g, w, win.dilations or (1,) * (x.rank - 2))
    bias = no_bias(g, x, w.shape[1] * win.group) if b is None else b
    spans = growths(win, x.shape[2:], w.shape[2:], out[0].dims[2:])
    if len(spans) == 3:
        return grow_3d(g, x, w, bias, spans)
    return grow_flat(g, x, w, bias, spans)


def grow_flat(g: Builder, x: Value, w: Value, bias: Value, spans: tuple[Growth, ...]) -> Value:
    """Over one or two dimensions; the groups follow from the shapes."""
    group = bias.shape[0] // w.shape[1]
    if group > 1 and w.shape[0] == group:
        return depthwise(g, x, w, bias, spans)
    if group > 1:
        return by_groups(g, x, w, bias, spans)
    return grow(g, x, w, bias, spans)


def grow_3d(g: Builder, x: Value, w: Value, bias: Value, spans: tuple[Growth, ...]) -> Value:
    """Zeros between the inputs along the depth, then depth taps side by side as channels."""
    depth, *flat = spans
    group = bias.shape[0] // w.shape[1]
    wide = spaced(g, x, 2, depth.stride)
    cropped = max(depth.before - depth.kernel + 1, 0)
    window = Span(
        size=wide.shape[2],
        kernel=depth.kernel,
        before=max(depth.kernel - 1 - depth.before, 0),
        out=depth.out + cropped,
    )
    joined = depth_taps(g, wide, window, group)
    by_group = (group, w.shape[0] // group, *w.shape[1:])
    turned = g.transpose(g.reshape(flipped(g, w, (2,)), by_group), (0, 3, 1, 2, 4, 5))
    weights = g.reshape(turned, (w.shape[0] * depth.kernel, w.shape[1], *w.shape[3:]))
    y = grow_flat(g, joined, weights, bias, tuple(flat))
    return part(g, unfolded(g, y, window.out), 2, cropped, depth.out)


def grow(g: Builder, x: Value, w: Value, bias: Value, spans: tuple[Growth, ...]) -> Value:
    """One TRANSPOSE_CONV: SAME where that is it, else VALID and what must be cropped cut off."""
    strides = tuple(s.stride for s in spans)
    square = len(spans) == 1 or strides[0] == strides[1]
    if g.open_dims - {1} and w.const is not None and square and max(strides) > 1:
        return grow_by_blocks(g, x, w, bias, spans)
    shape = (x.shape[0], w.shape[1])
    if all(s.is_same for s in spans) and not is_open(g):
        sizes = (*shape, *(s.out for s in spans))
        return g.TRANSPOSE_CONV(x, w, bias, strides=strides, padding="SAME", output_shape=sizes)
    w = lengthen(g, w, [max(-s.behind - s.stride + 1, 0) for s in spans])
    sizes = (*shape, *(s.full + max(-s.behind, 0) for s in spans))
    y = g.TRANSPOSE_CONV(x, w, bias, strides=strides, padding="VALID", output_shape=sizes)
    kept = (*shape, *(s.out for s in spans))
    return crop(g, y, (0, 0, *(s.before for s in spans)), kept)


def grow_by_blocks(g: Builder, x: Value, w: Value, bias: Value, spans: tuple[Growth, ...]) -> Value:
    """A convolution whose channels are the blocks of stride × stride results between two inputs.

    TRANSPOSE_CONV is told the shape of its result, which XNNPACK's delegate wants to be a constant
    (xnnpack_delegate.cc, VisitTransposeConvNode): this holds at any size. Result q·stride + r is the
    sum over j of input q - j by weight j·stride + r.
    """
    stride = spans[0].stride
    w = lengthen(
        g, w, [max(-s.behind, 0) + (-s.kernel - max(-s.behind, 0)) % stride for s in spans]
    )
    taps = tuple(size // stride for size in w.shape[2:])
    pairs = [size for count in taps for size in (count, stride)]
    split = np.asarray(w.const).reshape(*w.shape[:2], *pairs)
    turned = np.flip(split, tuple(range(2, split.ndim, 2)))
    order = (*range(3, split.ndim, 2), 1, 0, *range(2, split.ndim, 2))
    channels = w.shape[1] * stride ** len(spans)
    weights = g.const(turned.transpose(order).reshape(channels, w.shape[0], *taps))
    around = [
        Span(size=s.size, kernel=k, before=k - 1, after=k - 1, out=s.size + k - 1)
        for s, k in zip(spans, taps, strict=True)
    ]
    y = convolve(g, x, weights, tiled(g, bias, stride ** len(spans)), tuple(around))
    y = spread_blocks(g, y, stride)
    kept = (*y.shape[:2], *(s.out for s in spans))
    return crop(g, y, (0, 0, *(s.before for s in spans)), kept)


def tiled(g: Builder, bias: Value, count: int) -> Value:
    """The same bias for each result of a block."""
    if bias.const is not None:
        return g.const(np.tile(bias.const, count))
    return join(g, [bias] * count, 0)


def spread_blocks(g: Builder, x: Value, stride: int) -> Value:
    """Channels [block…, C] as pixels."""
    if x.rank == 4:
        return g.DEPTH_TO_SPACE(x, block_size=stride)
    n, c, size = x.shape
    split = g.reshape(x, (n, stride, c // stride, size))
    return g.reshape(g.transpose(split, (0, 2, 3, 1)), (n, c // stride, size * stride))


def lengthen(g: Builder, w: Value, extra: Sequence[int]) -> Value:
    """Append zeros to weights: the result grows by as much."""
    return bordered(g, w, [(0, 0), (0, 0), *((0, e) for e in extra)])


def bordered(g: Builder, x: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """Pad with zeros what may be a constant."""
    if x.const is None or not any(a or b for a, b in pairs):
        return g.pad(x, pairs)
    key = ("pad", tuple(map(tuple, pairs)))
    return g.rearranged(x, key, lambda array: np.pad(array, pairs))


def flipped(g: Builder, w: Value, axes: tuple[int, ...]) -> Value:
    """Turn weights round; REVERSE_V2 takes neighbouring axes only (kernels/reverse.cc)."""
    if w.const is not None:
        return g.rearranged(w, ("flip", axes), lambda a: np.ascontiguousarray(np.flip(a, axes)))
    for axis in axes:
        w = w if w.shape[axis] == 1 else g.REVERSE_V2(w, axes=(axis,))
    return w


def by_groups(g: Builder, x: Value, w: Value, bias: Value, spans: tuple[Growth, ...]) -> Value:
    """TRANSPOSE_CONV has no groups: one for each, side by side."""
    width = w.shape[1]
    group = bias.shape[0] // width
    step = x.shape[1] // group
    parts = []
    for k in range(group):
        weights = part(g, w, 0, k * step, step)
        own = part(g, bias, 0, k * width, width)
        parts.append(grow(g, part(g, x, 1, k * step, step), weights, own, spans))
    return join(g, parts, 1)


def depthwise(g: Builder, x: Value, w: Value, bias: Value, spans: tuple[Growth, ...]) -> Value:
    """Zeros between the inputs, then a depthwise convolution with the kernel turned round."""
    for d, s in enumerate(spans):
        x = spaced(g, x, d + 2, s.stride)
    turned = flipped(g, w, tuple(range(2, w.rank)))
    weights = g.reshape(turned, (bias.shape[0], 1, *w.shape[2:]))
    windows = tuple(
        Span(
            size=x.shape[d + 2],
            kernel=s.kernel,
            before=max(s.kernel - 1 - s.before, 0),
            after=max(s.kernel - 1 - s.behind - (s.stride - 1), 0),
            out=s.out + max(s.before - s.kernel + 1, 0),
        )
        for d, s in enumerate(spans)
    )
    y = convolve(g, x, weights, bias, windows)
    kept = (*y.shape[:2], *(s.out for s in spans))
    return crop(g, y, (0, 0, *(max(s.before - s.kernel + 1, 0) for s in spans)), kept)


def spaced(g: Builder, x: Value, axis: int, stride: int) -> Value:
    """Put stride - 1 zeros behind each element of an axis."""
    if stride == 1:
        return x
    shape = list(x.shape)
    y = g.reshape(x, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    pairs = [(0, stride - 1) if d == axis + 1 else (0, 0) for d in range(y.rank)]
    y = bordered(g, y, pairs)
    shape[axis] *= stride
    return g.reshape(y, shape)
