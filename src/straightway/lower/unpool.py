"""Windows undone: values put back where a pool found them, columns added up to images."""

import math
from collections.abc import Sequence
from functools import reduce
from itertools import islice

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Node, TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import Ints, case, lower, need, run
from straightway.lower.integers import INT32
from straightway.lower.looked_up import Given, known_ints
from straightway.lower.selection import part
from straightway.lower.window import Window
from straightway.passes.implied import blocks

# Shapes of blocks of which all images are computed, and one chosen.
MOST_BLOCK_SHAPES = 8

PLACES = run([[[[5, 7], [13, 15]], [[16, 18], [24, 27]]]], np.int64)
MAPS = run([[[[-5.0, 6.0], [7.0, 8.0]], [[1.0, -2.0], [3.0, 4.0]]]])


def unpooled(shape: tuple[int, ...], win: Window) -> tuple[int, ...]:
    """The shape that a pool with this window makes `shape` of."""
    count = len(win.kernel_shape)
    strides, pads = win.strides or (1,) * count, win.pads or (0,) * 2 * count
    sizes = [
        (shape[2 + d] - 1) * strides[d] - pads[d] - pads[d + count] + win.kernel_shape[d]
        for d in range(count)
    ]
    return (*shape[:2], *sizes)


@lower(
    "MaxUnpool",
    needs=[
        need(
            lambda x, win, out: out[0].dims == unpooled(x.shape, win),
            "output_shape must be that of the pooled tensor, since ONNX's reference and ONNX Runtime "
            "count places in different shapes elsewhere; got {out[0]}",
            remedy="leave output_shape out, and pad behind",
            possible=True,
        )
    ],
    samples=[
        case(x=MAPS, i=PLACES, kernel_shape=(2, 2), strides=(2, 2)),
        case(
            x=run([[[1.0, 2.0, 2.0]]]), i=run([[[1, 2, 2]]], np.int64), kernel_shape=(2,), opset=9
        ),
    ],
    refuses=[
        case(
            x=MAPS,
            i=PLACES,
            output_shape=np.array([1, 2, 5, 5]),
            kernel_shape=(2, 2),
            strides=(2, 2),
        )
    ],
)
def max_unpool(
    g: Builder,
    x: Value,
    i: Value,
    /,
    *,
    output_shape: object = None,
    win: Window,
    out: list[TensorType],
) -> Value:
    """Values go to their places in zeros; of several at one place, all alike after a pool, one."""
    size, count = out[0].size, math.prod(x.shape)
    places = g.reshape(g.cast(i, INT32), (count,))
    values = g.UNSORTED_SEGMENT_MAX(g.reshape(x, (count,)), places, count=size)
    ones = g.const(np.ones(count, np.int32))
    hits = g.SCATTER_ND(g.reshape(places, (count, 1)), ones, shape=(size,))
    filled = g.SELECT_V2(g.GREATER(hits, 0), values, g.const(0, x.dtype))
    return g.reshape(filled, out[0].dims)


@lower(
    "Col2Im",
    samples=[
        case(
            input=(2, 12, 12), image_shape=np.array([5, 4]), block_shape=np.array([2, 2]), opset=18
        ),
        case(
            input=(1, 12, 12),
            image_shape=np.array([5, 6]),
            block_shape=np.array([3, 2]),
            pads=(1, 0, 2, 1),
            strides=(1, 2),
            dilations=(2, 1),
            opset=18,
        ),
        case(
            input=(1, 6, 4),
            image_shape=np.array([8]),
            block_shape=np.array([2]),
            strides=(2,),
            opset=18,
        ),
    ],
)
def columns_to_image(
    g: Builder,
    x: Value,
    image_shape: Ints,
    block_shape: Given,
    /,
    *,
    win: Window,
    node: Node,
    out: list[TensorType],
) -> Value:
    """Each row of a column is added at its constant place; what lies on padding, at one behind.

    Where the block's shape comes at run time, one for each that gives so many blocks.
    """
    known = known_ints(block_shape)
    if known is not None or not isinstance(block_shape, Value):
        return _image(g, x, image_shape, known or (), win)
    if g.open_dims:
        g.need_fixed_size("block_shape at run time")
    found = [*islice(blocks(node, out[0].dims, x.shape), MOST_BLOCK_SHAPES + 1)]
    if not found or len(found) > MOST_BLOCK_SHAPES:
        raise NotYet(
            f"block_shape at run time is one of up to {MOST_BLOCK_SHAPES} shapes that give {x.type}; "
            f"there are {'none' if not found else 'more'}",
            remedy="export with a constant block_shape",
        )
    images = [_image(g, x, image_shape, block, win) for block in found]
    numbers = g.reshape(g.cast(block_shape, INT32), (len(image_shape),))
    fits = [g.EQUAL(numbers, g.const(np.array(block, np.int32))) for block in found]
    whole = [g.REDUCE_ALL(one, axes=(0,), keep_dims=False) for one in fits]
    pairs = list(zip(whole, images, strict=True))
    return reduce(lambda rest, pair: g.SELECT_V2(pair[0], pair[1], rest), pairs[:-1], images[-1])


def _image(
    g: Builder, x: Value, image_shape: Sequence[int], block_shape: Sequence[int], win: Window
) -> Value:
    image, block = tuple(image_shape), tuple(block_shape)
    taps = math.prod(block)
    batch, channels = x.shape[0], x.shape[1] // taps
    places = _places(image, block, win)
    if x.shape[1:] != (channels * taps, places.shape[1]):
        raise InvalidModel(f"blocks of {block} in {image} are not those of {x.type}")
    size = math.prod(image)
    flat = g.reshape(x, (batch * channels, taps * x.shape[2]))
    added = g.SCATTER_ND(
        g.const(places.reshape(-1, 1), INT32),
        g.transpose(flat, (1, 0)),
        shape=(size + 1, batch * channels),
    )
    pixels = g.transpose(part(g, added, 0, 0, size), (1, 0))
    return g.reshape(pixels, (batch, channels, *image))


def _places(image: tuple[int, ...], block: tuple[int, ...], win: Window) -> np.ndarray:
    """Where each tap of each block stands in the flat image, [taps, blocks]."""
    count = len(image)
    strides, dilations = win.strides or (1,) * count, win.dilations or (1,) * count
    pads = win.pads or (0,) * 2 * count
    axes = []
    for d in range(count):
        extent = (block[d] - 1) * dilations[d] + 1
        if not 0 < extent <= image[d] + pads[d] + pads[d + count]:
            raise InvalidModel(f"blocks of {block}, {dilations} apart, do not lie in {image}")
        blocks = (image[d] + pads[d] + pads[d + count] - extent) // strides[d] + 1
        taps = np.arange(block[d]) * dilations[d] - pads[d]
        axes.append(taps[:, None] + np.arange(blocks) * strides[d])
    found = np.zeros((*block, *(axis.shape[1] for axis in axes)), np.int64)
    outside = np.zeros(found.shape, bool)
    for d, axis in enumerate(axes):
        shape = [1] * 2 * count
        shape[d], shape[d + count] = axis.shape
        place = axis.reshape(shape)
        found += place * math.prod(image[d + 1 :])
        outside |= (place < 0) | (place >= image[d])
    return np.where(outside, math.prod(image), found).reshape(math.prod(block), -1)
