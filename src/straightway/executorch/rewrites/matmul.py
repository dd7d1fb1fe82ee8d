"""Matrix products of known shapes as the one form that XNNPACK takes, without expansions.

torch takes matmul apart with an expand, which has no kernel in XNNPACK even where it changes nothing.

    matmul(a, b)   →   reshape(bmm(a as (n, m, k), b as (n, k, p)))          matmul(a, W)   →   linear(a, Wᵀ)
"""

import math
from collections.abc import Iterator

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten, together

_NAME = "matmul"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.matmul.default, aten.mm.default):
        a, b = node.args[:2]
        left, right = scene.sizes(a), scene.sizes(b)
        if left is None or right is None or scene.sizes(node) is None:
            continue
        if not scene.dtype(node).is_floating_point or min(len(left), len(right)) < 2:
            continue
        weight = scene.constant(b)
        if weight is not None and len(right) == 2:
            yield scene.changed(_NAME, node, "a linear layer")
            write = scene.writer(node)
            scene.replace(node, write(aten.linear.default, a, write.constant(weight.t())))
        elif (count := _batches(left, right)) is not None:
            yield scene.changed(_NAME, node, "a product of rank 3")
            write = scene.writer(node)
            rows = together(left[:-1]) if count == 1 else left[-2]
            flat = [
                write(aten.reshape.default, one, sizes)
                for one, sizes in ((a, [count, rows, left[-1]]), (b, [count, *right[-2:]]))
            ]
            done = write(aten.bmm.default, *flat)
            scene.replace(node, write(aten.reshape.default, done, list(scene.sizes(node) or ())))


def _batches(left: tuple[int, ...], right: tuple[int, ...]) -> int | None:
    """How many products: as many as both have, or one where the second is one for all."""
    if math.prod(right[:-2]) == 1:
        return 1
    return together(left[:-2]) if left[:-2] == right[:-2] else None


REWRITE = Rewrite(
    name=_NAME,
    title="matrix products of rank 3",
    advice="write torch.bmm on tensors of rank 3, or F.linear where one side is a weight",
    safety="exact",
    apply=_apply,
)
