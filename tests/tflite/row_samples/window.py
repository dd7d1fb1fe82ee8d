"""Samples of convolutions, pools and resizing. References are written out, and slow."""

import itertools
import math

import numpy as np

from row_samples.numbers import real, whole
from row_samples.sample import Sample


def same_padding(size, kernel, stride, dilation):
    """TFLite's SAME: what is missing, the smaller half before."""
    reach = (kernel - 1) * dilation + 1
    missing = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
    return missing // 2, missing - missing // 2


def windows(x, kernel, strides, dilations, *, padding, fill):
    """Yield each output place and its window, with the channels as they are."""
    pads = [(0, 0), (0, 0)]
    for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
        pads.append(same_padding(size, k, s, d) if padding == "SAME" else (0, 0))
    padded = np.pad(x.astype(float), pads, constant_values=fill)
    counts = [
        (size - (k - 1) * d - 1) // s + 1
        for size, k, s, d in zip(padded.shape[2:], kernel, strides, dilations, strict=True)
    ]
    for place in itertools.product(*map(range, counts)):
        cut = tuple(
            slice(p * s, p * s + (k - 1) * d + 1, d)
            for p, s, k, d in zip(place, strides, kernel, dilations, strict=True)
        )
        yield place, counts, padded[(slice(None), slice(None), *cut)]


def convolve(x, w, b=None, *, strides, dilations, padding):
    """w: [M, C / groups, …]."""
    groups = x.shape[1] // w.shape[1]
    out = None
    for place, counts, window in windows(
        x, w.shape[2:], strides, dilations, padding=padding, fill=0
    ):
        if out is None:
            out = np.zeros((x.shape[0], w.shape[0], *counts))
        for m in range(w.shape[0]):
            group = m // (w.shape[0] // groups)
            part = window[:, group * w.shape[1] : (group + 1) * w.shape[1]]
            found = (part * w[m]).reshape(len(x), -1).sum(1)
            out[(slice(None), m, *place)] = found + (0 if b is None else b[m])
    return out


def pooled(x, *, function, filter, strides, padding, fill=np.nan):  # noqa: A002 - the field's name
    """Pools leave padding out."""
    ones = (1,) * len(filter)
    out = None
    for place, counts, window in windows(x, filter, strides, ones, padding=padding, fill=fill):
        if out is None:
            out = np.zeros((*x.shape[:2], *counts))
        out[(slice(None), slice(None), *place)] = function(window.reshape(*x.shape[:2], -1))
    return out


def deconvolve(x, w, b=None, *, strides, padding, output_shape):
    """w: [C, M, …]; SAME crops what the strides would add."""
    kernel, spatial = w.shape[2:], output_shape[2:]
    full = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    size = [max(f, o) for f, o in zip(full, spatial, strict=True)]
    out = np.zeros((x.shape[0], w.shape[1], *size))
    for place in itertools.product(*map(range, x.shape[2:])):
        cut = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, strides, kernel, strict=True))
        spread = np.einsum("nc,cm...->nm...", x[(..., *place)], w)
        out[(slice(None), slice(None), *cut)] += spread
    crops = [(f - o) // 2 if padding == "SAME" else 0 for f, o in zip(full, spatial, strict=True)]
    crops = [max(c, 0) for c in crops]
    cut = tuple(slice(c, c + o) for c, o in zip(crops, spatial, strict=True))
    out = out[(slice(None), slice(None), *cut)]
    return out if b is None else out + b.reshape(1, -1, *(1,) * len(spatial))


def convolution(op, x, w, bias, **attrs):
    """A convolution with a constant filter."""
    wanted = {k: attrs[k] for k in ("strides", "dilations", "padding")}
    return Sample(
        op=op,
        inputs=(x, w) if bias is None else (x, w, bias),
        attrs=attrs,
        constant=(1, 2),
        reference=lambda *a: convolve(*a, **wanted),
        rtol=1e-4,
    )


def pool(op, function, **attrs):
    """A pool over numbers that are all different."""
    x = whole(2, 3, 7, 6, high=90)
    return Sample(
        op=op, inputs=(x,), attrs=attrs, reference=lambda a: pooled(a, function=function, **attrs)
    )


def average(w):
    """Without what is padded."""
    return np.nanmean(w, -1)


def largest(w):
    """Without what is padded."""
    return np.nanmax(w, -1)


def root_mean_square(w):
    """Without what is padded."""
    return np.sqrt(np.nanmean(w**2, -1))


def resize_nearest(x, size, *, half, align):
    """Both spatial dimensions, as TFLite rounds."""
    found = x
    for axis, new in zip((2, 3), size, strict=True):
        old = x.shape[axis]
        scale = (old - 1) / (new - 1) if align and new > 1 else old / new
        place = (np.arange(new) + (0.5 if half else 0)) * scale
        index = np.floor(place + 0.5) if align else np.floor(place)
        found = found.take(np.clip(index, 0, old - 1).astype(int), axis)
    return found


def resize_linear(x, size, *, half, align):
    """Both spatial dimensions."""
    found = x.astype(float)
    for axis, new in zip((2, 3), size, strict=True):
        old = x.shape[axis]
        scale = (old - 1) / (new - 1) if align and new > 1 else old / new
        place = (np.arange(new) + 0.5) * scale - 0.5 if half else np.arange(new) * scale
        low = np.floor(place)
        shape = [1] * x.ndim
        shape[axis] = -1
        share = (place - low).reshape(shape)
        a, b = (found.take(np.clip(low + k, 0, old - 1).astype(int), axis) for k in (0, 1))
        found = a * (1 - share) + b * share
    return found


def depth_to_space(x):
    """Blocks of 2."""
    n, c, h, w = x.shape
    parts = x.reshape(n, 2, 2, c // 4, h, w)
    return parts.transpose(0, 3, 4, 1, 5, 2).reshape(n, c // 4, h * 2, w * 2)


def space_to_depth(x):
    """Blocks of 2."""
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // 2, 2, w // 2, 2)
    return parts.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * 4, h // 2, w // 2)


def local_response(x):
    """Radius 1."""
    padded = np.pad(x.astype(float) ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    total = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    return x / (2.0 + 0.5 * total) ** 0.75


PLAIN = {"strides": (1, 1), "dilations": (1, 1), "padding": "SAME"}
WIDE = {"strides": (2, 1), "dilations": (1, 1), "padding": "SAME"}
HOLES = {"strides": (1, 1), "dilations": (2, 3), "padding": "VALID"}
X = whole(2, 4, 9, 8)
X_3D = whole(2, 3, 4, 6, 5)
PLAIN_3D = {"strides": (1, 2, 1), "dilations": (1, 1, 1), "padding": "SAME"}
SAMPLES = [
    convolution("CONV_2D", X, whole(3, 4, 3, 2), whole(3), **PLAIN),
    convolution("CONV_2D", X, whole(3, 4, 3, 2), whole(3), **WIDE),
    convolution("CONV_2D", X, whole(3, 4, 3, 2), whole(3), **HOLES),
    convolution("CONV_2D", X, whole(6, 2, 3, 2), whole(6), **PLAIN),
    convolution("DEPTHWISE_CONV_2D", X, whole(4, 1, 3, 2), whole(4), **PLAIN, multiplier=1),
    convolution("DEPTHWISE_CONV_2D", X, whole(8, 1, 3, 2), whole(8), **WIDE, multiplier=2),
    convolution("DEPTHWISE_CONV_2D", X, whole(4, 1, 3, 2), whole(4), **HOLES, multiplier=1),
    convolution("CONV_3D", X_3D, whole(2, 3, 2, 3, 2), whole(2), **PLAIN_3D),
    *(
        Sample(
            op="TRANSPOSE_CONV",
            inputs=(whole(2, 4, 5, 6), whole(4, 3, 3, 2), *bias),
            attrs=attrs,
            constant=(1, 2),
            reference=lambda *a, found=attrs: deconvolve(*a, **found),
            rtol=1e-4,
        )
        for bias in ((), (whole(3),))
        for attrs in (
            {"strides": (2, 1), "padding": "SAME", "output_shape": (2, 3, 10, 6)},
            {"strides": (2, 1), "padding": "VALID", "output_shape": (2, 3, 11, 7)},
        )
    ),
    Sample(
        op="CONV_3D_TRANSPOSE",
        inputs=(whole(2, 3, 4, 5, 3), whole(3, 2, 2, 3, 2)),
        attrs={
            "strides": (1, 2, 1),
            "dilations": (1, 1, 1),
            "padding": "VALID",
            "output_shape": (2, 2, 5, 11, 4),
        },
        constant=(1,),
        reference=lambda x, w: deconvolve(
            x, w, strides=(1, 2, 1), padding="VALID", output_shape=(2, 2, 5, 11, 4)
        ),
    ),
    pool("AVERAGE_POOL_2D", average, filter=(3, 2), strides=(2, 1), padding="SAME"),
    pool("AVERAGE_POOL_2D", average, filter=(3, 2), strides=(1, 2), padding="VALID"),
    pool("MAX_POOL_2D", largest, filter=(3, 2), strides=(2, 1), padding="SAME"),
    pool("MAX_POOL_2D", largest, filter=(3, 2), strides=(1, 2), padding="VALID"),
    pool("L2_POOL_2D", root_mean_square, filter=(3, 2), strides=(2, 1), padding="SAME"),
    *(
        Sample(
            op=op,
            inputs=(whole(2, 3, 4, 5, high=90),),
            attrs={"size": (7, 8), "align_corners": align, "half_pixel_centers": half},
            reference=lambda x, f=function, a=align, h=half: f(x, (7, 8), align=a, half=h),
            rtol=1e-4,
        )
        for op, function in (
            ("RESIZE_BILINEAR", resize_linear),
            ("RESIZE_NEAREST_NEIGHBOR", resize_nearest),
        )
        for align, half in ((False, False), (False, True), (True, False))
    ),
    Sample(
        op="DEPTH_TO_SPACE",
        inputs=(whole(2, 12, 4, 5),),
        attrs={"block_size": 2},
        reference=depth_to_space,
    ),
    Sample(
        op="SPACE_TO_DEPTH",
        inputs=(whole(2, 3, 4, 6),),
        attrs={"block_size": 2},
        reference=space_to_depth,
    ),
    Sample(
        op="LOCAL_RESPONSE_NORMALIZATION",
        inputs=(real(2, 5, 3, 4),),
        attrs={"radius": 1, "bias": 2.0, "alpha": 0.5, "beta": 0.75},
        reference=local_response,
        rtol=1e-4,
    ),
]
