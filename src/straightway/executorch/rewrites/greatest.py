"""The greatest numbers along a dimension keep that dimension, which is dropped afterwards.

XNNPACK's partitioner in ExecuTorch 1.5.1 takes a maximum without keepdim, whose serializer then fails ("amax.default
only supports keep_dim == True"): without it such a model can't be lowered at all, so it is always applied.
"""

from collections.abc import Iterator
from typing import Any

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten, parts_of

_NAME = "greatest"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.amax.default, aten.max.dim):
        given: dict[str, Any] = dict(zip(("self", "dim", "keepdim"), node.args, strict=False))
        given |= node.kwargs
        dim = given.get("dim", ())
        dims = [dim] if isinstance(dim, int) else list(dim)
        if given.get("keepdim", False) or len(dims) != 1 or scene.rank(given["self"]) == 0:
            continue
        parts = {0: node} if node.target is aten.amax.default else parts_of(node)
        if any(part.users for index, part in parts.items() if index != 0) or 0 not in parts:
            continue  # where the greatest stands is wanted, too
        yield scene.changed(_NAME, node, "with its dimension kept, then dropped")
        write = scene.writer(node)
        reduced = write(aten.amax.default, given["self"], dims, True)
        scene.replace(parts[0], write(aten.squeeze.dims, reduced, dims))


REWRITE = Rewrite(
    name=_NAME,
    title="greatest numbers with the dimension kept",
    advice="write x.amax(dim, keepdim=True).squeeze(dim)",
    safety="exact",
    apply=_apply,
)
