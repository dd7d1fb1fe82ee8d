"""Pools, and the response normalisation that pools over channels."""

import math
from dataclasses import replace

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import ONNX_TEXT, case, lower, need, run
from straightway.lower.pool_places import greatest_places
from straightway.lower.selection import every
from straightway.lower.tables import refuse_large_table
from straightway.lower.window import (
    CERTAIN,
    EXPLICIT,
    FLAT,
    Span,
    Spans,
    Window,
    is_certain,
    is_open,
    over_pairs,
    own_padding,
    padded,
    spatial,
    steps,
)

# What never gives a number below zero, or passes on what it gets.
NEVER_NEGATIVE = frozenset(
    ["RELU", "RELU6", "RELU_0_TO_1", "LOGISTIC", "EXP", "ABS", "SQUARE", "SQRT", "SOFTMAX"]
)
KEEPS_SIGN = frozenset(
    [
        "MAX_POOL_2D",
        "AVERAGE_POOL_2D",
        "RESHAPE",
        "TRANSPOSE",
        "SLICE",
        "STRIDED_SLICE",
        "CONCATENATION",
        "ADD",
        "MUL",
        "PAD",
        "REDUCE_MAX",
        "MEAN",
        "DEPTH_TO_SPACE",
        "SPACE_TO_DEPTH",
    ]
)


def never_negative(value: Value) -> bool:
    """Whether a value is proven to hold no number below zero."""
    todo, seen = [value], {value}
    while todo:
        current = todo.pop()
        if current.const is not None:
            if current.const.size and float(current.const.min()) < 0:
                return False
            continue
        node = current.producer
        if node is None:
            return False
        if node.op.name in NEVER_NEGATIVE or node.attrs.get("activation") in ("RELU", "RELU6"):
            continue
        if node.op.name not in KEEPS_SIGN:
            return False
        fresh = [v for v in node.operands() if v not in seen]
        seen.update(fresh)
        todo += fresh
    return True


POOL = [
    spatial(1, 4),
    FLAT,
    need(
        lambda win, x: is_certain(win, x.shape[2:], win.kernel_shape),
        CERTAIN,
        remedy=EXPLICIT,
        possible=True,
    ),
    need(
        lambda win: not win.auto_pad.startswith("SAME") or all(d == 1 for d in win.dilations),
        "with auto_pad, dilations must be 1, since ONNX Runtime gives another shape than the "
        "specification; got {win.auto_pad}, dilations {win.dilations}",
        remedy=EXPLICIT,
        possible=True,
    ),
]
POOL_REFUSES = [
    case(x=(1, 2, 2, 2, 2, 2, 2), kernel_shape=(1,) * 5),
    case(x=(0, 3, 6, 7), kernel_shape=(2, 2)),
    case(x=(2, 3, 7, 12), kernel_shape=(1, 1), strides=(1, 3), auto_pad="SAME_UPPER"),
    case(x=(2, 3, 7, 9), kernel_shape=(2, 2), dilations=(1, 2), auto_pad="SAME_LOWER"),
]


def reads_all(x: Value, win: Window, out: list[TensorType]) -> bool:
    """Whether every window reads an element of the input."""
    return bool(averaged(win.spans(x.shape[2:], win.kernel_shape, out[0].dims[2:]), 0).all())


@lower(
    "MaxPool",
    needs=[
        *POOL,
        need(
            reads_all, "no window must lie on padding only; got pads {win.pads}", kernel=ONNX_TEXT
        ),
    ],
    samples=[
        case(x=(2, 3, 7, 10), kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1)),
        case(x=(2, 3, 8, 9), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1),
        case(x=(2, 3, 11), kernel_shape=(3,), strides=(2,), auto_pad="SAME_LOWER"),
        case(x=(2, 3, 8, 9), kernel_shape=(2, 3), dilations=(3, 2)),
        case(x=(2, 3, 5, 6, 7), kernel_shape=(2, 3, 2), strides=(1, 2, 2)),
        case(x=run(np.arange(-99, 69).reshape(2, 3, 4, 7), np.int8), kernel_shape=(3, 2)),
        case(x=(2, 3, 7, 10), kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1), outputs=2),
        case(x=(2, 3, 7, 8), kernel_shape=(2, 3), dilations=(2, 1), storage_order=1, outputs=2),
        case(x=(2, 3, 11), kernel_shape=(1,), strides=(2,), outputs=2),
        case(x=(2, 3, 4, 5, 6), kernel_shape=(2, 2, 2), outputs=2),
        case(x=run(np.arange(42).reshape(1, 1, 6, 7) % 5, np.int8), kernel_shape=(2, 2), outputs=2),
    ],
    refuses=[
        *POOL_REFUSES,
        case(x=(2, 3, 6, 7), kernel_shape=(2, 2), pads=(2, 0, 0, 0)),
    ],
)
def max_pool(
    g: Builder,
    x: Value,
    /,
    *,
    win: Window,
    ceil_mode: int = 0,
    storage_order: int = 0,
    out: list[TensorType],
) -> list[Value]:
    """Padding is −∞, or zero where nothing is negative: XNNPACK has a PAD of zeros.

    Whole numbers go through float32, which holds 8 bits exactly.
    """
    spans = win.spans(x.shape[2:], win.kernel_shape, out[0].dims[2:])
    if ceil_mode and is_open(g):
        spans = tuple(with_last_window(g, span) for span in spans)
    wide = g.cast(x, np.float32) if x.dtype.kind in "iu" else x
    found = [g.cast(maximum(g, wide, spans), x.dtype)]
    if len(out) > 1:
        found.append(greatest_places(g, wide, spans, by_column=bool(storage_order)))
    return found


def with_last_window(g: Builder, span: Span) -> Span:
    """Padding behind with which a last window that is cut off is there at every size.

    It starts on the input as long as a window reads so far.
    """
    if span.extent < span.after + span.stride:
        g.need_fixed_size("ceil_mode")
    return replace(span, after=span.after + span.stride - 1)


def maximum(g: Builder, x: Value, spans: Spans) -> Value:
    """Pool floats."""
    fill = 0.0 if never_negative(x) else -math.inf
    for d, span in enumerate(spans):
        if span.dilation > 1:
            x = dilated_max(g, x, d + 2, span, fill)
    rest = tuple(same_size(s.out) if s.dilation > 1 else s for s in spans)

    def slide(y: Value, some: Spans) -> Value:
        if all(s.is_identity for s in some):
            return y
        if is_faster_apart(some):
            first, second = some
            y = slide(y, (first, same_size(second.size)))
            return slide(y, (same_size(first.out), second))
        y, padding = padded(g, y, some, fill)
        kernel = tuple(s.kernel for s in some)
        return g.MAX_POOL_2D(y, filter=kernel, padding=padding, **steps(some))

    return over_pairs(g, x, rest, slide)


def same_size(size: int) -> Span:
    """A window of one element, which leaves a dimension as it is."""
    return Span(size=size, kernel=1, out=size)


def is_faster_apart(spans: Spans) -> bool:
    """Whether rows, then columns read so much less that two ops are faster than one.

    Measured on XNNPACK, two against one: 3×3 1.6 times, 4×4 of stride 2 1.4 times, 5×5 0.7 times, 9×9
    0.25 times, 5×5 of stride 2 as long.
    """
    if len(spans) != 2:
        return False
    (first, second) = spans
    together = first.kernel * second.kernel
    return together > 2 * (first.kernel * second.stride + second.kernel)


def dilated_max(g: Builder, x: Value, axis: int, span: Span, fill: float) -> Value:
    """The greatest of the taps, each a slice: TFLite pools without dilation."""
    pairs = [(0, 0)] * x.rank
    pairs[axis] = (span.before, max(span.lacking, 0))
    x = g.pad(x, pairs, fill)
    taps = [every(g, x, axis, span.places(tap)) for tap in range(span.kernel)]
    found = taps[0]
    for tap in taps[1:]:
        found = g.MAXIMUM(found, tap)
    return found


@lower(
    "AveragePool",
    needs=[
        *POOL,
        need(
            lambda x, win, count_include_pad, out: bool(
                averaged(
                    win.spans(x.shape[2:], win.kernel_shape, out[0].dims[2:]), count_include_pad
                ).all()
            ),
            "no window must lie on padding only, of which the average is 0/0; got pads {win.pads}, "
            "dilations {win.dilations}",
            kernel=ONNX_TEXT,
        ),
    ],
    samples=[
        case(x=(2, 3, 7, 10), kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1)),
        case(x=(2, 3, 7, 10), kernel_shape=(3, 2), pads=(1, 0, 1, 1), count_include_pad=1),
        case(x=(2, 3, 8, 9), kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1),
        case(x=(2, 3, 11), kernel_shape=(3,), strides=(2,), auto_pad="SAME_LOWER"),
        case(x=(2, 3, 8, 9), kernel_shape=(2, 3), dilations=(3, 2), pads=(1, 1, 1, 1)),
        case(x=(2, 3, 5, 6, 7), kernel_shape=(2, 3, 2), pads=(1, 1, 0, 0, 1, 1)),
    ],
    refuses=[*POOL_REFUSES, case(x=(2, 3, 4, 2), kernel_shape=(1, 2), pads=(0, 2, 0, 2))],
)
def average_pool(
    g: Builder,
    x: Value,
    /,
    *,
    win: Window,
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    out: list[TensorType],
) -> Value:
    """TFLite's SAME leaves padding out of the average; a factor sets right what counts otherwise.

    Declared padding may count, what `ceil_mode` adds behind it never does. Padding that TFLite does
    not know is left to a convolution, into which XNNPACK fuses it.
    """
    if ceil_mode and is_open(g):
        g.need_fixed_size("ceil_mode")
    spans = win.spans(x.shape[2:], win.kernel_shape, out[0].dims[2:])

    def slide(y: Value, some: Spans) -> Value:
        wanted = averaged(some, count_include_pad)
        plain = all(s.dilation == 1 for s in some)
        if is_open(g) and len(set(wanted.flat)) > 1 and not (plain and own_padding(g, some)):
            return g.DIV(window_sum(g, y, some), window_counts(g, y, some))
        if not plain or own_padding(g, some) is None:
            share = 1 / wanted.min() if wanted.min() == wanted.max() else 1.0
            return rescaled(g, window_sum(g, y, some, share), 1 / (wanted * share))
        kernel = tuple(s.kernel for s in some)
        y, padding = padded(g, y, some)
        y = g.AVERAGE_POOL_2D(y, filter=kernel, padding=padding, **steps(some))
        divided = averaged(some, 0) if padding == "SAME" else math.prod(kernel)
        return rescaled(g, y, divided / wanted)

    return over_pairs(g, x, spans, slide)


def averaged(spans: Spans, count_include_pad: int) -> np.ndarray:
    """Elements that each window averages: [spatial…]."""
    found = np.ones((), int)
    for s in spans:
        before, after = (s.before, s.after) if count_include_pad else (0, 0)
        found = np.multiply.outer(found, s.counts(before, after))
    return found


def rescaled(g: Builder, x: Value, factors: np.ndarray) -> Value:
    """Multiply each window's result by its own factor: [spatial…]."""
    if np.all(factors == 1):
        return x
    return g.MUL(x, factors.astype(np.float32)[None, None])


def window_sum(g: Builder, x: Value, spans: Spans, share: float = 1.0) -> Value:
    """Add up a share of each element of a window: a depthwise convolution; padding is zero."""
    channels = x.shape[1]
    x, padding = padded(g, x, spans)
    kernel = tuple(s.kernel for s in spans)
    weights = g.const(np.full((channels, 1, *kernel), share, x.dtype))
    zeros = g.const(np.zeros(channels, x.dtype))
    dilations = tuple(s.dilation for s in spans)
    options = {**steps(spans), "dilations": dilations, "padding": padding}
    return g.DEPTHWISE_CONV_2D(x, weights, zeros, multiplier=1, **options)


def window_counts(g: Builder, x: Value, spans: Spans) -> Value:
    """Elements of the input that each window reads, whatever the size: sums of ones."""
    keeps, g.keeps = g.keeps, True  # as a constant it would be that of one size
    ones = g.const(np.ones((1, 1, *x.shape[2:]), x.dtype))
    found = window_sum(g, ones, spans)
    g.keeps = keeps
    return found


# the p-th power of 1e-4 of the greatest element must be more than the least normal number, 1e-38
MOST_ORDER = 10


def power(g: Builder, x: Value, p: float) -> Value:
    """|x| to the p-th power."""
    if p == 2:
        return g.MUL(x, x)
    return g.ABS(x) if p == 1 else g.POW(g.ABS(x), float(p))


def root(g: Builder, x: Value, p: float) -> Value:
    """The p-th root of what is not negative."""
    if p == 2:
        return g.SQRT(x)
    return x if p == 1 else g.POW(x, 1.0 / p)


LP_NEEDS = [
    need(lambda p: p >= 1, "the order of a norm must be at least 1; got {p}", kernel=ONNX_TEXT),
    need(
        lambda p: p < MOST_ORDER,
        "the order must be low, since powers vanish where float32 is flushed to zero; got {p}",
        possible=True,
    ),
]


@lower(
    "LpPool",
    needs=[*POOL, *LP_NEEDS],
    samples=[
        case(x=(2, 3, 7, 10), kernel_shape=(3, 2), strides=(2, 2), pads=(1, 0, 1, 1)),
        case(x=(2, 3, 11), kernel_shape=(3,), p=1, strides=(2,), auto_pad="SAME_LOWER"),
        case(x=(2, 3, 8, 9), kernel_shape=(2, 3), p=3, dilations=(3, 2)),
        case(x=(2, 3, 5, 6, 7), kernel_shape=(2, 3, 2)),
    ],
    refuses=[
        *POOL_REFUSES,
        case(x=(2, 3, 6, 7), kernel_shape=(2, 2), p=0),
        case(x=(2, 3, 6, 7), kernel_shape=(2, 2), p=10),
    ],
)
def lp_pool(
    g: Builder,
    x: Value,
    /,
    *,
    win: Window,
    p: float = 2,
    ceil_mode: int = 0,
    out: list[TensorType],
) -> Value:
    """The p-th root of the window's sum of p-th powers."""
    if ceil_mode and is_open(g):
        g.need_fixed_size("ceil_mode")
    spans = win.spans(x.shape[2:], win.kernel_shape, out[0].dims[2:])
    sums = over_pairs(g, power(g, x, p), spans, lambda y, some: window_sum(g, y, some))
    return root(g, sums, p)


GLOBAL = [spatial(1, 6), FLAT]
GLOBAL_SAMPLES = [case(x=(2, 3, 7, 10)), case(x=(2, 3, 5)), case(x=(2, 3, 5, 6, 7))]
GLOBAL_REFUSES = [case(x=(2, 3)), case(x=(2, 3, 0, 4))]


@lower(
    "GlobalAveragePool",
    "GlobalMaxPool",
    needs=GLOBAL,
    samples=GLOBAL_SAMPLES,
    refuses=GLOBAL_REFUSES,
)
def global_pool(g: Builder, x: Value, /, *, op: str) -> Value:
    """A reduction over the spatial dimensions."""
    name = "MEAN" if op == "GlobalAveragePool" else "REDUCE_MAX"
    return g.emit(name, [x], {"axes": tuple(range(2, x.rank)), "keep_dims": True})


@lower(
    "GlobalLpPool",
    needs=[*GLOBAL, *LP_NEEDS],
    samples=[*GLOBAL_SAMPLES, case(x=(2, 3, 5, 4), p=1), case(x=(2, 3, 5, 4), p=3)],
    refuses=[*GLOBAL_REFUSES, case(x=(2, 3, 5, 4), p=0), case(x=(2, 3, 5, 4), p=10)],
)
def global_lp_pool(g: Builder, x: Value, /, *, p: float = 2) -> Value:
    """The p-th root of the sum of p-th powers."""
    sums = g.SUM(power(g, x, p), axes=tuple(range(2, x.rank)), keep_dims=True)
    return root(g, sums, p)


@lower(
    "LRN",
    needs=[
        need(
            lambda x: x.rank >= 3,
            "the tensor must be [N, C, spatial…]; got {x.shape}",
            kernel=ONNX_TEXT,
        ),
        need(lambda bias: bias > 0, "bias must be positive; got {bias}", possible=True),
    ],
    samples=[
        case(x=(2, 7, 5, 6), size=3),
        case(x=(2, 8, 5, 6), size=3, alpha=0.5, beta=0.5, bias=2.0),
        case(x=(2, 6, 5, 4), size=5, alpha=0.2, beta=1.0),
        case(x=(2, 6, 5, 4), size=5, alpha=0.2, beta=0.3),
    ],
    refuses=[
        case(x=(2, 3), size=3),
        case(x=(2, 7, 5, 6), size=3, bias=0.0),
        case(x=(1, 2**13, 1, 1), size=3),
    ],
)
def local_response_normalization(
    g: Builder, x: Value, /, *, size: int, alpha: float, beta: float, bias: float
) -> Value:
    """The window over channels is a matrix of ones near the diagonal: one FULLY_CONNECTED.

    TFLite's LOCAL_RESPONSE_NORMALIZATION takes odd sizes only, and XNNPACK has none.
    """
    if size < 1:
        raise InvalidModel(f"the window holds at least one channel; got size {size}")
    channels = x.shape[1]
    refuse_large_table("the window over channels", channels, channels)
    apart = np.arange(channels)[None] - np.arange(channels)[:, None]
    near = (apart >= -((size - 1) // 2)) & (apart <= size // 2)
    weights = g.const((near * (alpha / size)).astype(x.dtype))
    scale = g.FULLY_CONNECTED(g.MUL(x, x), weights, np.full(channels, bias, x.dtype), axis=1)
    return divided_by_power(g, x, scale, beta)


def divided_by_power(g: Builder, x: Value, scale: Value, beta: float) -> Value:
    """Divide x by scaleᵝ, for a positive scale, by ops that XNNPACK runs."""
    if beta == 1:
        return g.DIV(x, scale)
    if beta == 0.5:
        return g.MUL(x, g.RSQRT(scale))
    if beta == 0.75:
        inverse = g.RSQRT(scale)
        return g.MUL(g.MUL(x, inverse), g.SQRT(inverse))
    return g.MUL(x, g.EXP(g.MUL(g.LOG(scale), -beta)))
