"""All rewrites, in the order in which they are applied: each may make room for the next."""

from collections.abc import Sequence

from straightway.errors import InvalidRequest
from straightway.executorch.rewrites import (
    attention,
    batch_norm,
    hardsigmoid,
    heads,
    layer_norm,
    mean,
    permutes,
    projections,
    scalar,
    softmax_axis,
    split,
)
from straightway.executorch.rewrites.scene import Rewrite

# Without these the numbers are wrong.
ALWAYS: tuple[Rewrite, ...] = (softmax_axis.REWRITE,)
REWRITES: tuple[Rewrite, ...] = (
    heads.REWRITE,
    projections.REWRITE,
    attention.REWRITE,
    batch_norm.REWRITE,
    hardsigmoid.REWRITE,
    layer_norm.REWRITE,
    mean.REWRITE,
    split.REWRITE,
    permutes.REWRITE,
    scalar.REWRITE,
)


def named(names: Sequence[str]) -> tuple[Rewrite, ...]:
    """Rewrites by name, in their own order. Raises InvalidRequest for an unknown one."""
    known = [one.name for one in REWRITES]
    for name in names:
        if name not in known:
            raise InvalidRequest(f"no rewrite is called '{name}'; there are {', '.join(known)}")
    return tuple(one for one in REWRITES if one.name in names)
