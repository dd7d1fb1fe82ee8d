"""Windows that slide over spatial dimensions: their geometry, and convolutions.

A tensor is [N, C, spatial…]. TFLite knows two paddings: VALID, none, and SAME, which puts half of
what the last window lacks before and the rest behind. Everything else is a PAD before the window;
XNNPACK fuses a PAD of zeros into the convolution that follows.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import ONNX_TEXT, Need, case, lower, need, run
from straightway.lower.selection import every, join, part

AUTO_PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The attributes that convolutions and pools share, as the model has them."""

    kernel_shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    auto_pad: str = "NOTSET"
    group: int = 1

    def __post_init__(self) -> None:
        """Refuse what ONNX's shape functions let pass."""
        if self.auto_pad not in AUTO_PADS:
            raise InvalidModel(f"auto_pad is one of {', '.join(AUTO_PADS)}; got '{self.auto_pad}'")
        if self.group < 1:
            raise InvalidModel(f"a convolution has at least one group; got {self.group}")

    def check_weights(self, x: Value, w: Value, b: Value | None, split: tuple[int, int]) -> None:
        """Raise InvalidModel unless weights and bias fit; `split`: channels in and out, by weights."""
        channels, results = split
        fits = x.shape[1] == channels and channels % self.group == 0 and results % self.group == 0
        if not fits or w.rank != x.rank:
            raise InvalidModel(
                f"weights {list(w.shape)} do not fit {list(x.shape)} in {self.group} groups"
            )
        if self.kernel_shape and self.kernel_shape != w.shape[2:]:
            raise InvalidModel(
                f"kernel_shape {list(self.kernel_shape)} contradicts weights {list(w.shape)}"
            )
        if b is not None and b.shape != (results,):
            raise InvalidModel(f"the bias must be [{results}]; got {list(b.shape)}")

    def spans(
        self, sizes: Sequence[int], kernel: Sequence[int], outs: Sequence[int]
    ) -> tuple["Span", ...]:
        """Put the attributes together, one spatial dimension at a time."""
        count = len(sizes)
        strides = self.strides or (1,) * count
        dilations = self.dilations or (1,) * count
        pads = self.pads or (0,) * (2 * count)
        found = []
        for d in range(count):
            before, after = pads[d], pads[d + count]
            extent = (kernel[d] - 1) * dilations[d] + 1
            grown = {"NOTSET": max(before + after, 0), "VALID": 0}.get(self.auto_pad, extent)
            room = sizes[d] + grown
            if sizes[d] and (outs[d] < 1 or room < extent):
                raise InvalidModel(f"a window of {kernel[d]} does not fit into {sizes[d]} elements")
            if self.auto_pad != "NOTSET":
                total = max((outs[d] - 1) * strides[d] + extent - sizes[d], 0)
                before, after = divide(total, self.auto_pad)
            found.append(
                Span(
                    size=sizes[d],
                    kernel=kernel[d],
                    stride=strides[d],
                    dilation=dilations[d],
                    before=before,
                    after=after,
                    out=outs[d],
                    auto_pad=self.auto_pad,
                )
            )
        return tuple(found)


def divide(total: int, auto_pad: str) -> tuple[int, int]:
    """Split padding as `auto_pad` says: the odd element behind (SAME_UPPER) or before."""
    if auto_pad == "VALID":
        return 0, 0
    half = total // 2
    return (half, total - half) if auto_pad == "SAME_UPPER" else (total - half, half)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """How a window slides along one dimension: elements, all of them.

    `before` and `after` are the declared padding; `out` is the number of windows, which `ceil_mode`
    may make one more than the padded input holds.
    """

    size: int
    kernel: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0
    out: int
    auto_pad: str = "NOTSET"

    @property
    def extent(self) -> int:
        """Elements from the first to the last that one window reads."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def lacking(self) -> int:
        """Elements that the last window reads behind the input; negative: left unread."""
        return (self.out - 1) * self.stride + self.extent - self.size - self.before

    @property
    def is_valid(self) -> bool:
        """Whether TFLite's VALID is this."""
        return self.before == 0 and -self.stride < self.lacking <= 0

    @property
    def is_same(self) -> bool:
        """Whether TFLite's SAME is this (kernels/padding.h: ComputePaddingWithOffset)."""
        total = max((self.out - 1) * self.stride + self.extent - self.size, 0)
        return self.out == math.ceil(self.size / self.stride) and self.before == total // 2

    @property
    def is_always_valid(self) -> bool:
        """Whether VALID is this at any size of the input."""
        return self.auto_pad in ("NOTSET", "VALID") and self.before == self.after == 0

    @property
    def is_always_same(self) -> bool:
        """Whether SAME is this at any size of the input."""
        total = self.extent - 1
        even = self.before == total // 2 and self.before + self.after == total
        if (
            self.auto_pad == "SAME_UPPER"
        ):  # where strides pass the kernel, runtimes differ by the size
            return self.extent >= self.stride
        return self.stride == 1 and even

    @property
    def is_identity(self) -> bool:
        """Whether each window is one element, in order."""
        return self.kernel == 1 and self.stride == 1 and self.before == 0 and self.out == self.size

    def places(self, tap: int) -> range:
        """What one tap of every window reads of the padded dimension."""
        start = tap * self.dilation
        return range(start, start + self.out * self.stride, self.stride)

    def behind(self, tap: int) -> int:
        """Elements at the end that windows which fit never read by this tap."""
        return self.extent - 1 - tap * self.dilation

    def counts(self, before: int, after: int) -> np.ndarray:
        """Elements of each window that lie on the input or on so much padding around it."""
        starts = np.arange(self.out) * self.stride - self.before
        reads = starts[:, None] + np.arange(self.kernel) * self.dilation
        return ((reads >= -before) & (reads < self.size + after)).sum(1)


Spans = tuple[Span, ...]


def padded(g: Builder, x: Value, spans: Spans, fill: float = 0.0) -> tuple[Value, str]:
    """Pad `x` unless TFLite's own padding does; return it, and the padding that remains to do."""
    own = own_padding(g, spans)
    if own is not None:
        return x, own
    if is_open(g):
        return padded_as_declared(g, x, spans, fill), "VALID"
    for d, s in enumerate(spans):
        if s.lacking <= -s.stride:
            x = part(g, x, d + 2, 0, s.size + s.lacking)
    pairs = [(s.before, max(s.lacking, 0)) for s in spans]
    return g.pad(x, [(0, 0), (0, 0), *pairs], fill), "VALID"


def is_open(g: Builder) -> bool:
    """Whether the node must hold at other sizes of its spatial dimensions."""
    return any(dim >= 2 for dim in g.open_dims)


def own_padding(g: Builder, spans: Spans) -> str | None:
    """The padding of TFLite that is the declared one, if there is one."""
    opened = is_open(g)
    if all(s.is_always_valid if opened else s.is_valid for s in spans):
        return "VALID"
    if all(s.is_always_same if opened else s.is_same for s in spans):
        return "SAME"
    return None


def padded_as_declared(g: Builder, x: Value, spans: Spans, fill: float) -> Value:
    """Pad by what the model says, whatever the size: VALID leaves unread what the rest is."""
    check_declared(g, spans)
    pairs = [(s.before, s.after) for s in spans]
    return g.pad(x, [(0, 0), (0, 0), *pairs], fill)


def check_declared(g: Builder, spans: Spans) -> None:
    """Refuse padding, or a number of windows, that another size changes."""
    if any(s.auto_pad.startswith("SAME") and s.stride > 1 for s in spans):
        g.need_fixed_size(f"{spans[0].auto_pad} padding")
    if any(s.lacking > s.after or s.lacking <= s.after - s.stride for s in spans):
        g.need_fixed_size("the number of windows")


def steps(spans: Spans) -> dict[str, tuple[int, ...]]:
    """Return the options that every window op takes."""
    return {"strides": tuple(s.stride for s in spans)}


Slide = Callable[[Value, Spans], Value]


def over_pairs(g: Builder, x: Value, spans: Spans, slide: Slide) -> Value:
    """Slide over two spatial dimensions at a time, the others counting as batch.

    For what is separable. TFLite's windows have at most two dimensions.
    """
    if len(spans) <= 2:
        return slide(x, spans)
    todo = [d for d, span in enumerate(spans) if not span.is_identity]
    for place in range(0, len(todo), 2):
        dims = todo[place : place + 2]
        x = over_some(g, x, spans, dims, slide)
    return x


def over_some(g: Builder, x: Value, spans: Spans, dims: Sequence[int], slide: Slide) -> Value:
    """Slide over the spatial dimensions `dims`: the others are folded into the batch."""
    others = [d for d in range(len(spans)) if d not in dims]
    order = [0, *(d + 2 for d in others), 1, *(d + 2 for d in dims)]
    y = g.transpose(x, order)
    lead = y.shape[: 1 + len(others)]
    y = slide(g.reshape(y, (math.prod(lead), *y.shape[len(lead) :])), tuple(spans[d] for d in dims))
    y = g.reshape(y, (*lead, *y.shape[1:]))
    return g.transpose(y, [order.index(d) for d in range(len(order))])


def is_certain(win: Window, sizes: Sequence[int], kernel: Sequence[int]) -> bool:
    """Whether ONNX Runtime pads as the specification says.

    Where the stride exceeds the kernel by two, SAME leaves elements unread behind; ONNX Runtime
    crops before, too (core/providers/common.h, ComputePad).
    """
    outs = [math.ceil(size / s) for size, s in zip(sizes, win.strides, strict=False)]
    spans = win.spans(sizes, kernel, outs) if win.auto_pad.startswith("SAME") and outs else ()
    return all(s.lacking > -2 for s in spans)


EXPLICIT = "write the pads instead of auto_pad"
CERTAIN = (
    "with auto_pad, strides must not pass the kernel, where ONNX Runtime crops; got {win.auto_pad}, "
    "strides {win.strides}"
)


def spatial(least: int, most: int) -> Need:
    """Limit the number of spatial dimensions."""
    text = f"there must be {least} to {most} spatial dimensions; got the shape {{x.shape}}"
    return need(lambda x: least <= x.rank - 2 <= most, text, possible=True)


FLAT = need(
    lambda x: 0 not in x.shape, "the tensor must not be empty; got {x.shape}", kernel=ONNX_TEXT
)


def wave(*shape: int) -> np.ndarray:
    """Weights for samples: no two alike, of both signs."""
    return np.sin(np.arange(1, math.prod(shape) + 1)).reshape(shape).astype(np.float32)


def no_bias(g: Builder, x: Value, channels: int) -> Value:
    """Zeros: CONV_2D needs a bias (kernels/conv.cc, Prepare), and so does XNNPACK's delegate."""
    return g.const(np.zeros(channels, x.dtype))


@lower(
    "Conv",
    needs=[
        spatial(1, 3),
        FLAT,
        need(
            lambda win, x, w: is_certain(win, x.shape[2:], w.shape[2:]),
            CERTAIN,
            remedy=EXPLICIT,
            possible=True,
        ),
    ],
    samples=[
        case(x=(2, 3, 7, 10), w=wave(5, 3, 3, 2), pads=(1, 0, 2, 1)),
        case(x=(2, 3, 11), w=wave(4, 3, 2), b=(4,), auto_pad="SAME_LOWER"),
        case(x=(2, 4, 8, 9), w=wave(8, 1, 3, 3), group=4, strides=(2, 1)),
        case(x=(2, 6, 8, 9), w=wave(4, 3, 3, 3), group=2, dilations=(2, 1)),
        case(x=(2, 4, 5, 6, 7), w=wave(6, 2, 3, 2, 2), group=2),
        case(x=(2, 3, 7, 10), w=run(wave(5, 3, 3, 2))),
        case(x=(2, 4, 5, 6, 7), w=run(wave(6, 2, 3, 2, 2)), group=2),
    ],
    refuses=[
        case(x=(2, 3, 4, 4, 4, 4), w=wave(5, 3, 1, 1, 1, 1)),
        case(x=(0, 3, 7, 12), w=wave(5, 3, 1, 1)),
        case(x=(2, 3, 7, 12), w=wave(5, 3, 1, 1), strides=(1, 3), auto_pad="SAME_UPPER"),
    ],
)
def conv(
    g: Builder,
    x: Value,
    w: Value,
    b: Value | None = None,
    /,
    *,
    win: Window,
    out: list[TensorType],
) -> Value:
    """One group is CONV_2D, one input channel a group DEPTHWISE_CONV_2D, groups CONV_2D again."""
    if w.rank != x.rank:
        raise InvalidModel(f"filters have as many dimensions as {x.type}; got {w.type}")
    win.check_weights(x, w, b, (w.shape[1] * win.group, w.shape[0]))
    spans = win.spans(x.shape[2:], w.shape[2:], out[0].dims[2:])
    bias = no_bias(g, x, w.shape[0]) if b is None else b
    if len(spans) == 3:
        return conv_3d(g, x, w, bias, spans)
    return convolve(g, x, w, bias, spans)


def need_finite(weights: Value) -> None:
    """Refuse constants that make NaN of padding, and NaN itself, of which XNNPACK's pools make -inf."""
    if weights.const is not None and not np.isfinite(weights.const).all():
        raise NotYet("weights and biases that are infinite or NaN are not lowered")


def convolve(g: Builder, x: Value, w: Value, bias: Value, spans: Spans) -> Value:
    """Convolve over one or two dimensions; the groups follow from the shapes."""
    need_finite(w)
    need_finite(bias)
    x, padding = padded(g, x, spans)
    options = {**steps(spans), "dilations": tuple(s.dilation for s in spans), "padding": padding}
    channels = x.shape[1]
    if w.shape[1] == 1 and channels > 1:
        multiplier = w.shape[0] // channels
        return g.DEPTHWISE_CONV_2D(x, w, bias, multiplier=multiplier, **options)
    # a filter with fewer channels than the input has is grouped: kernels/conv.cc, Prepare, and
    # xnnpack_delegate.cc, VisitConv2DNode
    return g.CONV_2D(x, w, bias, **options)


def conv_3d(g: Builder, x: Value, w: Value, bias: Value, spans: Spans) -> Value:
    """Convolve in 2-D over depth taps laid side by side as channels.

    TFLite's CONV_3D is float only, has no groups, and XNNPACK has none.
    """
    depth, *flat = spans
    joined = depth_taps(g, x, depth, x.shape[1] // w.shape[1])
    side_by_side = g.transpose(w, (0, 2, 1, 3, 4))
    weights = g.reshape(side_by_side, (w.shape[0], w.shape[1] * depth.kernel, *w.shape[3:]))
    y = convolve(g, joined, weights, bias, tuple(flat))
    return unfolded(g, y, depth.out)


def depth_taps(g: Builder, x: Value, depth: Span, groups: int) -> Value:
    """Lay what each window reads along the depth side by side as channels, group by group.

    [N, C, D, H, W] → [N·out, groups·taps·(C / groups), H, W].
    """
    n, channels, _, *sizes = x.shape
    lead = (n * depth.out, channels, *sizes)
    if is_open(g):
        check_declared(g, (depth,))
    after = depth.after if is_open(g) else max(depth.lacking, 0)
    x = g.pad(x, [(0, 0), (0, 0), (depth.before, after), (0, 0), (0, 0)])
    taps = []
    for tap in range(depth.kernel):
        y = every(g, x, 2, depth.places(tap), depth.behind(tap) if is_open(g) else None)
        y = g.reshape(g.transpose(y, (0, 2, 1, 3, 4)), lead)
        taps.append(g.reshape(y, (lead[0], groups, channels // groups, *sizes)))
    joined = join(g, taps, 2)
    return g.reshape(joined, (lead[0], channels * depth.kernel, *sizes))


def unfolded(g: Builder, x: Value, depth: int) -> Value:
    """[N·depth, C, H, W] → [N, C, depth, H, W]."""
    y = g.reshape(x, (x.shape[0] // depth, depth, *x.shape[1:]))
    return g.transpose(y, (0, 2, 1, 3, 4))
