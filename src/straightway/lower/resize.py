"""Resizing: by TFLite's ops where they compute the very same, else by indices or matrices."""

import math
from dataclasses import dataclass, replace

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Node, TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.declare import ZERO, AnyFloat, Const, case, lower, need, run
from straightway.lower.interpolation import (
    BILINEAR_CENTERS,
    NEAREST,
    NEAREST_CENTERS,
    RADIUS,
    TRANSFORMS,
    Centers,
    Interpolation,
    Stretch,
    tflite_bilinear,
    tflite_nearest,
)
from straightway.lower.resize_run_time import (
    common_scale,
    cropped_at_run_time,
    resized_at_run_time,
)
from straightway.lower.selection import take

# Weights that differ by less come from the same formula, rounded otherwise in float32.
SAME_WEIGHT = 1e-4
# An operand that is not given.
NOTHING = np.zeros(0, np.float32).view(Const)
# An open dimension that becomes a given size: of how many the rounding is tried. Neighbours differ at
# few sizes, where a coordinate lies at a half.
MOST_SIZES = {"linear": 100, "nearest": 4096}
Stretches = tuple[Stretch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Resize's attributes on sizes, by the operator's own names."""

    axes: tuple[int, ...] = ()
    keep_aspect_ratio_policy: str = "stretch"
    extrapolation_value: AnyFloat = ZERO

    def fits(self, x: Value, roi: np.ndarray) -> bool:
        """Whether `roi` has a start and an end for each axis."""
        return (
            roi.ndim == 1
            and roi.size == 2 * (len(self.axes) or x.rank)
            and bool(np.isfinite(roi).all())
        )

    def named(self, x: Value) -> tuple[int, ...]:
        """The axes that scales, sizes and regions are of."""
        return tuple(counted(a, x.rank) for a in self.axes) or tuple(range(x.rank))

    def stretches(
        self,
        x: Value,
        out: TensorType,
        scales: np.ndarray = NOTHING,
        sizes: np.ndarray = NOTHING,
        roi: Value | None = None,
    ) -> Stretches:
        """Put attributes and operands together; axes that are not named stay as they are."""
        named = list(self.named(x))
        factors = np.ones(x.rank, np.float32)
        given = np.ravel(scales if scales.size else sizes).astype(np.float32)
        if len(given) != len(named):
            raise InvalidModel(f"there is a scale or a size for each of {named}; got {given}")
        if scales.size:
            factors[named] = given
        else:
            wanted = given / np.array([x.shape[a] for a in named])
            pick = {"not_larger": np.min, "not_smaller": np.max}
            policy = pick.get(self.keep_aspect_ratio_policy)
            factors[named] = policy(wanted) if policy else wanted
        regions = [(0.0, 1.0)] * x.rank
        if roi is not None and roi.const is not None and self.fits(x, roi.const):
            for k, a in enumerate(named):
                regions[a] = float(roi.const[k]), float(roi.const[k + len(named)])
        sides = zip(x.shape, out.dims, factors, regions, strict=True)
        return tuple(
            Stretch(
                size=size, out=wide, scale=float(factor), region=region, is_given=not scales.size
            )
            for size, wide, factor, region in sides
        )


def at_run_time(given: object) -> bool:
    """Whether scales or sizes are an operand that is no constant, nor left out by having no elements."""
    return isinstance(given, Value) and given.const is None and given.shape != (0,)


def is_known(scales: object, sizes: object) -> bool:
    """Whether the stretch of each axis is."""
    return not at_run_time(scales) and not at_run_time(sizes)


def numbers(scales: object) -> np.ndarray:
    """Scales as an array, empty where they are left out."""
    if isinstance(scales, Value):
        return NOTHING if scales.const is None else scales.const
    return NOTHING if scales is None else np.asarray(scales)


def of_opset(how: Interpolation, opset: int) -> Interpolation:
    """Before opset 11 there was one way only."""
    if opset >= 11:
        return how
    return replace(how, coordinate_transformation_mode="asymmetric", nearest_mode="simple")


FLOAT_OR_NEAREST = need(
    lambda x, how: how.mode == "nearest" or x.dtype == np.float32,
    "the tensor must be of floats, where it is interpolated; got {x.dtype}",
    possible=True,
)
FLAT = need(
    lambda x, out: min((*x.shape, *out[0].dims), default=1) > 0,
    "the tensor and the result must not be empty; got {x.type} for {out[0]}",
    kernel="onnx/docs/Operators.md#Resize",
)
IMAGE = (2, 3, 4, 6)


@lower(
    "Resize",
    needs=[
        FLAT,
        FLOAT_OR_NEAREST,
        need(
            lambda how: how.coordinate_transformation_mode in TRANSFORMS,
            "coordinate_transformation_mode must be one of ONNX's; got "
            "{how.coordinate_transformation_mode}",
            kernel="onnx/docs/Operators.md#Resize",
        ),
        need(
            lambda how: how.mode in ("nearest", *RADIUS) and how.nearest_mode in NEAREST,
            "mode and nearest_mode must be ones of ONNX's; got {how.mode}, {how.nearest_mode}",
            kernel="onnx/docs/Operators.md#Resize",
        ),
        need(
            lambda x, how, extent, roi: (
                how.coordinate_transformation_mode != "tf_crop_and_resize"
                or (roi is not None and (roi.const is None or extent.fits(x, roi.const)))
            ),
            "roi must be two finite numbers for each axis",
            possible=True,
        ),
        need(
            lambda x, how, extent, scales, sizes, roi, out, node: (
                not is_known(scales, sizes)
                or not any(
                    of_opset(how, node.op.version).is_ambiguous(axis)
                    for axis in extent.stretches(x, out[0], numbers(scales), numbers(sizes), roi)
                )
            ),
            "sizes and scales must be such that ONNX's reference and ONNX Runtime agree; got {x.type} for "
            "{out[0]}, {how.coordinate_transformation_mode}",
            remedy="give sizes instead of scales",
            possible=True,
        ),
    ],
    samples=[
        case(x=IMAGE, scales=np.array([1, 1, 2, 3], np.float32), nearest_mode="floor"),
        case(x=IMAGE, sizes=np.array([2, 3, 7, 4]), nearest_mode="ceil"),
        case(x=IMAGE, sizes=np.array([2, 3, 8, 12]), mode="linear"),
        case(x=IMAGE, sizes=np.array([9, 5]), axes=(2, 3), mode="cubic", exclude_outside=1),
        case(x=IMAGE, sizes=np.array([5, 3]), axes=(3, 1), mode="linear", antialias=1),
        case(
            x=IMAGE,
            sizes=np.array([2, 3, 5, 7]),
            roi=np.array([0, 0, -0.2, 0.3, 1, 1, 0.6, 1.2], np.float32),
            mode="linear",
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=10.0,
        ),
        case(x=IMAGE, scales=np.array([1, 1, 0.5, 2], np.float32), opset=10),
        case(x=IMAGE, scales=run([1, 1, 2.5, 0.5]), mode="linear"),
        case(x=IMAGE, scales=run([0.7, 3]), axes=(3, 2), mode="cubic", exclude_outside=1),
        case(
            x=IMAGE,
            scales=run([1, 1, 0.6, 1.5]),
            coordinate_transformation_mode="half_pixel_symmetric",
            nearest_mode="ceil",
        ),
        case(x=IMAGE, scales=run([1, 1, 0.5, 2]), opset=10),
        case(x=IMAGE, scales=run([0.6, 0.3]), axes=(2, 3), mode="linear", antialias=1),
        case(
            x=IMAGE, scales=run([0.6, 2]), axes=(3, 2), mode="cubic", antialias=1, exclude_outside=1
        ),
        case(
            x=IMAGE,
            sizes=run([7, 9], np.int64),
            axes=(2, 3),
            keep_aspect_ratio_policy="not_larger",
            opset=19,
        ),
        case(
            x=IMAGE,
            sizes=run([2, 5], np.int64),
            axes=(2, 3),
            mode="linear",
            keep_aspect_ratio_policy="not_smaller",
            opset=19,
        ),
        case(
            x=IMAGE,
            sizes=np.array([5, 7]),
            axes=(2, 3),
            roi=run([-0.2, 0.3, 0.6, 1.2]),
            mode="linear",
            coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=10.0,
            opset=19,
        ),
        case(
            x=(1, 1, 4, 6),
            sizes=np.array([1, 1, 5, 1]),
            roi=run([0, 0, -0.2, 0.3, 1, 1, 0.6, 0.5]),
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
    ],
    refuses=[
        case(x=(2, 0, 4, 6), scales=np.array([1, 1, 2, 2], np.float32)),
        case(x=run(np.ones(IMAGE), np.uint8), sizes=np.array([2, 3, 8, 8]), mode="linear"),
        case(x=IMAGE, sizes=np.array([2, 3, 8, 8]), coordinate_transformation_mode="other"),
        case(x=IMAGE, sizes=np.array([2, 3, 8, 8]), nearest_mode="other"),
        case(
            x=IMAGE,
            sizes=np.array([2, 3, 8, 8]),
            roi=np.array([0, 0, 0, 0, 1, 1, 1, np.inf], np.float32),
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
        case(
            x=IMAGE,
            sizes=np.array([2, 3, 8, 8]),
            roi=(8,),
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
        case(
            x=IMAGE,
            scales=np.array([1, 1, 0.6, 0.6], np.float32),
            mode="linear",
            coordinate_transformation_mode="align_corners",
        ),
    ],
)
def resize(
    g: Builder,
    x: Value,
    /,
    *,
    how: Interpolation,
    extent: Extent,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
    out: list[TensorType],
    node: Node,
) -> Value:
    """Every mode is separable: indices or a matrix for each axis."""
    own, named = of_opset(how, node.op.version), extent.named(x)
    if isinstance(sizes, Value) and at_run_time(sizes):
        policy = extent.keep_aspect_ratio_policy
        if policy == "stretch":
            raise NotYet("sizes at run time need a result whose size is declared")
        scales = common_scale(g, sizes, x.shape, named, policy)
    if isinstance(scales, Value) and at_run_time(scales):
        return resized_at_run_time(g, x, own, (scales, named), out[0].dims)
    crops = own.coordinate_transformation_mode == "tf_crop_and_resize"
    if crops and roi is not None and roi.const is None:
        dims = (out[0].dims, float(extent.extrapolation_value))
        return cropped_at_run_time(g, x, own, (roi, named), dims)
    axes = extent.stretches(x, out[0], numbers(scales), numbers(sizes), roi)
    return stretch(g, x, own, axes, extent.extrapolation_value)


@lower(
    "Upsample",
    needs=[FLAT, FLOAT_OR_NEAREST],
    samples=[
        case(x=IMAGE, scales=(1.0, 1.0, 2.0, 3.0), opset=7),
        case(x=IMAGE, scales=np.array([1, 1, 2, 1.5], np.float32), mode="linear", opset=9),
    ],
    refuses=[
        case(x=(2, 0, 4, 6), scales=np.array([1, 1, 2, 2], np.float32), opset=9),
        case(
            x=run(np.ones(IMAGE), np.uint8),
            scales=np.array([1, 1, 2, 2], np.float32),
            mode="linear",
            opset=9,
        ),
    ],
)
def upsample(
    g: Builder,
    x: Value,
    /,
    *,
    how: Interpolation,
    scales: object,
    out: list[TensorType],
    node: Node,
) -> Value:
    """What Resize was before opset 10."""
    own = of_opset(how, node.op.version)
    if isinstance(scales, Value) and at_run_time(scales):
        return resized_at_run_time(g, x, own, (scales, tuple(range(x.rank))), out[0].dims)
    return stretch(g, x, own, Extent().stretches(x, out[0], numbers(scales)), 0.0)


def stretch(
    g: Builder, x: Value, how: Interpolation, axes: Stretches, extrapolation: float
) -> Value:
    """Resize every axis that changes."""
    todo = [d for d, axis in enumerate(axes) if not how.keeps(axis)]
    outside = {d: how.outside(axes[d]) for d in todo}
    if any(mask.any() for mask in outside.values()):
        for d, away in outside.items():
            x = product(g, x, d, np.where(away[:, None], 0, how.matrix(axes[d])))
        return extrapolated(g, x, outside, extrapolation)
    if how.mode == "nearest" and g.delegate and is_repeated(x, how, axes, todo):
        for d in reversed(todo):
            x = repeated(g, x, d, axes[d].out // axes[d].size)
        return x
    found = by_tflite(g, x, how, axes, todo)
    if found is not None:
        return found
    for d in todo:
        if how.mode == "nearest":
            x = take(g, x, how.indices(axes[d]).tolist(), d)
        else:
            x = product(g, x, d, how.matrix(axes[d]))
    return x


def is_repeated(x: Value, how: Interpolation, axes: Stretches, todo: list[int]) -> bool:
    """Whether each element of a float image is repeated: XNNPACK has no RESIZE_NEAREST_NEIGHBOR.

    Measured on 16 shapes between two elementwise ops: 0.04 to 1.4 times as long, the less the fewer
    the channels, and no partition ends.
    """
    if x.dtype != np.float32 or not todo or min(todo) < 2:
        return False
    return all(
        s.out % s.size == 0
        and np.array_equal(how.indices(s), np.arange(s.out) // (s.out // s.size))
        for s in (axes[d] for d in todo)
    )


def repeated(g: Builder, x: Value, axis: int, times: int) -> Value:
    """Repeat each element of a spatial axis: times ones, channels last."""
    order = [0, *range(2, x.rank), 1]
    y = g.transpose(x, order)
    shape = list(y.shape)
    rows = g.reshape(y, (math.prod(shape[:axis]), 1, math.prod(shape[axis:])))
    shape[axis - 1] *= times
    y = g.reshape(g.MUL(rows, np.ones((1, times, 1), np.float32)), shape)
    return g.transpose(y, [order.index(d) for d in range(x.rank)])


def by_tflite(
    g: Builder, x: Value, how: Interpolation, axes: Stretches, todo: list[int]
) -> Value | None:
    """Use TFLite's op if one of its options computes the same, along every axis."""
    if not todo:
        return x
    if not 3 <= x.rank <= 4 or min(todo) < 2 or how.mode not in ("nearest", "linear"):
        return None
    nearest = how.mode == "nearest"
    options = NEAREST_CENTERS if nearest else BILINEAR_CENTERS
    test = picks_same if nearest else weighs_same

    def fits(centers: Centers, dim: int) -> bool:
        one = axes[dim]
        others = (
            replace(one, size=size, scale=one.out / size)
            for size in (
                range(1, MOST_SIZES[how.mode]) if one.is_given and dim in g.open_dims else ()
            )
        )
        return all(test(centers, how, axis) for axis in (one, *others))

    fitting = next((c for c in options if all(fits(c, d) for d in range(2, x.rank))), None)
    if fitting is None:
        return None
    name = "RESIZE_NEAREST_NEIGHBOR" if nearest else "RESIZE_BILINEAR"
    size = tuple(s.out for s in axes[2:])
    attrs = {
        "align_corners": fitting.align_corners,
        "half_pixel_centers": fitting.half_pixel_centers,
    }
    return g.emit(name, [x], {"size": size, **attrs})


def picks_same(centers: Centers, how: Interpolation, axis: Stretch) -> bool:
    """Whether TFLite's nearest neighbours are the model's."""
    found = tflite_nearest(centers, axis.size, axis.out)
    return found is not None and np.array_equal(found, how.indices(axis))


def weighs_same(centers: Centers, how: Interpolation, axis: Stretch) -> bool:
    """Whether TFLite's weights are the model's: they follow from the coordinates."""
    found = tflite_bilinear(centers, axis.size, axis.out)
    wanted = np.clip(how.coordinates(axis), 0, axis.size - 1)
    return how.is_plain(axis) and bool(np.abs(found - wanted).max() < SAME_WEIGHT)


def product(g: Builder, x: Value, axis: int, matrix: np.ndarray) -> Value:
    """Multiply along an axis by a constant matrix [out, size].

    Spatial axes are written as matrix · [spatial, rest·channels], so that an image stored channels
    last moves nowhere.
    """
    weights = g.const(matrix.astype(np.float32))
    if axis < 2:
        return g.FULLY_CONNECTED(x, weights, np.zeros(len(matrix), np.float32), axis=axis)
    order = [0, *range(2, x.rank), 1]
    y = g.transpose(x, order)
    lead, rest = y.shape[: axis - 1], y.shape[axis:]
    flat = g.reshape(y, (math.prod(lead), y.shape[axis - 1], math.prod(rest)))
    y = g.reshape(g.BATCH_MATMUL(weights, flat), (*lead, len(matrix), *rest))
    return g.transpose(y, [order.index(d) for d in range(x.rank)])


def extrapolated(g: Builder, x: Value, outside: dict[int, np.ndarray], value: float) -> Value:
    """Put `value` where an element lies outside along any axis; those elements are zero so far."""
    away = np.zeros((1,) * x.rank, bool)
    for d, mask in outside.items():
        away = away | mask.reshape([-1 if e == d else 1 for e in range(x.rank)])
    return g.ADD(x, np.where(away, value, 0).astype(np.float32)) if value else x
