"""Ops that give elements another place, shape or type, and change none."""

import math
from collections.abc import Sequence

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.broadcast import FLOAT32, spread
from straightway.lower.builder import Builder
from straightway.lower.declare import ABSENT, EVALUATION, Const, Ints, case, lower, need, run
from straightway.lower.integers import converted
from straightway.lower.looked_up import Axes, Given, known_ints, sliced_at_run_time
from straightway.lower.selection import (
    MOST_STRIDED_RANK,
    ascending,
    bounded,
    crop,
    every,
    join,
    part,
    repeat,
)
from straightway.passes.identity import FARTHEST

# XNNPACK's delegate splits into two to four parts (xnnpack_delegate.cc: VisitSplitNode).
MOST_SPLIT = 4
LONGS = run(np.arange(24).reshape(2, 3, 4) - 2**40, np.int64)
BYTES = run(np.arange(24).reshape(2, 3, 4) - 12, np.int8)
TRUTH = run(np.arange(24).reshape(2, 3, 4) % 3 == 0, bool)


def ints(*numbers: int) -> np.ndarray:
    """Make a constant operand of a sample."""
    return np.array(numbers, np.int64)


@lower(
    "Reshape",
    samples=[
        case(data=(2, 3, 4, 5), shape=ints(2, -1, 5)),
        case(data=(2, 3, 4, 5), shape=ints(0, 0, 20)),
        case(data=(2, 3, 4), shape=(6, 4), opset=1),
        case(data=LONGS, shape=ints(-1)),
        case(data=(1, 1), shape=np.zeros(0, np.int64)),
    ],
)
def reshape(
    g: Builder,
    x: Value,
    /,
    *,
    shape: object = None,
    allowzero: int = 0,
    out: list[TensorType],
) -> Value:
    """The result's type is known, however its shape was computed."""
    if x.known_type.size != out[0].size:
        raise InvalidModel(f"{x.type} has other elements than {out[0]}")
    return g.reshape(x, out[0].dims)


@lower("Flatten", samples=[case(input=(2, 3, 4, 5)), case(input=(2, 3, 4), axis=0)])
def flatten(g: Builder, x: Value, /, axis: int, *, out: list[TensorType]) -> Value:
    """A reshape."""
    return g.reshape(x, out[0].dims)


@lower(
    "Squeeze",
    "Unsqueeze",
    samples=[case(data=(2, 1, 4, 1), axes=ints(1)), case(data=(2, 1, 4, 1), axes=(1,), opset=11)],
)
def squeeze(g: Builder, x: Value, /, axes: object = None, *, out: list[TensorType]) -> Value:
    """A reshape."""
    return g.reshape(x, out[0].dims)


@lower(
    "Transpose",
    samples=[case(data=(2, 3, 4, 5), perm=(0, 2, 3, 1)), case(data=(2, 3, 4)), case(data=LONGS)],
)
def transpose(g: Builder, x: Value, /, perm: Ints = ABSENT) -> Value:
    """Dimensions named anew."""
    return g.transpose(x, perm or range(x.rank)[::-1])


@lower(
    "Concat",
    samples=[
        case(inputs=[(2, 3, 4, 5), (2, 1, 4, 5), (2, 2, 4, 5)], axis=1),
        case(inputs=[(2, 3), (2, 1)], axis=-1),
        case(inputs=[(2, 3)], axis=0),
        case(inputs=[(2, 3), (2, 0)], axis=1),
        case(inputs=[(2, 3), (2, 1), (2, 2), (2, 4), (2, 5), (2, 6)], axis=1),
        case(inputs=[LONGS, LONGS], axis=1),
        case(inputs=[BYTES, BYTES], axis=2),
        case(inputs=[TRUTH, TRUTH], axis=2),
        case(inputs=[(2, 3), (2, 1)], opset=3),
    ],
)
def concat(g: Builder, *parts: Value, axis: int = 1) -> Value:
    """One op; empty parts vanish. Before opset 4 the axis is 1 unless told."""
    return join(g, parts, counted(axis, parts[0].rank))


@lower(
    "Split",
    samples=[
        case(input=(2, 6, 4, 5), split=ints(2, 3, 1), axis=1, outputs=3),
        case(input=(2, 6, 4), num_outputs=2, axis=1, outputs=2),
        case(input=(2, 7, 4), num_outputs=3, axis=-2, outputs=3),
        case(input=(2, 6, 4), axis=1, outputs=6, num_outputs=6),
        case(input=(2, 6, 4), num_outputs=1, outputs=1),
        case(input=(2, 6, 4), split=(2, 4), axis=1, outputs=2, opset=11),
        case(input=LONGS, split=ints(1, 3), axis=2, outputs=2),
        case(input=run(np.arange(24).reshape(2, 12), np.int32), num_outputs=6, axis=1, outputs=6),
    ],
)
def split(
    g: Builder,
    x: Value,
    /,
    *,
    split: object = None,
    axis: int = 0,
    num_outputs: int | None = None,
    out: list[TensorType],
) -> list[Value]:
    """Even halves to quarters are one SPLIT; other parts of floats slices, which delegate."""
    axis = counted(axis, x.rank)
    sizes = [kind.dims[axis] for kind in out]
    if len(sizes) == 1:
        return [x]
    even = len(set(sizes)) == 1
    if even and (x.dtype != FLOAT32 or len(sizes) <= MOST_SPLIT):
        return list(g.SPLIT(x, axis=axis, num_splits=len(sizes)))
    if x.dtype != FLOAT32 and 0 not in sizes:
        return list(g.SPLIT_V(x, axis=axis, sizes=tuple(sizes), num_splits=len(sizes)))
    starts = np.cumsum([0, *sizes])
    return [part(g, x, axis, int(start), n) for start, n in zip(starts, sizes, strict=False)]


@lower(
    "Slice",
    samples=[
        case(data=(2, 5, 6, 7), starts=ints(1, 2), ends=ints(4, -1), axes=ints(1, 3)),
        case(data=(2, 5, 6, 7), starts=ints(0, 1), ends=ints(2, 100)),
        case(data=(2, 6, 8), starts=ints(0, 1), ends=ints(6, 8), axes=ints(1, 2), steps=ints(2, 3)),
        case(data=(2, 7), starts=ints(0), ends=ints(7), axes=ints(1), steps=ints(2)),
        case(data=(2, 1, 3, 7, 1, 2), starts=ints(0), ends=ints(7), axes=ints(3), steps=ints(3)),
        case(data=(2, 7), starts=ints(-1), ends=ints(-100), axes=ints(1), steps=ints(-1)),
        case(data=(2, 8), starts=ints(6), ends=ints(0), axes=ints(-1), steps=ints(-2)),
        case(
            data=(2, 3, 4),
            starts=ints(-1, -1),
            ends=ints(-9, -9),
            axes=ints(0, 2),
            steps=ints(-1, -1),
        ),
        case(data=(2, 5, 6), starts=(1,), ends=(4,), axes=(1,), opset=9),
        case(data=(2, 5), starts=ints(3), ends=ints(3), axes=ints(1)),
        case(data=LONGS, starts=ints(2, 3), ends=ints(0, 0), axes=ints(1, 2), steps=ints(-1, -2)),
        case(data=(4, 5), starts=run([-9], np.int64), ends=run([2], np.int64), axes=ints(1)),
        case(
            data=(4, 6),
            starts=run([1, -1], np.int64),
            ends=run([9, -9], np.int64),
            axes=run([0, -1], np.int64),
            steps=run([2, -3], np.int64),
        ),
    ],
)
def slice_(
    g: Builder,
    x: Value,
    /,
    *,
    starts: Given,
    ends: Given,
    axes: Given = ABSENT,
    steps: Given = ABSENT,
    out: list[TensorType],
) -> Value:
    """Cut the box out, then keep every step-th, then reverse what runs backwards.

    What comes at run time has so many steps as the result says, each looked up.
    """
    known = [known_ints(given) for given in (starts, ends, axes, steps)]
    if None in known and not g.open_dims:
        return sliced_at_run_time(g, x, (starts, axes, steps), out[0].dims)
    if None in known:
        g.need_fixed_size("what comes at run time")
    return _sliced(g, x, [found or () for found in known])


def _clamps(g: Builder, x: Value, axis: int, box: slice) -> bool:
    """Whether it depends on an axis of any size how much of it is taken, and from where."""
    if axis not in g.open_dims or x.const is not None or x.rank > MOST_STRIDED_RANK:
        return False
    if (
        box.step < 0
    ):  # the kernel finds nothing from before the first element backwards, ONNX that one
        return 0 <= box.start < FARTHEST or (box.start == -1 and -FARTHEST < box.stop < 0)
    to_the_end = box.stop == x.shape[axis] or box.stop >= FARTHEST
    return box.start < 0 or not (to_the_end or box.stop < 0)


def _places(size: int, box: slice | None) -> range:
    """What is taken of an axis: Python's slice, but backwards from far before the first that one."""
    if box is None:
        return range(size)
    start = max(box.start, -size) if box.step < 0 else box.start
    return range(size)[start : box.stop : box.step]


def _sliced(g: Builder, x: Value, given: Sequence[Axes]) -> Value:
    starts, ends, axes, steps = given
    steps = steps or (1,) * len(starts)
    asked: dict[int, slice] = {}
    for k, axis in enumerate(axes or range(len(starts))):
        own = counted(axis, x.rank)
        to_the_start = steps[k] < 0 and ends[k] == -x.shape[own] - 1
        asked[own] = slice(starts[k], -FARTHEST if to_the_start else ends[k], steps[k])
    clamped = {axis: box for axis, box in asked.items() if _clamps(g, x, axis, box)}
    if clamped:
        x = bounded(g, x, clamped)
        asked = {axis: box for axis, box in asked.items() if axis not in clamped}
    places = [_places(size, asked.get(k)) for k, size in enumerate(x.shape)]
    if any(not place for place in places):
        return g.const(np.zeros([len(place) for place in places], x.dtype))
    near = [abs(place.step) == 1 or len(place) == 1 for place in places]
    begin = [min(p) if n else 0 for p, n in zip(places, near, strict=True)]
    sizes = [len(p) if n else d for p, n, d in zip(places, near, x.shape, strict=True)]
    result = crop(g, x, begin, sizes)
    for axis in (k for k, n in enumerate(near) if not n):
        result = every(g, result, axis, ascending(places[axis]))
    for axis, place in enumerate(places):
        # one at a time: the kernel takes neighbouring axes only, and no one knows their order yet
        # (kernels/reverse.cc:110)
        if place.step < 0 and len(place) > 1:
            result = g.REVERSE_V2(result, axes=(axis,))
    return result


@lower(
    "Expand",
    samples=[
        case(input=(2, 3, 1, 5), shape=ints(2, 3, 4, 5)),
        case(input=(3, 1), shape=ints(2, 1, 4)),
        case(input=(3, 1), shape=ints(3, 1)),
        case(input=run([[1], [-(2**40)]], np.int64), shape=ints(2, 3)),
        case(input=run([[True], [False]], bool), shape=ints(2, 3)),
    ],
)
def expand(g: Builder, x: Value, /, shape: object, *, out: list[TensorType]) -> Value:
    """Floats are multiplied by ones, which delegates; others take BROADCAST_TO."""
    return spread(g, x, out[0].dims)


@lower(
    "Tile",
    samples=[
        case(input=(2, 3, 4, 5), repeats=ints(1, 2, 1, 3)),
        case(input=(2, 3), repeats=ints(7, 1)),
        case(input=(2, 3), repeats=ints(0, 1)),
        case(input=(2, 3), tiles=np.array(2, np.float32), axis=np.array(1, np.float32), opset=1),
        case(input=LONGS, repeats=ints(2, 1, 3)),
        case(input=TRUTH, repeats=ints(2, 1, 3)),
    ],
)
def tile(
    g: Builder,
    x: Value,
    /,
    *,
    repeats: object = None,
    tiles: object = None,
    axis: object = None,
    out: list[TensorType],
) -> Value:
    """Copies of floats are joined, up to five at once, which delegates; others take TILE.

    How often is known by the result's type; where that stays open along an axis, so may the number of copies.
    """
    (kind,) = out
    if kind.size == 0:
        return g.const(np.zeros(kind.dims, x.dtype))
    times = tuple(new // old for new, old in zip(kind.dims, x.shape, strict=True))
    if x.dtype != FLOAT32 or g.open_results - g.open_dims:
        return x if set(times) <= {1} else g.TILE(x, multiples=times)
    for place, count in enumerate(times):
        x = repeat(g, x, place, count)
    return x


@lower("Shape", samples=[case(data=(2, 3, 4, 5)), case(data=(2, 3, 4, 5), start=1, end=-1)])
def shape_of(g: Builder, x: Value, /, start: int = 0, end: int | None = None) -> Value:
    """Shapes are known when converting: a constant."""
    return g.const(np.array(x.shape[slice(start, end)], np.int64))


@lower("Size", samples=[case(data=(2, 3, 4, 5))])
def size_of(g: Builder, x: Value, /) -> Value:
    """A constant."""
    return g.const(np.array(math.prod(x.shape), np.int64))


HUGE = run([[2**64 - 1, 2**63 + 2**39 + 1, 0], [2**63 - 1, 2**53 + 1, 7]], np.uint64)
FLOATS = run([[-2.75, -0.5, 0.0], [0.5, 3.25, 100.0]])


@lower(
    "Cast",
    samples=[
        case(input=FLOATS, to=6),
        case(input=FLOATS, to=7),
        case(input=FLOATS, to=9),
        case(input=FLOATS, to=3),
        case(input=FLOATS, to="INT32", opset=5),
        case(input=LONGS, to=1),
        case(input=LONGS, to=6),
        case(input=BYTES, to=2),
        case(input=TRUTH, to=1),
        case(input=TRUTH, to=7),
        case(input=HUGE, to=1),
        case(input=HUGE, to=5),
        case(input=HUGE, to=9),
        case(input=run([[0.0, 5.5, 2.0**63], [2.0**62, 2.0**64 - 2.0**40, 1.0]]), to=13),
        case(input=LONGS, to=13),
    ],
)
def cast(
    g: Builder,
    x: Value,
    /,
    *,
    to: int | str = 0,
    saturate: int = 1,
    round_mode: str = "up",
    out: list[TensorType],
) -> Value:
    """One op; of and to uint64, a few."""
    return converted(g, x, out[0].dtype)


@lower(
    "CastLike",
    samples=[case(input=FLOATS, target_type=LONGS), case(input=LONGS, target_type=(2, 3))],
)
def cast_like(
    g: Builder,
    x: Value,
    like: Value,
    /,
    *,
    saturate: int = 1,
    round_mode: str = "up",
    out: list[TensorType],
) -> Value:
    """A cast to the other operand's type."""
    return converted(g, x, out[0].dtype)


INFERENCE = np.array(0).view(Const)


@lower(
    "Dropout",
    needs=[
        need(
            lambda training_mode: not np.any(training_mode),
            "training_mode must be 0; got {training_mode}",
            remedy=EVALUATION,
            kernel="onnx/docs/Operators.md#Dropout",
        )
    ],
    samples=[
        case(data=(2, 3, 4)),
        case(data=(2, 3, 4), outputs=2),
        case(data=(2, 3, 4), ratio=0.25, opset=7),
    ],
    refuses=[case(data=(2, 3), training_mode=np.array(1, bool), ratio=np.array(0.5, np.float32))],
)
def dropout(
    g: Builder,
    x: Value,
    /,
    *,
    ratio: object = None,
    training_mode: Const = INFERENCE,
    seed: int | None = None,
    is_test: int = 1,
    out: list[TensorType],
) -> list[Value]:
    """Nothing is dropped; the mask keeps everything. Before opset 7 `is_test` is taken as set."""
    return [x, *(g.const(np.ones(kind.dims, kind.dtype)) for kind in out[1:])]
