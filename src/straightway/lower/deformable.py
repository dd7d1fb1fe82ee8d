"""Convolutions whose taps are moved by offsets that come at run time."""

import math

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need
from straightway.lower.matrix import product
from straightway.lower.sampling import Sampler, gathered, need_finite, neighbours, weighted
from straightway.lower.selection import join, part
from straightway.lower.window import FLAT, Window, wave

NEWEST = 19
AT = Sampler(mode="linear", padding_mode="zeros")


@lower(
    "DeformConv",
    needs=[
        FLAT,
        need(
            lambda x: x.rank == 4,
            "the tensor must be [N, C, spatial, spatial]; got {x.type}",
            kernel="onnx/docs/Operators.md#DeformConv",
        ),
    ],
    samples=[
        case(x=(2, 4, 6, 7), w=wave(3, 4, 2, 3), offset=(2, 12, 7, 7), pads=(1,) * 4, opset=NEWEST),
        case(
            x=(2, 4, 6, 7),
            w=wave(6, 2, 3, 2),
            offset=(2, 24, 2, 3),
            b=wave(6),
            mask=(2, 12, 2, 3),
            group=2,
            offset_group=2,
            strides=(2, 2),
            dilations=(1, 2),
            opset=NEWEST,
        ),
        case(x=(1, 2, 5, 5), w=(3, 2, 2, 2), offset=(1, 8, 4, 4), mask=(1, 4, 4, 4), opset=NEWEST),
    ],
    refuses=[
        case(x=(2, 0, 6, 7), w=wave(3, 1, 2, 2), offset=(2, 8, 5, 6), opset=NEWEST),
        case(x=(2, 4, 6), w=wave(3, 4, 2), offset=(2, 2, 5), opset=NEWEST),
    ],
)
def deform_conv(  # noqa: PLR0917 - the signature is the schema
    g: Builder,
    x: Value,
    w: Value,
    offset: Value,
    b: Value | None = None,
    mask: Value | None = None,
    /,
    *,
    win: Window,
    offset_group: int = 1,
    out: list[TensorType],
) -> Value:
    """Pixels around each moved tap are gathered and summed with weights, then multiplied as columns."""
    win.check_weights(x, w, b, (w.shape[1] * win.group, w.shape[0]))
    count = offset_group * math.prod(w.shape[2:])
    for moved, width in ((offset, 2 * count), (mask, count)):
        if moved is not None and moved.shape != (x.shape[0], width, *out[0].dims[2:]):
            raise InvalidModel(f"offsets and masks have a number for each tap; got {moved.type}")
    need_finite("offsets", offset)
    taps = moved_taps(g, x, offset, _places(x, w, win, out[0].dims[2:]), offset_group)
    if mask is not None:
        taps = g.MUL(taps, g.reshape(mask, (*taps.shape[:2], 1)))
    columns = _columns(g, taps, (x.shape[0], math.prod(w.shape[2:]), math.prod(out[0].dims[2:])))
    width = columns.shape[2] // win.group
    count = w.shape[0] // win.group
    results = []
    for k in range(win.group):
        weights = g.reshape(part(g, w, 0, k * count, count), (count, width))
        rows = part(g, columns, 2, k * width, width)
        results.append(product(g, rows, g.transpose(weights, (1, 0))))
    result = join(g, results, 2)
    result = result if b is None else g.ADD(result, b)
    return g.reshape(g.transpose(result, (0, 2, 1)), out[0].dims)


def _places(
    x: Value, w: Value, win: Window, sizes: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Where each tap of each window stands before it is moved: rows and columns, [taps, windows]."""
    axes = []
    for span in win.spans(x.shape[2:], w.shape[2:], sizes):
        taps = np.arange(span.kernel) * span.dilation - span.before
        axes.append(taps[:, None] + np.arange(span.out) * span.stride)
    rows, columns = (axis.astype(np.float32) for axis in axes)
    shape = (len(rows), len(columns), rows.shape[1], columns.shape[1])
    spread = (rows[:, None, :, None], columns[None, :, None, :])
    flat = (shape[0] * shape[1], shape[2] * shape[3])
    down, across = (np.broadcast_to(axis, shape).reshape(flat) for axis in spread)
    return down, across


def moved_taps(
    g: Builder, x: Value, offset: Value, places: tuple[np.ndarray, np.ndarray], groups: int
) -> Value:
    """What each moved tap reads: [batch · groups, taps · windows, channels of a group]."""
    batch, channels, *sizes = x.shape
    taps, windows = places[0].shape
    images = g.reshape(x, (batch * groups, channels // groups, *sizes))
    offsets = g.reshape(offset, (batch * groups, taps, 2, windows))
    axes = []
    for axis, size in enumerate(sizes):
        moves = g.reshape(part(g, offsets, 2, axis, 1), (batch * groups, taps, windows))
        place = g.reshape(g.ADD(moves, g.const(places[axis])), (batch * groups, taps * windows, 1))
        axes.append(neighbours(g, place, size, AT))
    values = weighted(g, gathered(g, images, [a.index for a in axes]), axes)
    return g.SUM(values, axes=(2, 3), keep_dims=False)


def _columns(g: Builder, taps: Value, sizes: tuple[int, int, int]) -> Value:
    """[batch · groups, taps · windows, channels] as [batch, windows, groups · channels · taps]."""
    batch, count, windows = sizes
    groups, channels = taps.shape[0] // batch, taps.shape[2]
    split = g.reshape(taps, (batch, groups, count, windows, channels))
    ordered = g.transpose(split, (0, 3, 1, 4, 2))
    return g.reshape(ordered, (batch, windows, groups * channels * count))
