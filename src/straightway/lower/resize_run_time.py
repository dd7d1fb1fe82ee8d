"""Resizing by scales that come at run time: coordinates are computed, elements looked up and weighed."""

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.integers import INT32
from straightway.lower.interpolation import RADIUS, TIE, Interpolation
from straightway.lower.selection import part

# coordinates that don't depend on the result's size before it was rounded: there engines disagree
SCALED = ("asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")


def resized_at_run_time(
    g: Builder,
    x: Value,
    how: Interpolation,
    scales: tuple[Value, tuple[int, ...]],
    out: tuple[int, ...],
) -> Value:
    """`scales`: the numbers, and the axes that they belong to.

    Each axis by itself; one whose size stays is copied, whatever its scale says, as onnxruntime does.
    """
    if how.coordinate_transformation_mode not in SCALED or how.antialias:
        raise NotYet(
            f"scales at run time are lowered for {', '.join(SCALED)} without antialias; got "
            f"{how.coordinate_transformation_mode}, antialias {how.antialias}",
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
            where = _coordinates(g, how, scale, (x.shape[axis], out[axis]))
            x = _looked_up(g, x, axis, how, (where, scale))
    return x


def _coordinates(g: Builder, how: Interpolation, scale: Value, sizes: tuple[int, int]) -> Value:
    """Where the elements of the result stand in the source, float32 [out]."""
    size, out = sizes
    places = np.arange(out, dtype=np.float32)
    name = how.coordinate_transformation_mode
    if name == "asymmetric":
        return g.DIV(g.const(places), scale)
    if name == "pytorch_half_pixel" and out == 1:
        return g.MUL(scale, 0.0)
    found = g.SUB(g.DIV(g.const(places + np.float32(0.5)), scale), 0.5)
    if name != "half_pixel_symmetric":
        return found
    adjustment = g.DIV(float(out), g.MUL(scale, float(size)))
    return g.ADD(found, g.MUL(g.SUB(1.0, adjustment), size / 2))


def _looked_up(
    g: Builder, x: Value, axis: int, how: Interpolation, where: tuple[Value, Value]
) -> Value:
    """The nearest element, or the sum of the neighbours by their weights."""
    place, scale = where
    if how.mode == "nearest":
        return _taken(g, x, axis, _nearest(g, how.nearest_mode, place, scale))
    base = g.FLOOR(place)
    reach = RADIUS[how.mode]
    taps = [g.ADD(base, float(k)) for k in range(1 - reach, reach + 1)]
    weights = [_weight(g, how, g.ABS(g.SUB(tap, place))) for tap in taps]
    if how.exclude_outside:
        weights = _inside(g, taps, weights, x.shape[axis])
    shape = [1] * axis + [place.shape[0]] + [1] * (x.rank - axis - 1)
    result = None
    for tap, weight in zip(taps, weights, strict=True):
        one = g.MUL(_taken(g, x, axis, tap), g.reshape(weight, shape))
        result = one if result is None else g.ADD(result, one)
    if result is None:
        raise NotYet(f"mode {how.mode} has no neighbours")
    return result


def _taken(g: Builder, x: Value, axis: int, place: Value) -> Value:
    near = g.MINIMUM(g.MAXIMUM(place, 0.0), float(x.shape[axis] - 1))
    found: Value = g.GATHER(x, g.cast(near, INT32), axis=axis)
    return found


def _nearest(g: Builder, rounding: str, place: Value, scale: Value) -> Value:
    """See `interpolation.NEAREST`."""
    if rounding == "floor":
        return g.FLOOR(place)
    if rounding == "ceil":
        return g.CEIL(place)
    if rounding == "simple":
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
    """Weigh only what lies in the source, to a sum of 1."""
    kept = []
    for tap, weight in zip(taps, weights, strict=True):
        fits = g.LOGICAL_AND(g.GREATER_EQUAL(tap, 0.0), g.LESS_EQUAL(tap, float(size - 1)))
        kept.append(g.SELECT_V2(fits, weight, g.const(0, np.float32)))
    total = kept[0]
    for weight in kept[1:]:
        total = g.ADD(total, weight)
    return [g.DIV(weight, total) for weight in kept]
