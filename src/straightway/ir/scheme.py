"""Scales and zero points that follow their tensor when its elements move."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from straightway.ir.graph import Quant

Move = Callable[[np.ndarray], np.ndarray]


def moved(quant: Quant | None, shape: tuple[int, ...], move: Move) -> Quant | None:
    """The scheme of `move(x)` for x of a shape; `move` only moves elements and may add zeros.

    None where the scales no longer vary along a single axis.
    """
    if quant is None or quant.axis is None:
        return quant
    axis, count = quant.axis, shape[quant.axis]
    along = [count if k == axis else 1 for k in range(len(shape))]
    # 0 is what `move` adds: it is zero by every scale
    places = move(np.broadcast_to(np.arange(1, count + 1, dtype=np.int32).reshape(along), shape))
    for target in range(places.ndim):
        others = tuple(k for k in range(places.ndim) if k != target)
        high = places.max(others)
        if np.all((places == 0) | (places == np.expand_dims(high, others))):
            picked = np.maximum(high - 1, 0)
            scale, zero_point = (np.ravel(p)[picked] for p in (quant.scale, quant.zero_point))
            return replace(quant, scale=scale, zero_point=zero_point, axis=target)
    return None


def multiplied(quant: Quant | None, factor: np.ndarray, axis: int) -> Quant | None:
    """The scheme of x · factor for x of a scheme: its integers stay, or change their sign.

    One factor for all, or one for each index of `axis`. None where the scales would vary along two axes,
    or where the zero points would be others.
    """
    factors = np.ravel(factor)
    if quant is None or quant.block or not np.all(np.isfinite(factors) & (factors != 0)):
        return None
    factors = factors[:1] if np.all(factors == factors[0]) else factors
    if (factors < 0).any() and np.any(quant.zero_point):
        return None
    if factors.size > 1 and quant.axis not in (None, axis):
        return None
    wide = np.ravel(np.asarray(quant.scale, np.float64))
    scale = (wide * np.abs(factors)).astype(np.float32)
    zero_point = np.broadcast_to(np.ravel(quant.zero_point), scale.shape)
    along = axis if factors.size > 1 else quant.axis
    return replace(quant, scale=scale, zero_point=zero_point, axis=along)


def aligned(parameter: np.ndarray, quant: Quant, rank: int) -> np.ndarray:
    """A scale or zero point of `quant`, shaped to stand beside its tensor."""
    if quant.axis is None:
        return np.ravel(parameter)[0]  # type: ignore[no-any-return]
    return np.reshape(parameter, [-1 if k == quant.axis else 1 for k in range(rank)])
