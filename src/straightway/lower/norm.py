"""Normalisations."""

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Node, TensorType, Value
from straightway.lower.axes import counted
from straightway.lower.broadcast import fits
from straightway.lower.builder import Builder
from straightway.lower.declare import EVALUATION, case, lower, need, run

Axes = tuple[int, ...]
SCALE = np.linspace(0.5, 2, 3, dtype=np.float32)
SHIFT = np.linspace(-1, 1, 3, dtype=np.float32)
MEAN = np.linspace(-0.5, 0.75, 3, dtype=np.float32)
VARIANCE = np.linspace(0.25, 4, 3, dtype=np.float32)
SMALLEST = float(np.finfo(np.float32).tiny)


@lower(
    "BatchNormalization",
    needs=[
        need(
            lambda training_mode, out: not training_mode and len(out) == 1,
            "training_mode must be 0, and there must be one result; got {training_mode}",
            remedy=EVALUATION,
            kernel="onnx/docs/Operators.md#BatchNormalization",
        )
    ],
    samples=[
        case(x=(2, 3, 4, 5), scale=SCALE, b=SHIFT, input_mean=MEAN, input_var=VARIANCE),
        case(x=(2, 3), scale=SCALE, b=SHIFT, input_mean=MEAN, input_var=VARIANCE, epsilon=0.125),
        case(x=(2, 3, 4), scale=(3,), b=SHIFT, input_mean=run(MEAN), input_var=run(VARIANCE)),
        case(x=(2, 3, 4), scale=SCALE, b=SHIFT, mean=MEAN, var=VARIANCE, opset=9),
    ],
    refuses=[
        case(
            x=(2, 3, 4),
            scale=SCALE,
            b=SHIFT,
            input_mean=MEAN,
            input_var=VARIANCE,
            training_mode=1,
            outputs=3,
        )
    ],
)
def batch_normalization(
    g: Builder,
    x: Value,
    /,
    *parameters: Value,
    epsilon: float,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    is_test: int = 1,
    out: list[TensorType],
) -> Value:
    """A factor and a shift a channel, constants where the parameters are."""
    scale, shift, mean, variance = parameters
    if any(p.shape != scale.shape for p in parameters):
        shapes = [list(p.shape) for p in parameters]
        raise InvalidModel(f"scale, bias, mean and variance are alike in shape; got {shapes}")
    if all(p.const is not None for p in parameters):
        factor, offset = folded([np.asarray(p.const, np.float64) for p in parameters], epsilon)
        pair = (g.const(factor, x.dtype), g.const(offset, x.dtype))
    else:
        slope = g.MUL(scale, g.RSQRT(g.ADD(variance, epsilon)))
        pair = (slope, g.SUB(shift, g.MUL(mean, slope)))
    shape = (1, *scale.shape, *[1] * (x.rank - 1 - scale.rank))
    return g.ADD(g.MUL(x, g.reshape(pair[0], shape)), g.reshape(pair[1], shape))


def folded(parameters: list[np.ndarray], epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """Fold scale, shift, mean and variance into a factor and an offset."""
    scale, shift, mean, variance = parameters
    with np.errstate(all="ignore"):  # a negative variance is for onnxruntime to judge
        factor = scale / np.sqrt(variance + epsilon)
        return factor, shift - mean * factor


def standardized(g: Builder, x: Value, axes: Axes, epsilon: float) -> tuple[Value, Value, Value]:
    """(x - mean) / √(variance + epsilon), the mean, and 1 / √(variance + epsilon)."""
    mean = g.MEAN(x, axes=axes, keep_dims=True)
    centred = g.SUB(x, mean)
    variance = g.MEAN(g.SQUARE(centred), axes=axes, keep_dims=True)
    inverse = g.RSQRT(g.ADD(variance, epsilon))
    return g.MUL(centred, inverse), mean, inverse


def affine(g: Builder, x: Value, scale: Value | None, shift: Value | None) -> Value:
    """Scale and shift, each where there is one."""
    for given in (scale, shift):
        if given is not None and not fits(given, x):
            raise InvalidModel(f"a scale or a shift broadcasts to {x.type}; got {given.type}")
    x = x if scale is None else g.MUL(x, scale)
    return x if shift is None else g.ADD(x, shift)


WEIGHTS = np.linspace(0.5, 2, 20, dtype=np.float32)


@lower(
    "LayerNormalization",
    samples=[
        case(x=(2, 3, 4, 5), scale=WEIGHTS[:5], b=WEIGHTS[5:10]),
        case(x=(2, 3, 4, 5), scale=WEIGHTS.reshape(4, 5), axis=2),
        case(x=(2, 3, 5), scale=WEIGHTS[:5], epsilon=0.125, outputs=3),
        case(x=(2, 3, 5), scale=(5,), b=(5,)),
    ],
)
def layer_normalization(
    g: Builder,
    x: Value,
    scale: Value,
    shift: Value | None = None,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    out: list[TensorType],
) -> list[Value]:
    """Over the last dimensions, from the axis on; mean and inverse deviation are there already."""
    axes = tuple(range(counted(axis, x.rank), x.rank))
    normal, mean, inverse = standardized(g, x, axes, epsilon)
    return [affine(g, normal, scale, shift), mean, inverse][: len(out)]


@lower(
    "InstanceNormalization",
    samples=[
        case(input=(2, 3, 4, 5), scale=SCALE, b=SHIFT),
        case(input=(2, 3, 7), scale=SCALE, b=SHIFT, epsilon=0.125),
    ],
)
def instance_normalization(
    g: Builder, x: Value, scale: Value, shift: Value, /, epsilon: float
) -> Value:
    """Over the spatial dimensions."""
    normal, _, _ = standardized(g, x, tuple(range(2, x.rank)), epsilon)
    return affine(g, normal, *(_column(g, v, x.rank) for v in (scale, shift)))


def _column(g: Builder, vector: Value, rank: int) -> Value:
    """Let a vector run along the channels, dimension 1."""
    if vector.rank != 1:
        raise InvalidModel(f"a scale or a bias has one dimension; got {vector.type}")
    return g.reshape(vector, (1, vector.shape[0], *[1] * (rank - 2)))


# Since opset 21 scale and bias are given a channel, before a group (onnx/docs/Changelog.md).
BY_CHANNEL = 21


@lower(
    "GroupNormalization",
    samples=[
        case(x=(2, 6, 4, 5), scale=WEIGHTS[:6], bias=WEIGHTS[6:12], num_groups=3),
        case(x=(2, 6, 4), scale=SCALE, bias=SHIFT, num_groups=3, opset=18),
    ],
)
def group_normalization(
    g: Builder,
    x: Value,
    scale: Value,
    shift: Value,
    /,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    node: Node,
) -> Value:
    """Over the channels of a group and the spatial dimensions."""
    if x.rank < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise InvalidModel(
            f"{num_groups} groups of channels, dimension 1, can't be made of {x.type}"
        )
    grouped = g.reshape(x, (x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:]))
    normal, _, _ = standardized(g, grouped, tuple(range(2, grouped.rank)), epsilon)
    if node.op.version < BY_CHANNEL:
        columns = [_column(g, v, grouped.rank) for v in (scale, shift)]
        return g.reshape(affine(g, normal, *columns), x.shape)
    return affine(g, g.reshape(normal, x.shape), *(_column(g, v, x.rank) for v in (scale, shift)))


@lower(
    "RMSNormalization",
    samples=[
        case(x=(2, 3, 5), scale=WEIGHTS[:5], opset=23),
        case(x=(2, 3, 4, 5), scale=WEIGHTS.reshape(4, 5), axis=2, epsilon=0.125, opset=23),
    ],
)
def rms_normalization(
    g: Builder,
    x: Value,
    scale: Value,
    /,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    """X over the root of its mean square."""
    axes = tuple(range(counted(axis, x.rank), x.rank))
    return g.MUL(root_mean_square(g, x, axes, epsilon)[0], scale)


def root_mean_square(g: Builder, x: Value, axes: Axes, epsilon: float) -> tuple[Value, Value]:
    """X over the root of its mean square, and one over that root."""
    square = g.MEAN(g.SQUARE(x), axes=axes, keep_dims=True)
    inverse = g.RSQRT(g.ADD(square, epsilon))
    return g.MUL(x, inverse), inverse


@lower("MeanVarianceNormalization", samples=[case(x=(2, 3, 4, 5)), case(x=(2, 3, 4), axes=(1, 2))])
def mean_variance_normalization(g: Builder, x: Value, /, axes: Axes = (0, 2, 3)) -> Value:
    """The deviation, not the variance, is kept off zero, by 1e-9, as ONNX's function does."""
    found = tuple(sorted(counted(axis, x.rank) for axis in axes))
    centred = g.SUB(x, g.MEAN(x, axes=found, keep_dims=True))
    variance = g.MEAN(g.SQUARE(centred), axes=found, keep_dims=True)
    return g.DIV(centred, g.ADD(g.SQRT(variance), 1e-9))


@lower(
    "LpNormalization",
    samples=[
        case(input=(2, 3, 4)),
        case(input=(2, 3, 4), axis=1, p=1),
        case(input=run([[0.0, 0.0], [3.0, 4.0]])),
    ],
)
def lp_normalization(g: Builder, x: Value, /, axis: int, p: int) -> Value:
    """X over its norm; of zeros, zeros."""
    axes = (counted(axis, x.rank),)
    size = g.ABS(x) if p == 1 else g.SQUARE(x)
    total = g.SUM(size, axes=axes, keep_dims=True)
    length = total if p == 1 else g.SQRT(total)
    return g.DIV(x, g.MAXIMUM(length, SMALLEST))
