"""Padding and cropping."""

import math
from collections.abc import Sequence

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.builder import Builder
from straightway.lower.declare import ABSENT, ZERO, AnyFloat, Ints, case, lower, need, run
from straightway.lower.looked_up import Axes, Given, known_ints, padded_at_run_time
from straightway.lower.selection import crop, take
from straightway.tflite.rows import ROWS

Pairs = list[tuple[int, int]]
LONGS = run(np.arange(24).reshape(2, 3, 4) - 2**40, np.int64)
NUMPY_MODES = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def ints(*numbers: int) -> np.ndarray:
    """Make a constant operand of a sample."""
    return np.array(numbers, np.int64)


@lower(
    "Pad",
    needs=[
        need(
            lambda mode: mode in ("constant", *NUMPY_MODES),
            "mode must be constant, reflect, edge or wrap; got {mode}",
            kernel="onnx/docs/Operators.md#Pad",
        ),
        need(
            lambda data, mode: mode == "constant" or min(data.shape) > 0,
            "the tensor must not be empty, where its elements are repeated; got {data.type}",
            kernel="onnx/docs/Operators.md#Pad",
        ),
    ],
    samples=[
        case(data=(2, 3, 4, 5), pads=ints(0, 0, 1, 2, 0, 0, 3, 0)),
        case(
            data=(2, 3, 4),
            pads=ints(0, 1, 2, 0, 0, 1),
            constant_value=np.array(-3.5, np.float32),
        ),
        case(data=(2, 3, 4), pads=ints(1, 2), axes=ints(-1), constant_value=run(7.0)),
        case(data=(2, 3, 6), pads=ints(0, -1, 2, 0, 0, -1)),
        case(data=(2, 3, 6), pads=(0, 1, 2, 0, 0, 1), value=2.0, opset=10),
        case(data=(2, 3, 6), pads=ints(0, 1, 2, 0, 1, 0), mode="reflect"),
        case(data=(2, 5, 6), pads=ints(0, 4, 5, 0, 3, 5), mode="reflect"),
        case(data=(2, 5, 6), pads=ints(0, 4, 0, 0, 3, 2), mode="edge"),
        case(data=(2, 5, 6), pads=ints(0, 1, 7, 0, 3, 2), mode="wrap"),
        case(data=LONGS, pads=ints(0, 1, 2, 1, 2, 1), constant_value=np.array(7, np.int64)),
        case(data=LONGS, pads=ints(0, 1, 2, 1, 2, 1), mode="edge"),
        case(data=(2, 3), pads=ints(0, 0, 0, 0)),
        case(data=(2, 3, 2, 1, 2, 3), pads=ints(0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0)),
        case(data=(2, 3, 2, 1, 2, 3), pads=ints(1, 2), axes=ints(3), constant_value=run(2.0)),
        case(data=(2, 3), paddings=(0, 1, 2, 0), opset=1),
        case(data=(2, 3), pads=run([0, 1, 2, -1], np.int64), constant_value=run(7.0)),
        case(data=(2, 3, 5), pads=run([2, -1], np.int64), axes=run([-1], np.int64)),
        case(data=(2, 3, 5), pads=run([4, 2], np.int64), axes=ints(2), mode="reflect"),
        case(data=(2, 5), pads=run([1, 3, 2, 1], np.int64), mode="edge"),
        case(data=(2, 5), pads=run([3, 6, 1, 2], np.int64), mode="wrap"),
    ],
    refuses=[
        case(data=(2, 3), pads=ints(0, 0, 0, 1), mode="mirror"),
        case(data=(2, 0), pads=ints(0, 1, 0, 1), mode="edge"),
        case(data=(2, 1), pads=ints(0, 3, 0, -2)),
    ],
)
def pad(
    g: Builder,
    data: Value,
    /,
    *,
    pads: Given = ABSENT,
    paddings: Ints = ABSENT,
    constant_value: Value | None = None,
    axes: Given = ABSENT,
    mode: str = "constant",
    value: AnyFloat = ZERO,
    out: list[TensorType],
) -> Value:
    """Negative amounts are cropped first. Mirrored and repeated borders are constant selections."""
    fill = value if constant_value is None else constant_value
    known, named = known_ints(pads), known_ints(axes)
    if known is None or named is None:
        if g.open_dims:
            g.need_fixed_size("what comes at run time")
        return padded_at_run_time(g, data, (pads, axes), out[0].dims, (mode, fill))
    return _padded(g, data, (known or paddings, named), mode, fill)


def _padded(
    g: Builder, data: Value, given: tuple[Axes, Axes], mode: str, fill: Value | float
) -> Value:
    """With known amounts, of the axes named, or of all."""
    pads, axes = given
    pairs: Pairs = [(0, 0)] * data.rank
    half = len(pads) // 2
    for place, before, after in zip(axes or range(half), pads[:half], pads[half:], strict=True):
        pairs[counted(place, data.rank)] = (before, after)
    x = _cropped(g, data, pairs)
    grown = [(max(a, 0), max(b, 0)) for a, b in pairs]
    if mode != "constant":
        return _repeated(g, x, grown, mode)
    return _filled(g, x, grown, fill)


def _cropped(g: Builder, x: Value, pairs: Pairs) -> Value:
    begin = [max(-before, 0) for before, _ in pairs]
    size = [d - b - max(-after, 0) for d, b, (_, after) in zip(x.shape, begin, pairs, strict=True)]
    if min(size, default=0) < 0:
        raise NotYet(f"more is cut off than there is, of {x.type} by {pairs}")
    return crop(g, x, begin, size)


def _filled(g: Builder, x: Value, pairs: Pairs, fill: Value | float) -> Value:
    """Put a number around; it may come at run time."""
    if isinstance(fill, Value) and fill.known_type.size != 1:
        raise InvalidModel(f"one number is put around; got {fill.type}")
    if isinstance(fill, Value) and fill.const is not None:
        fill = fill.const.reshape(-1)[0].item()
    if x.rank <= ROWS["PAD"].max_rank:
        return _around(g, x, pairs, fill)
    for axis, pair in enumerate(pairs):
        outer, inner = x.shape[:axis], x.shape[axis + 1 :]
        flat = g.reshape(x, (math.prod(outer), x.shape[axis], math.prod(inner)))
        flat = _around(g, flat, [(0, 0), pair, (0, 0)], fill)
        x = g.reshape(flat, (*outer, flat.shape[1], *inner))
    return x


def _around(g: Builder, x: Value, pairs: Pairs, fill: Value | float) -> Value:
    if not isinstance(fill, Value):
        return g.pad(x, pairs, fill)
    return g.PADV2(x, g.reshape(fill, ()), paddings=tuple(pairs))


def _repeated(g: Builder, x: Value, pairs: Pairs, mode: str) -> Value:
    """Pick border elements again, axis by axis."""
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = take(g, x, repeated_positions(x.shape[axis], before, after, mode), axis)
    return x


def repeated_positions(size: int, before: int, after: int, mode: str) -> Sequence[int]:
    """Which elements of an axis stand where after padding it in a mode of numpy's."""
    spread = np.pad(np.arange(size), (before, after), mode=NUMPY_MODES[mode])  # type: ignore[call-overload]
    return [int(place) for place in spread]
