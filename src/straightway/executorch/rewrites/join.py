"""Joins of many tensors in steps of as many as XNNPACK joins at once."""

import math
from collections.abc import Sequence

import torch

from straightway.executorch.rewrites.scene import Writer, aten

# serialization/schema.fbs, XNNConcatenate5
MOST_JOINED = 5


def joined(write: Writer, parts: Sequence[torch.fx.Node], dim: int) -> torch.fx.Node:
    """All parts behind each other along a dimension; one part as it is."""
    left = list(parts)
    while len(left) > 1:
        few = math.ceil(len(left) / math.ceil(len(left) / MOST_JOINED))
        groups = [left[k : k + few] for k in range(0, len(left), few)]
        left = [write(aten.cat.default, one, dim) if len(one) > 1 else one[0] for one in groups]
    return left[0]
