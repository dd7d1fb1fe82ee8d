"""All rewrites, in the order in which they are applied: each may make room for the next."""

from collections.abc import Sequence

from straightway.errors import InvalidRequest
from straightway.executorch.rewrites import (
    activations,
    attention,
    batch_norm,
    bicubic,
    channels_last,
    constants,
    convolution_1d,
    copies,
    expand,
    group_norm,
    half_gelu,
    half_silu,
    hardsigmoid,
    heads,
    layer_norm,
    masked_softmax,
    matmul,
    mean,
    nearest,
    permutes,
    projections,
    rearrangements,
    recurrent,
    scalar,
    selection,
    softmax_axis,
    softmax_channels,
    split,
    squeeze,
    strided_slice,
)
from straightway.executorch.rewrites.scene import Rewrite

# Without these the numbers are wrong.
ALWAYS: tuple[Rewrite, ...] = (softmax_axis.REWRITE,)
REWRITES: tuple[Rewrite, ...] = (
    constants.REWRITE,
    copies.REWRITE,
    heads.REWRITE,
    projections.REWRITE,
    recurrent.REWRITE,
    convolution_1d.REWRITE,
    attention.REWRITE,
    masked_softmax.REWRITE,
    selection.REWRITE,
    rearrangements.REWRITE,
    group_norm.REWRITE,
    layer_norm.REWRITE,
    nearest.REWRITE,
    bicubic.REWRITE,
    strided_slice.REWRITE,
    batch_norm.REWRITE,
    activations.REWRITE,
    half_gelu.REWRITE,
    half_silu.REWRITE,
    hardsigmoid.REWRITE,
    softmax_channels.REWRITE,
    mean.REWRITE,
    split.REWRITE,
    squeeze.REWRITE,
    permutes.REWRITE,
    expand.REWRITE,
    matmul.REWRITE,
    scalar.REWRITE,
)


# What changes a program's interface is applied where it is asked for.
INTERFACE: tuple[Rewrite, ...] = (channels_last.REWRITE,)


def named(names: Sequence[str]) -> tuple[Rewrite, ...]:
    """Rewrites by name, in their own order. Raises InvalidRequest for an unknown one."""
    every = (*REWRITES, *INTERFACE)
    known = [one.name for one in every]
    for name in names:
        if name not in known:
            raise InvalidRequest(f"no rewrite is called '{name}'; there are {', '.join(known)}")
    return tuple(one for one in every if one.name in names)
