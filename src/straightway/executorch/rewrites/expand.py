"""Expansions left to the operator that reads them, or written as a product with ones.

XNNPACK's sums and products broadcast; a copy of the expanded tensor has no kernel there.

    x.expand(n, …) + y   →   x + y          x.expand(n, …)   →   x · ones
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "expand"
_BROADCASTING = {aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor}
# dimensions that XNNPACK's sums and products take (XNN_MAX_TENSOR_DIMS, include/xnnpack.h)
_MOST_RANK = 6


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.expand.default, aten.expand_as.default, aten.repeat.default):
        x = node.args[0]
        before, after = scene.dims(x), scene.dims(node)
        if scene.sizes(x) is None or not scene.dtype(x).is_floating_point:
            continue
        padded = (1,) * (len(after) - len(before)) + before
        if node.target is aten.repeat.default and any(
            one not in (1, size) for one, size in zip(padded, after, strict=True)
        ):
            continue
        if len(after) > _MOST_RANK or scene.constant(x) is not None:
            continue
        grown = [size for one, size in zip(padded, after, strict=True) if one != size]
        is_known = all(isinstance(size, int) for size in grown)
        if not is_known and not all(_broadcasts(scene, one, node, padded) for one in node.users):
            continue  # ones of an open size are no constant
        yield scene.changed(_NAME, node, "broadcast by the operator that reads it")
        write = scene.writer(node)
        short = x if padded == before else write(aten.reshape.default, x, _sizes(padded))
        for user in list(node.users):
            if _broadcasts(scene, user, node, padded):
                user.replace_input_with(node, short)
        if not node.users:
            scene.graph.erase_node(node)
        elif padded == after:
            scene.replace(node, short)
        else:
            sizes = [size if one == 1 else 1 for one, size in zip(padded, after, strict=True)]
            ones = write.constant(torch.ones(sizes, dtype=scene.dtype(x)))
            scene.replace(node, write(aten.mul.Tensor, short, ones))


def _broadcasts(
    scene: Scene, user: torch.fx.Node, node: torch.fx.Node, short: tuple[Any, ...]
) -> bool:
    """Whether an operator's result stays of its shape when it reads the tensor before expansion."""
    if user.target not in _BROADCASTING or len(user.all_input_nodes) != 2:
        return False
    (other,) = (one for one in user.all_input_nodes if one is not node)
    shape = scene.dims(other)
    count = max(len(shape), len(short))
    pairs = zip(*((1,) * (count - len(one)) + one for one in (shape, short)), strict=True)
    return tuple(b if a == 1 else a for a, b in pairs) == scene.dims(user)


def _sizes(dims: tuple[Any, ...]) -> list[int]:
    """As a reshape takes them."""
    return [size if isinstance(size, int) else -1 for size in dims]


REWRITE = Rewrite(
    name=_NAME,
    title="expansions left to broadcasting",
    advice="leave out expand and repeat where a sum or product follows: it broadcasts",
    safety="exact",
    apply=_apply,
)
