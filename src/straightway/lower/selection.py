"""Constant positions along an axis: slices, joins, reversals, gathers, whichever runs fastest."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from straightway.ir import Value
from straightway.lower.broadcast import FLOAT32
from straightway.lower.builder import Builder

# XNNPACK's delegate joins two to five operands (xnnpack_delegate.cc: VisitConcatenationNode).
MOST_JOINED = 5
# A strided selection by RESHAPE and SLICE needs a dimension more, of XNNPACK's six.
MOST_DELEGATED_RANK = 6
# kernels/strided_slice.cc: Prepare
MOST_STRIDED_RANK = 5
# bounds of slices are int32 there
MOST_PLACE = 2**31 - 1


def crop(g: Builder, x: Value, begin: Sequence[int], size: Sequence[int]) -> Value:
    """Cut a box out; nothing where it is the whole."""
    if tuple(size) == x.shape:
        return x
    if x.const is not None and not g.keeps:
        box = tuple(slice(b, b + n) for b, n in zip(begin, size, strict=True))
        key = ("crop", tuple(begin), tuple(size))
        return g.rearranged(x, key, lambda array: array[box])
    return g.SLICE(x, begin=tuple(begin), size=tuple(size))


def part(g: Builder, x: Value, axis: int, begin: int, size: int) -> Value:
    """Cut along one axis."""
    begins = [begin if k == axis else 0 for k in range(x.rank)]
    sizes = [size if k == axis else d for k, d in enumerate(x.shape)]
    return crop(g, x, begins, sizes)


def join(g: Builder, parts: Sequence[Value], axis: int) -> Value:
    """Put parts behind each other; empty parts vanish."""
    full = [p for p in parts if p.shape[axis]] or list(parts[:1])
    return full[0] if len(full) == 1 else g.CONCATENATION(*full, axis=axis)


def take(g: Builder, x: Value, positions: Sequence[int], axis: int) -> Value:
    """Pick constant positions along an axis, in any order, with repetitions.

    Few stretches, forwards or backwards, are slices joined: mirrored borders of 127 elements around
    44,000 take a tenth of GATHER's time so, and a twentieth of MIRROR_PAD's.
    """
    found = stretches(positions)
    if not found:
        return part(g, x, axis, 0, 0)
    if len(found) == 1 or (len(found) <= MOST_JOINED and x.dtype == FLOAT32):
        return join(g, [_stretch(g, x, axis, places) for places in found], axis)
    step = _common_step(positions)
    if step is None:
        return g.GATHER(x, g.const(np.array(positions, np.int32)), axis=axis)
    return _stretch(g, x, axis, range(positions[0], positions[-1] + step, step))


def stretches(positions: Sequence[int]) -> list[range]:
    """Split into runs of positions that go up, or down, by one."""
    found: list[range] = []
    for position in positions:
        last = found[-1] if found else range(0)
        step = position - last[-1] if last else 0
        if abs(step) == 1 and (len(last) == 1 or step == last.step):
            found[-1] = range(last.start, position + step, step)
        else:
            found.append(range(position, position + 1))
    return found


def _stretch(g: Builder, x: Value, axis: int, places: range) -> Value:
    """Pick evenly spaced positions, backwards where the step is negative."""
    found = every(g, x, axis, ascending(places))
    return found if places.step > 0 else g.REVERSE_V2(found, axes=(axis,))


def ascending(places: range) -> range:
    """The same positions, upwards."""
    return places if places.step > 0 else places[::-1]


def _common_step(positions: Sequence[int]) -> int | None:
    steps = {b - a for a, b in pairwise(positions)}
    return steps.pop() if len(steps) == 1 and 0 not in steps else None


def every(g: Builder, x: Value, axis: int, places: range, unread: int | None = None) -> Value:
    """Pick positions that are a positive step apart.

    `unread`: at every size, all are picked but those among so many elements at the end.

    XNNPACK's delegate takes no stride: there the axis is split in groups of one step, and one place
    of each group is kept.
    """
    count, step = len(places), places.step
    if step == 1 or count == 1:
        return part(g, x, axis, places.start, count)
    if g.open_dims:  # how many are left over depends on the size
        return _strided(g, x, axis, places, unread)
    offset = max(places.start + count * step - x.shape[axis], 0)  # so that the last group is whole
    if x.dtype != FLOAT32 or offset > min(places.start, step - 1) or x.rank >= MOST_DELEGATED_RANK:
        return _strided(g, x, axis, places)
    groups = part(g, x, axis, places.start - offset, count * step)
    shape = groups.shape
    split = g.reshape(groups, (*shape[:axis], count, step, *shape[axis + 1 :]))
    kept = part(g, split, axis + 1, offset, 1)
    return g.reshape(kept, (*shape[:axis], count, *shape[axis + 1 :]))


def _strided(g: Builder, x: Value, axis: int, places: range, unread: int | None = None) -> Value:
    """STRIDED_SLICE of the axis alone, what is outside and inside it as one dimension each."""
    last = places[-1] + 1
    end = x.shape[axis] if last - 1 + places.step >= x.shape[axis] else last
    end = end if unread is None else x.shape[axis] - unread
    if g.open_dims and x.rank <= MOST_STRIDED_RANK:
        whole = range(x.rank)
        return g.STRIDED_SLICE(
            x,
            begin=tuple(places.start if k == axis else 0 for k in whole),
            end=tuple(end if k == axis else x.shape[k] for k in whole),
            strides=tuple(places.step if k == axis else 1 for k in whole),
            end_mask=(0,) * x.rank,
        )
    outer, inner = x.shape[:axis], x.shape[axis + 1 :]
    flat = g.reshape(x, (math.prod(outer), x.shape[axis], math.prod(inner)))
    found = g.STRIDED_SLICE(
        flat,
        begin=(0, places.start, 0),
        end=(flat.shape[0], end, flat.shape[2]),
        strides=(1, places.step, 1),
        end_mask=(0, 0, 0),
    )
    return g.reshape(found, (*outer, len(places), *inner))


def bounded(g: Builder, x: Value, bounds: Mapping[int, slice]) -> Value:
    """Slices of some axes as Python has them, whatever the size: the kernel clamps as well.

    So does XNNPACK (subgraph/static-slice.c: reshape_slice_operator).
    """
    boxes = [bounds.get(k, slice(0, size, 1)) for k, size in enumerate(x.shape)]

    def stored(places: Iterator[int]) -> tuple[int, ...]:
        return tuple(max(min(place, MOST_PLACE), -MOST_PLACE) for place in places)

    return g.STRIDED_SLICE(
        x,
        begin=stored(box.start for box in boxes),
        end=stored(box.stop for box in boxes),
        strides=stored(box.step for box in boxes),
        end_mask=(0,) * x.rank,
    )


def repeat(g: Builder, x: Value, axis: int, times: int) -> Value:
    """Put `times` copies behind each other along an axis."""
    return join(g, [x] * times, axis)
