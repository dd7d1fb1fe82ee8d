"""Images read at points that come at run time: GridSample, AffineGrid, RoiAlign.

Points go by gathers of pixels and sums with weights. An infinite point, or an infinite pixel beside
the border, gives NaN where ONNX may give zero.
"""

import math
from dataclasses import dataclass

import numpy as np

from straightway.errors import InvalidModel, NotYet
from straightway.ir import Node, TensorType, Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need, run
from straightway.lower.integers import INT32
from straightway.lower.matrix import product
from straightway.lower.selection import part
from straightway.lower.tables import refuse_large_table

FLOAT = np.dtype(np.float32)
CUBIC = -0.75
# Weights of neighbouring pixels as polynomials of the way from the pixel before the point: for each
# neighbour the factors of 1, t, t², t³. Cubic: R. G. Keys, "Cubic convolution interpolation" (1981).
LINEAR_WEIGHTS = ((1.0, -1.0), (0.0, 1.0))
CUBIC_WEIGHTS = (
    (0.0, CUBIC, -2 * CUBIC, CUBIC),
    (1.0, 0.0, -(CUBIC + 3), CUBIC + 2),
    (0.0, -CUBIC, 2 * CUBIC + 3, -(CUBIC + 2)),
    (0.0, 0.0, CUBIC, -CUBIC),
)
NEIGHBOURS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}
# Names of modes before opset 20.
OLD_MODES = {"bilinear": "linear", "bicubic": "cubic"}
GRID = run(np.linspace(-1.4, 1.3, 2 * 3 * 4 * 2).reshape(2, 3, 4, 2)[:, :, ::-1])
DEEP = run(np.linspace(-1.2, 1.1, 2 * 1 * 3 * 2 * 3).reshape(2, 1, 3, 2, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """How GridSample reads: between pixels, at the border, and what ±1 means."""

    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: int = 0

    @property
    def method(self) -> str:
        """The mode by its newest name."""
        return OLD_MODES.get(self.mode, self.mode)

    def limits(self, size: int) -> tuple[float, float]:
        """The least and the greatest place inside an axis, in pixels."""
        return (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)


def reflects_one_pixel(x: Value, grid: Sampler) -> bool:
    """Whether places would be reflected between borders that are one."""
    return grid.padding_mode == "reflection" and bool(grid.align_corners) and 1 in x.shape[2:]


@lower(
    "GridSample",
    needs=[
        need(
            lambda at: (
                at.method in NEIGHBOURS and at.padding_mode in ("zeros", "border", "reflection")
            ),
            "mode must be nearest, linear or cubic, padding_mode zeros, border or reflection; got {at}",
            kernel="onnx/docs/Operators.md#GridSample",
        ),
        need(
            lambda x, at: not reflects_one_pixel(x, at),
            "sizes must be two or more for reflection between centers of pixels; got {x.type}",
            kernel="onnx/docs/Operators.md#GridSample",
        ),
        need(
            lambda x, at: x.dtype == FLOAT or at.method == "nearest",
            "the tensor must be of floats for places between pixels; got {x.type}",
            possible=True,
        ),
    ],
    samples=[
        *(
            case(x=(2, 3, 4, 5), grid=GRID, mode=mode, padding_mode=padding, align_corners=align)
            for mode in ("linear", "cubic", "nearest")
            for padding in ("zeros", "border", "reflection")
            for align in (0, 1)
        ),
        case(x=(2, 3, 4, 5), grid=GRID, mode="bilinear", opset=16),
        case(x=(2, 2, 3, 4, 5), grid=DEEP, mode="linear", padding_mode="border"),
        case(x=(2, 2, 3, 4, 5), grid=DEEP, mode="nearest", align_corners=1),
    ],
    refuses=[
        case(x=(2, 3, 4, 5), grid=GRID, mode="area"),
        case(x=(2, 3, 1, 5), grid=GRID, padding_mode="reflection", align_corners=1),
        case(x=run(np.ones((2, 3, 4, 5)), np.int32), grid=GRID),
    ],
)
def grid_sample(
    g: Builder, x: Value, grid: Value, /, *, at: Sampler, out: list[TensorType]
) -> Value:
    """Each point's neighbours are gathered and summed with weights.

    At a border pixels are repeated, as PyTorch and onnxruntime do; for cubic ONNX's reference moves
    the points instead.
    """
    need_finite("points", grid)
    sizes = x.shape[2:]
    count = math.prod(grid.shape[1:-1])
    points = g.reshape(grid, (grid.shape[0], count, len(sizes)))
    places = [
        _place(g, part(g, points, 2, len(sizes) - 1 - axis, 1), size, at)
        for axis, size in enumerate(sizes)
    ]
    axes = [neighbours(g, place, size, at) for place, size in zip(places, sizes, strict=True)]
    values = gathered(g, x, [a.index for a in axes])
    values = weighted(g, values, axes)
    if at.method != "nearest":
        taps = tuple(range(2, 2 + len(sizes)))
        values = g.SUM(values, axes=taps, keep_dims=False)
    summed = g.reshape(values, (grid.shape[0], count, x.shape[1]))
    return g.reshape(g.transpose(summed, (0, 2, 1)), out[0].dims)


def need_finite(what: str, places: Value) -> None:
    """Refuse constant places that are nowhere: runtimes take zeros there, GATHER refuses the index."""
    if places.const is not None and not np.isfinite(places.const).all():
        raise NotYet(f"{what} that are infinite or NaN are not lowered")


def _place(g: Builder, points: Value, size: int, at: Sampler) -> Value:
    """Pixels along an axis, [batch, count, 1], for points from -1 to 1; outside as the padding says."""
    if at.align_corners:
        place = g.MUL(g.MUL(g.ADD(points, 1.0), 0.5), float(size - 1))
    else:
        place = g.MUL(g.SUB(g.MUL(g.ADD(points, 1.0), float(size)), 1.0), 0.5)
    if at.method == "nearest":
        place = g.ROUND(place)
    if at.padding_mode != "reflection":
        return place
    low, high = at.limits(size)
    outside = g.LOGICAL_OR(g.LESS(place, low), g.GREATER(place, high))
    return g.SELECT_V2(outside, _reflected(g, place, low, high), place)


def _reflected(g: Builder, place: Value, low: float, high: float) -> Value:
    """Mirror at both borders, as often as it takes."""
    period = 2 * (high - low)
    way = g.FLOOR_MOD(g.SUB(place, low), period)
    return g.ADD(g.MINIMUM(way, g.SUB(period, way)), low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Pixels that a point reads along an axis, [batch, count, neighbours].

    `weight` is what each counts; `inside` says which are pixels, where others count nothing.
    """

    index: Value
    weight: Value | None
    inside: Value | None


def neighbours(g: Builder, place: Value, size: int, at: Sampler) -> Neighbours:
    """The pixels around places [batch, count, 1] of an axis, and what each of them counts."""
    offsets = np.array(NEIGHBOURS[at.method], np.float32)
    base = place if at.method == "nearest" else g.FLOOR(place)
    pixels = g.ADD(base, g.const(offsets)) if at.method != "nearest" else base
    weight, inside = None, None
    if at.method != "nearest":
        table = LINEAR_WEIGHTS if at.method == "linear" else CUBIC_WEIGHTS
        weight = polynomial(g, g.SUB(place, base), table)
    if at.padding_mode == "zeros":
        inside = g.LOGICAL_AND(g.GREATER_EQUAL(pixels, 0.0), g.LESS_EQUAL(pixels, size - 1.0))
    elif at.padding_mode == "reflection":
        low, high = at.limits(size)
        pixels = _reflected(g, pixels, low, high)
    clamped = g.MINIMUM(g.MAXIMUM(pixels, 0.0), size - 1.0)
    return Neighbours(index=g.cast(clamped, INT32), weight=weight, inside=inside)


def polynomial(g: Builder, t: Value, table: tuple[tuple[float, ...], ...]) -> Value:
    """Evaluate polynomials at t, [..., 1], side by side: [..., polynomials]."""
    factors = np.array(table, np.float32).T
    result = g.const(factors[-1])
    for factor in factors[-2::-1]:
        result = g.ADD(g.MUL(t, result), g.const(factor))
    return result


def gathered(g: Builder, x: Value, indices: list[Value]) -> Value:
    """Pixels [batch, count, neighbours of each axis…, channels] of images [batch, channels, spatial…].

    An axis of `indices` is [batch, count, neighbours].
    """
    batch, channels, *sizes = x.shape
    rows = g.reshape(
        g.transpose(x, (0, *range(2, x.rank), 1)), (batch * math.prod(sizes), channels)
    )
    start = np.arange(batch, dtype=np.int32) * math.prod(sizes)
    places = None
    for axis, index in enumerate(indices):
        stride = math.prod(sizes[axis + 1 :])
        spread = along(g, index, axis, len(sizes))
        scaled = g.MUL(spread, stride) if stride > 1 else spread
        places = scaled if places is None else g.ADD(places, scaled)
    if batch > 1:
        places = g.ADD(places, g.const(start.reshape(batch, 1, *[1] * len(sizes))))
    return g.GATHER(rows, places, axis=0)


def along(g: Builder, x: Value, axis: int, count: int, after: int = 0) -> Value:
    """Let the last dimension of [batch, count, neighbours] be one of several, with more behind."""
    sizes = [1] * (count + after)
    sizes[axis] = x.shape[2]
    return g.reshape(x, (*x.shape[:2], *sizes))


def weighted(g: Builder, values: Value, axes: list[Neighbours]) -> Value:
    """Multiply with what each neighbour counts; what is outside counts nothing."""
    count = len(axes)
    total = None
    for number, axis in enumerate(axes):
        if axis.weight is None and axis.inside is not None:
            seen = along(g, axis.inside, number, count, 1)
            values = g.SELECT_V2(seen, values, g.const(0, values.dtype))
        elif axis.weight is not None:
            inside = axis.inside
            weight = axis.weight if inside is None else g.MUL(axis.weight, g.cast(inside, FLOAT))
            factor = along(g, weight, number, count, 1)
            total = factor if total is None else g.MUL(total, factor)
    return values if total is None else g.MUL(values, total)


THETA = (2, 2, 3)


@lower(
    "AffineGrid",
    needs=[
        need(
            lambda align_corners, out: not align_corners or 1 not in out[0].dims[1:-1],
            "with align_corners, each spatial size must be two or more; got {out[0]}",
            kernel="onnx/docs/Operators.md#AffineGrid",
        )
    ],
    samples=[
        case(theta=THETA, size=np.array([2, 3, 4, 5]), opset=20),
        case(theta=THETA, size=np.array([2, 3, 4, 5]), align_corners=1, opset=20),
        case(theta=(2, 3, 4), size=np.array([2, 3, 2, 4, 5]), opset=20),
    ],
    refuses=[case(theta=THETA, size=np.array([2, 3, 1, 5]), align_corners=1, opset=20)],
)
def affine_grid(
    g: Builder,
    theta: Value,
    /,
    *,
    size: object = None,
    align_corners: int = 0,
    out: list[TensorType],
) -> Value:
    """Points between -1 and 1, and a one, times the matrix of each image."""
    sizes = out[0].dims[1:-1]
    count = len(sizes)
    if theta.shape != (out[0].dims[0], count, count + 1):
        raise InvalidModel(
            f"a matrix for each image is [{out[0].dims[0]}, {count}, {count + 1}]; got {theta.type}"
        )
    axes = [_evenly(size, align_corners) for size in sizes]
    grid = [axis.reshape(-1) for axis in np.meshgrid(*axes, indexing="ij")]
    points = np.stack([*reversed(grid), np.ones(math.prod(sizes))], -1)
    columns = g.transpose(theta, (0, 2, 1))
    return g.reshape(product(g, g.const(points, theta.dtype), columns), out[0].dims)


def _evenly(size: int, align_corners: int) -> np.ndarray:
    """The centers of pixels, if -1 and 1 are the outermost centers, or the outermost edges."""
    if align_corners:
        return np.linspace(-1, 1, size)
    return (2 * np.arange(size) + 1) / size - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling:
    """How RoiAlign samples and pools its boxes."""

    mode: str = "avg"
    output_height: int = 1
    output_width: int = 1
    sampling_ratio: int = 0
    spatial_scale: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what ONNX's shape functions let pass."""
        if min(self.output_height, self.output_width) < 1:
            parts = (self.output_height, self.output_width)
            raise InvalidModel(f"a box has at least one part each way; got {parts}")


BOXES = run([[0.5, 1.0, 6.25, 4.0], [2.0, -1.5, 9.0, 7.0], [3.0, 3.0, 3.5, 3.25]])
BATCHES = run([1, 0, 1], np.int64)
# Since opset 16 boxes are moved by half a pixel (onnx/docs/Changelog.md#RoiAlign-16).
MOVED = 16


# a side of a box; sums of more points than its square are rounded each in its own way
MOST_POINTS = 16


@lower(
    "RoiAlign",
    needs=[
        need(
            lambda pool: pool.mode in ("avg", "max"),
            "mode must be avg or max; got {pool.mode}",
            kernel="onnx/docs/Operators.md#RoiAlign",
        ),
        need(
            lambda pool: pool.sampling_ratio > 0,
            "sampling_ratio must say how many points a box takes; got {pool.sampling_ratio}",
            remedy="export with a sampling_ratio of 1 or more",
            possible=True,
        ),
        need(
            lambda pool: pool.sampling_ratio <= MOST_POINTS,
            "sampling_ratio must be low, since each point is computed; got {pool.sampling_ratio}",
            possible=True,
        ),
    ],
    samples=[
        case(
            x=(2, 3, 6, 8),
            rois=BOXES,
            batch_indices=BATCHES,
            output_height=2,
            output_width=3,
            sampling_ratio=2,
            spatial_scale=0.75,
            **given,
        )
        for given in (
            {},
            {"coordinate_transformation_mode": "output_half_pixel"},
            {"mode": "max"},
            {"opset": 10},
        )
    ],
    refuses=[
        case(x=(2, 3, 6, 8), rois=BOXES, batch_indices=BATCHES, sampling_ratio=1, mode="sum"),
        case(x=(2, 3, 6, 8), rois=BOXES, batch_indices=BATCHES),
        case(x=(2, 3, 6, 8), rois=BOXES, batch_indices=BATCHES, sampling_ratio=17),
    ],
)
def roi_align(
    g: Builder,
    x: Value,
    rois: Value,
    batch_indices: Value,
    /,
    *,
    pool: Pooling,
    coordinate_transformation_mode: str = "output_half_pixel",
    node: Node,
) -> Value:
    """Points inside each part of each box, four pixels a point; then mean or maximum.

    ONNX takes the maximum over weighted pixels, not over points.
    """
    need_finite("boxes", rois)
    half = node.op.version >= MOVED and coordinate_transformation_mode == "half_pixel"
    scaled = g.SUB(g.MUL(rois, pool.spatial_scale), 0.5 if half else 0.0)
    counts = (pool.output_height, pool.output_width)
    taps = 2 * pool.sampling_ratio
    refuse_large_table("what a box is pooled from", *(count * taps for count in counts))
    axes = [
        _inside_boxes(g, scaled, 1 - axis, (x.shape[2 + axis], counts[axis]), (pool, half))
        for axis in range(2)
    ]
    pixels = _of_boxes(g, x, batch_indices, [index for index, _ in axes])
    (_, rows), (_, columns) = axes
    count = rois.shape[0]
    weights = g.MUL(
        g.reshape(rows, (count, *rows.shape[1:], 1, 1)),
        g.reshape(columns, (count, 1, *columns.shape[1:], 1)),
    )
    values = g.MUL(pixels, weights)
    split = g.reshape(values, (count, counts[0], taps, counts[1], taps, x.shape[1]))
    if pool.mode == "max":
        pooled = g.REDUCE_MAX(split, axes=(2, 4), keep_dims=False)
    else:
        pooled = g.MUL(g.SUM(split, axes=(2, 4), keep_dims=False), 1 / pool.sampling_ratio**2)
    return g.transpose(pooled, (0, 3, 1, 2))


def _inside_boxes(
    g: Builder, rois: Value, column: int, sizes: tuple[int, int], how: tuple[Pooling, bool]
) -> tuple[Value, Value]:
    """Pixels and their weights along an axis, two for each point: [boxes, parts · points · 2]."""
    (size, parts), (pool, half) = sizes, how
    start = part(g, rois, 1, column, 1)
    length = g.SUB(part(g, rois, 1, column + 2, 1), start)
    length = length if half else g.MAXIMUM(length, 1.0)
    ratio = pool.sampling_ratio
    # in parts of a box
    steps = (np.arange(parts * ratio, dtype=np.float32) + np.float32(0.5)) / ratio
    place = g.ADD(g.MUL(g.MUL(length, 1 / parts), g.const(steps.reshape(1, -1))), start)
    seen = g.LOGICAL_AND(g.GREATER_EQUAL(place, -1.0), g.LESS_EQUAL(place, float(size)))
    near = g.MINIMUM(g.MAXIMUM(place, 0.0), size - 1.0)
    low = g.FLOOR(near)
    shape = (*place.shape, 1)
    pair = g.ADD(g.reshape(low, shape), g.const(np.array([0, 1], np.float32)))
    index = g.cast(g.MINIMUM(pair, size - 1.0), INT32)
    weight = polynomial(g, g.reshape(g.SUB(near, low), shape), LINEAR_WEIGHTS)
    weight = g.MUL(weight, g.reshape(g.cast(seen, FLOAT), shape))
    flat = (place.shape[0], place.shape[1] * 2)
    return g.reshape(index, flat), g.reshape(weight, flat)


def _of_boxes(g: Builder, x: Value, batches: Value, indices: list[Value]) -> Value:
    """Pixels [boxes, rows, columns, channels] of the image that each box belongs to."""
    batch, channels, height, width = x.shape
    table = g.reshape(g.transpose(x, (0, 2, 3, 1)), (batch * height * width, channels))
    rows, columns = indices
    start = g.reshape(g.MUL(g.cast(batches, INT32), height * width), (rows.shape[0], 1, 1))
    across = g.MUL(g.reshape(rows, (*rows.shape, 1)), width)
    down = g.reshape(columns, (columns.shape[0], 1, columns.shape[1]))
    return g.GATHER(table, g.ADD(g.ADD(across, down), start), axis=0)
