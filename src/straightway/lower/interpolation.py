"""Where each element of a resized axis comes from, for ONNX and for TFLite: pure arithmetic.

Interpolation is separable: each axis has a matrix [out, size] of weights. ONNX's coordinates are
computed in float32, as ONNX Runtime does (core/providers/cpu/tensor/upsamplebase.h), since where a
coordinate lies near a half the rounding decides.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from straightway.errors import NotYet

# Half the width of the filters, in source elements.
RADIUS = {"linear": 1, "cubic": 2}
# How near a half still is one: onnxruntime issue 28291.
TIE = 1e-6
# 256 MB of float32
MOST_WEIGHTS = 2**26


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One axis: from `size` to `out` elements, by the model's scale; `region` is its part of `roi`.

    `is_given`: the model says the result's size, whatever the operand's is.
    """

    size: int
    out: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)
    is_given: bool = False

    @property
    def unrounded(self) -> float:
        """The size of the result before it was rounded down."""
        return self.size * self.scale

    @property
    def is_whole(self) -> bool:
        """Whether nothing is asked of this axis."""
        return self.scale == 1 and self.region == (0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpolation:
    """Resize's attributes, by the operator's own names; `nearest_mode` "simple" is that of opset 10."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    antialias: int = 0

    def coordinates(self, axis: Stretch, length: float | None = None) -> np.ndarray:
        """Return the source coordinate of each element; `length`: the result's size, if not rounded."""
        x = np.arange(axis.out, dtype=np.float32)
        if axis.is_whole:
            return x
        wide = np.float32(axis.out if length is None else length)
        transform = TRANSFORMS[self.coordinate_transformation_mode]
        return np.asarray(transform(x, axis, wide), np.float32)

    def indices(self, axis: Stretch) -> np.ndarray:
        """Return the nearest source element of each element."""
        found = NEAREST[self.nearest_mode](self.coordinates(axis).astype(float), axis.scale)
        return np.clip(found, 0, axis.size - 1).astype(np.int32)

    def matrix(self, axis: Stretch, length: float | None = None) -> np.ndarray:
        """Return the weights [out, size]. Raises NotYet where they are no table that fits in memory."""
        if axis.out * axis.size > MOST_WEIGHTS:
            raise NotYet(f"{axis.size} elements become {axis.out} by a table of weights too large")
        if self.mode == "nearest":
            return one_hot(self.indices(axis), axis.size)
        x = self.coordinates(axis, length).astype(float)
        shrink = min(axis.scale, 1.0) if self.antialias else 1.0
        reach = math.ceil(RADIUS[self.mode] / shrink)
        taps = np.floor(x)[:, None] + np.arange(-reach, reach + 1)
        weights = self.filter((taps - x[:, None]) * shrink)
        outside = (taps < 0) | (taps > axis.size - 1)
        if self.exclude_outside:
            weights = np.where(outside, 0, weights)
        sums = weights.sum(1, keepdims=True)
        weights /= np.where(sums == 0, 1, sums)
        matrix = np.zeros((axis.out, axis.size))
        places = np.clip(taps, 0, axis.size - 1).astype(int)
        np.add.at(matrix, (np.arange(axis.out)[:, None], places), weights)
        return matrix

    def filter(self, apart: np.ndarray) -> np.ndarray:
        """Return the weight of a source element that lies so far from the coordinate."""
        d, a = np.abs(apart), self.cubic_coeff_a
        if self.mode == "linear":
            return np.maximum(1 - d, 0)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((d - 5) * d + 8) * d * a - 4 * a
        return np.where(d < 1, near, np.where(d < 2, far, 0))

    def outside(self, axis: Stretch) -> np.ndarray:
        """Whether an element lies outside the source, so that it is `extrapolation_value`."""
        if self.coordinate_transformation_mode != "tf_crop_and_resize":
            return np.zeros(axis.out, bool)
        x = self.coordinates(axis)
        return (x < 0) | (x > axis.size - 1)

    def keeps(self, axis: Stretch) -> bool:
        """Whether every element stays what it is."""
        if axis.is_whole or axis.out != axis.size:
            return axis.is_whole
        if self.outside(axis).any():
            return False
        if self.mode == "nearest":
            return np.array_equal(self.indices(axis), np.arange(axis.size))
        return np.allclose(self.matrix(axis), np.eye(axis.size))

    def is_plain(self, axis: Stretch) -> bool:
        """Whether two neighbours are weighed by their distance: all that TFLite's bilinear does."""
        return self.mode == "linear" and (not self.antialias or axis.scale >= 1)

    def is_ambiguous(self, axis: Stretch) -> bool:
        """Whether ONNX's reference and ONNX Runtime differ.

        The reference takes the result's size before it was rounded, ONNX Runtime after. Where the
        size does not change, ONNX Runtime copies, whatever the scale says. For a single element
        of pytorch_half_pixel the reference starts at -0.5, which shows in cubic mode.
        """
        if axis.out == axis.size:
            return not self.keeps(axis)
        single = self.coordinate_transformation_mode == "pytorch_half_pixel" and axis.out == 1
        if single and self.mode == "cubic":
            return True
        if axis.unrounded == axis.out:
            return False
        rounded, exact = self.coordinates(axis), self.coordinates(axis, axis.unrounded)
        return not np.allclose(rounded, exact)


def one_hot(indices: np.ndarray, size: int) -> np.ndarray:
    """Return the matrix that picks elements."""
    return np.eye(size)[indices]


def half_pixel(x: np.ndarray, axis: Stretch, wide: np.float32) -> np.ndarray:
    """Pixels are squares; their centres lie at halves."""
    return (x + np.float32(0.5)) / np.float32(axis.scale) - np.float32(0.5)


def pytorch_half_pixel(x: np.ndarray, axis: Stretch, wide: np.float32) -> np.ndarray:
    """As half_pixel, but a single element is the first."""
    return half_pixel(x, axis, wide) if wide > 1 else np.zeros_like(x)


def half_pixel_symmetric(x: np.ndarray, axis: Stretch, wide: np.float32) -> np.ndarray:
    """As half_pixel, centred although the result's size was rounded."""
    adjustment = np.float32(axis.out) / (np.float32(axis.scale) * np.float32(axis.size))
    offset = np.float32(axis.size / 2) * (np.float32(1) - adjustment)
    return float(offset) + (x.astype(float) + 0.5) / float(np.float32(axis.scale)) - 0.5


def align_corners(x: np.ndarray, axis: Stretch, wide: np.float32) -> np.ndarray:
    """The first and last elements stay where they are."""
    if wide == 1:
        return np.zeros_like(x)
    return x * np.float32(axis.size - 1) / (wide - np.float32(1))


def asymmetric(x: np.ndarray, axis: Stretch, wide: np.float32) -> np.ndarray:
    """Pixels are points that start at 0."""
    return x / np.float32(axis.scale)


def half_pixel_for_nearest(x: np.ndarray, axis: Stretch, wide: np.float32) -> np.ndarray:
    """TensorFlow's half pixels for nearest neighbours."""
    return (x + np.float32(0.5)) / np.float32(axis.scale)


def crop(x: np.ndarray, axis: Stretch, wide: np.float32) -> np.ndarray:
    """The region's corners become the result's."""
    start, end = (np.float32(r) for r in axis.region)
    last = np.float32(axis.size - 1)
    if wide <= 1:
        return np.full_like(x, np.float32(0.5) * (start + end) * last)
    return start * last + x * (end - start) * last / (wide - np.float32(1))


TRANSFORMS: dict[str, Callable[[np.ndarray, Stretch, np.float32], np.ndarray]] = {
    "half_pixel": half_pixel,
    "pytorch_half_pixel": pytorch_half_pixel,
    "half_pixel_symmetric": half_pixel_symmetric,
    "align_corners": align_corners,
    "asymmetric": asymmetric,
    "tf_half_pixel_for_nn": half_pixel_for_nearest,
    "tf_crop_and_resize": crop,
}


def snapped(x: np.ndarray) -> np.ndarray:
    """Take a coordinate that float32 moved off a half as that half, as ONNX Runtime does."""
    half = np.floor(x) + 0.5
    return np.where(np.abs(x - half) <= TIE, half, x)


NEAREST: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "round_prefer_floor": lambda x, _: np.ceil(snapped(x) - 0.5),
    "round_prefer_ceil": lambda x, _: np.floor(snapped(x) + 0.5),
    "floor": lambda x, _: np.floor(x),
    "ceil": lambda x, _: np.ceil(x),
    # before opset 11 nothing said how; ONNX Runtime rounds up when shrinking
    "simple": lambda x, scale: np.ceil(x) if scale < 1 else np.floor(x),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Centers:
    """TFLite's two options of its resizing ops."""

    align_corners: bool
    half_pixel_centers: bool


NEAREST_CENTERS = tuple(
    Centers(align_corners=a, half_pixel_centers=h) for h in (False, True) for a in (False, True)
)
BILINEAR_CENTERS = tuple(
    Centers(align_corners=a, half_pixel_centers=h)
    for a, h in ((False, True), (True, False), (False, False))
)


def tflite_scale(centers: Centers, size: int, out: int) -> np.float32:
    """Source elements for each element of the result."""
    if centers.align_corners and out > 1:
        return np.float32(size - 1) / np.float32(out - 1)
    return np.float32(size) / np.float32(out)


def tflite_nearest(centers: Centers, size: int, out: int) -> np.ndarray | None:
    """Return the source indices of RESIZE_NEAREST_NEIGHBOR, or None where 8 bits would differ.

    kernels/internal/reference/resize_nearest_neighbor.h; for 8 bits optimized_ops.h computes in
    fixed point unless an option is set.
    """
    offset = np.float32(0.5 if centers.half_pixel_centers else 0)
    x = (np.arange(out, dtype=np.float32) + offset) * tflite_scale(centers, size, out)
    rounded = np.floor(x.astype(float) + 0.5) if centers.align_corners else np.floor(x)
    found = np.clip(rounded, 0, size - 1).astype(np.int32)
    if not (centers.align_corners or centers.half_pixel_centers):
        fixed = np.minimum((np.arange(out) * ((size << 16) // out + 1)) >> 16, size - 1)
        return found if np.array_equal(found, fixed) else None
    return found


def tflite_bilinear(centers: Centers, size: int, out: int) -> np.ndarray:
    """Return the source coordinates of RESIZE_BILINEAR (internal/reference/resize_bilinear.h).

    What lies outside weighs the first or the last element only: the coordinate of that element.
    """
    x = np.arange(out, dtype=np.float32)
    scale = tflite_scale(centers, size, out)
    half = np.float32(0.5)
    x = (x + half) * scale - half if centers.half_pixel_centers else x * scale
    return np.clip(x, 0, size - 1)
