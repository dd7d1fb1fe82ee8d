"""Resizing by what comes at run time: coordinates are computed, elements looked up and weighed."""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.integers import INT32
from straightway.lower.interpolation import RADIUS, TIE, Interpolation
from straightway.lower.selection import part

# coordinates that don't depend on the result's size before it was rounded: there engines disagree
SCALED = ("asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One axis, from `size` to `out` elements, by a scale or a region (start, end) of the run."""

    axis: int
    size: int
    out: int
    scale: Value | None = None
    region: tuple[Value, Value] | None = None


def resized_at_run_time(
    g: Builder, x: Value, how: Interpolation, scales: tuple[Value, Axes], out: Axes
) -> Value:
    """`scales`: the numbers, and the axes that they belong to.

    Each axis by itself; one whose size stays is copied, whatever its scale says, as onnxruntime does.
    """
    if how.coordinate_transformation_mode not in SCALED:
        raise NotYet(
            f"scales at run time are lowered for {', '.join(SCALED)}; got "
            f"{how.coordinate_transformation_mode}",
            remedy="export with constant scales, or give sizes",
        )
    given, axes = scales
    if given.known_type.size != len(axes):
        raise InvalidModel(f"there is a scale for each of {axes}; got {given.type}")
    if g.open_dims:
        g.need_fixed_size("what is resized by scales at run time")
    numbers = g.reshape(given, (len(axes),))
    for place, axis in enumerate(axes):
        if out[axis] != x.shape[axis]:
            scale = part(g, numbers, 0, place, 1)
            side = Side(axis=axis, size=x.shape[axis], out=out[axis], scale=scale)
            x = _looked_up(g, x, how, side, _coordinates(g, how, side, scale))
    return x


def common_scale(g: Builder, sizes: Value, shape: Axes, axes: Axes, policy: str) -> Value:
    """The factor for all axes, of sizes that no axis may exceed, or that each must reach; [axes]."""
    if sizes.known_type.size != len(axes):
        raise InvalidModel(f"there is a size for each of {axes}; got {sizes.type}")
    wanted = g.cast(g.reshape(sizes, (len(axes),)), np.float32)
    ratios = g.DIV(wanted, g.const(np.array([shape[axis] for axis in axes], np.float32)))
    pick = g.REDUCE_MIN if policy == "not_larger" else g.REDUCE_MAX
    factor = pick(ratios, axes=(0,), keep_dims=True)
    return g.MUL(g.const(np.ones(len(axes), np.float32)), factor)


def cropped_at_run_time(
    g: Builder, x: Value, how: Interpolation, roi: tuple[Value, Axes], out: tuple[Axes, float]
) -> Value:
    """Resize regions of the run: `roi` has starts and ends of axes, `out` sizes, and what lies outside.

    An axis that keeps its size must be named to be kept whole, or have one element: onnxruntime
    and ONNX's reference make different things of it else.
    """
    given, axes = roi
    dims, extrapolation = out
    if given.known_type.size != 2 * len(axes):
        raise InvalidModel(f"roi has two numbers for each of {axes}; got {given.type}")
    if g.open_dims:
        g.need_fixed_size("what is resized by a region at run time")
    known = _known_numbers(given)
    numbers = g.reshape(given, (2 * len(axes),))
    inside = None
    for place, axis in enumerate(axes):
        size = x.shape[axis]
        if size == dims[axis] and (size == 1 or (known[place], known[place + len(axes)]) == (0, 1)):
            continue
        if size == dims[axis]:
            raise NotYet(
                f"a region that comes at run time must be of axes whose size changes; got {x.type} for "
                f"{list(dims)}",
                remedy="name the other axes in attribute axes, or give them 0 and 1 in a Concat",
            )
        region = (part(g, numbers, 0, place, 1), part(g, numbers, 0, place + len(axes), 1))
        side = Side(axis=axis, size=size, out=dims[axis], region=region)
        where = _region_coordinates(g, side)
        x = _looked_up(g, x, how, side, where)
        fits = g.LOGICAL_AND(g.GREATER_EQUAL(where, 0.0), g.LESS_EQUAL(where, float(size - 1)))
        fits = g.reshape(fits, _along(side, x.rank))
        inside = fits if inside is None else g.LOGICAL_AND(inside, fits)
    return x if inside is None else g.SELECT_V2(inside, x, g.const(extrapolation, x.dtype))


def _known_numbers(value: Value) -> list[float | None]:
    """The elements of a vector, None for those that come at run time."""
    if value.const is not None:
        return [float(number) for number in value.const.reshape(-1)]
    maker = value.producer
    if maker is not None and maker.op.name == "CONCATENATION" and value.rank == 1:
        return [number for operand in maker.operands() for number in _known_numbers(operand)]
    return [None] * value.known_type.size


def _along(side: Side, rank: int) -> list[int]:
    """The shape of a vector along the axis."""
    return [side.out if d == side.axis else 1 for d in range(rank)]


def _region_coordinates(g: Builder, side: Side) -> Value:
    """The region's ends become the result's. See `interpolation.crop`."""
    if side.region is None:
        raise NotYet("there is no region")
    start, end = side.region
    last = float(side.size - 1)
    if side.out == 1:
        return g.MUL(g.MUL(g.ADD(start, end), 0.5), last)
    places = g.const(np.arange(side.out, dtype=np.float32))
    way = g.MUL(g.MUL(places, g.SUB(end, start)), last)
    return g.ADD(g.MUL(start, last), g.DIV(way, float(side.out - 1)))


def _coordinates(g: Builder, how: Interpolation, side: Side, scale: Value) -> Value:
    """Where the elements of the result stand in the source, float32 [out]."""
    places = np.arange(side.out, dtype=np.float32)
    name = how.coordinate_transformation_mode
    if name == "asymmetric":
        return g.DIV(g.const(places), scale)
    if name == "pytorch_half_pixel" and side.out == 1:
        return g.MUL(scale, 0.0)
    found = g.SUB(g.DIV(g.const(places + np.float32(0.5)), scale), 0.5)
    if name != "half_pixel_symmetric":
        return found
    adjustment = g.DIV(float(side.out), g.MUL(scale, float(side.size)))
    return g.ADD(found, g.MUL(g.SUB(1.0, adjustment), side.size / 2))


def _looked_up(g: Builder, x: Value, how: Interpolation, side: Side, place: Value) -> Value:
    """The nearest element, or the sum of the neighbours by their weights."""
    if how.mode == "nearest":
        return _taken(g, x, side.axis, _nearest(g, how.nearest_mode, place, side.scale))
    base = g.FLOOR(place)
    reach = RADIUS[how.mode]
    shrink = None
    if how.antialias and side.scale is not None and side.out < side.size:
        shrink = g.MINIMUM(side.scale, 1.0)
        # the result's size was rounded down: the scale is at least the ratio of the sizes
        reach = math.ceil(reach * side.size / side.out)
    taps = [g.ADD(base, float(k)) for k in range(-reach if shrink else 1 - reach, reach + 1)]
    apart = [g.ABS(g.SUB(tap, place)) for tap in taps]
    weights = [_weight(g, how, d if shrink is None else g.MUL(d, shrink)) for d in apart]
    if how.exclude_outside:
        weights = _inside(g, taps, weights, side.size)
    if how.exclude_outside or shrink is not None:
        weights = _to_one(g, weights)
    shape = _along(side, x.rank)
    parts = [
        g.MUL(_taken(g, x, side.axis, tap), g.reshape(weight, shape))
        for tap, weight in zip(taps, weights, strict=True)
    ]
    return reduce(g.ADD, parts)


def _taken(g: Builder, x: Value, axis: int, place: Value) -> Value:
    near = g.MINIMUM(g.MAXIMUM(place, 0.0), float(x.shape[axis] - 1))
    found: Value = g.GATHER(x, g.cast(near, INT32), axis=axis)
    return found


def _nearest(g: Builder, rounding: str, place: Value, scale: Value | None) -> Value:
    """See `interpolation.NEAREST`."""
    if rounding == "floor":
        return g.FLOOR(place)
    if rounding == "ceil":
        return g.CEIL(place)
    if rounding == "simple" and scale is not None:
        return g.SELECT_V2(g.LESS(scale, 1.0), g.CEIL(place), g.FLOOR(place))
    half = g.ADD(g.FLOOR(place), 0.5)
    snapped = g.SELECT_V2(g.LESS_EQUAL(g.ABS(g.SUB(place, half)), TIE), half, place)
    if rounding == "round_prefer_floor":
        return g.CEIL(g.SUB(snapped, 0.5))
    return g.FLOOR(g.ADD(snapped, 0.5))


def _weight(g: Builder, how: Interpolation, apart: Value) -> Value:
    """See `Interpolation.filter`."""
    if how.mode == "linear":
        return g.MAXIMUM(g.SUB(1.0, apart), 0.0)
    a = how.cubic_coeff_a
    square = g.MUL(apart, apart)
    near = g.ADD(g.MUL(g.SUB(g.MUL(apart, a + 2), a + 3), square), 1.0)
    inner = g.ADD(g.MUL(g.SUB(apart, 5.0), apart), 8.0)
    far = g.SUB(g.MUL(g.MUL(inner, apart), a), 4 * a)
    beyond = g.SELECT_V2(g.LESS(apart, 2.0), far, g.const(0, np.float32))
    return g.SELECT_V2(g.LESS(apart, 1.0), near, beyond)


def _inside(g: Builder, taps: list[Value], weights: list[Value], size: int) -> list[Value]:
    """Weigh only what lies in the source."""
    kept = []
    for tap, weight in zip(taps, weights, strict=True):
        fits = g.LOGICAL_AND(g.GREATER_EQUAL(tap, 0.0), g.LESS_EQUAL(tap, float(size - 1)))
        kept.append(g.SELECT_V2(fits, weight, g.const(0, np.float32)))
    return kept


def _to_one(g: Builder, weights: list[Value]) -> list[Value]:
    """Weights in the same ratio, with a sum of 1."""
    total = reduce(g.ADD, weights)
    return [g.DIV(weight, total) for weight in weights]
