"""All rewrites, in the order in which they are applied: each may make room for the next."""

from straightway.executorch.rewrites import (
    attention,
    layer_norm,
    projections,
    scalar,
    softmax_axis,
    split,
)
from straightway.executorch.rewrites.scene import Rewrite

# Without these the numbers are wrong.
ALWAYS: tuple[Rewrite, ...] = (softmax_axis.REWRITE,)
REWRITES: tuple[Rewrite, ...] = (
    attention.REWRITE,
    layer_norm.REWRITE,
    projections.REWRITE,
    split.REWRITE,
    scalar.REWRITE,
)
