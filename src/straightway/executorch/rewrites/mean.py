"""Means in the one form that XNNPACK's partitioner takes, or as a matrix product.

A mean over height and width is delegated where it keeps its dimensions, and cuts the graph in two where
it does not; a mean over the last dimension of tokens or of time is delegated in no form.

    mean(x, (2, 3))   →   reshape(mean(x, (2, 3), keepdim))          mean(x, −1)   →   x @ (1/d)
"""

from collections.abc import Iterator

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "mean"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.mean.dim):
        x, dims = node.args[:2]
        keeps = bool(node.args[2] if len(node.args) > 2 else node.kwargs.get("keepdim", False))
        shape, rank = scene.sizes(x), scene.rank(x)
        if shape is None or dims is None or not scene.dtype(x).is_floating_point:
            continue
        if node.kwargs.get("dtype") not in {None, scene.dtype(x)}:
            continue
        over = sorted(int(dim) % rank for dim in dims)
        result = scene.sizes(node) or ()
        if rank == 4 and over == [2, 3] and not keeps:
            yield scene.changed(_NAME, node, "keeps its dimensions, then a reshape")
            write = scene.writer(node)
            kept = write(aten.mean.dim, x, [-1, -2], True)
            scene.replace(node, write(aten.reshape.default, kept, list(result)))
        elif rank in {2, 3} and over == [rank - 1] and shape[-1] > 0:
            yield scene.changed(_NAME, node, f"a product with 1/{shape[-1]}")
            write = scene.writer(node)
            row = torch.full((1, shape[-1]), 1 / shape[-1], dtype=scene.dtype(x))
            done = write(aten.linear.default, x, write.constant(row))
            scene.replace(node, done if keeps else write(aten.reshape.default, done, list(result)))


REWRITE = Rewrite(
    name=_NAME,
    title="means that keep their dimensions",
    advice="write x.mean((2, 3), keepdim=True).flatten(1) in place of x.mean((2, 3))",
    safety="exact",
    apply=_apply,
)
