"""A constant mask of truth values before a softmax, as numbers that are added.

XNNPACK's partitioner takes no selection. −10⁹ is as good as minus infinity, as long as no row is masked whole.

    softmax(masked_fill(x, mask, −inf), −1)   →   softmax(x + (0 or −10⁹), −1)
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "masked-softmax"
_MASKED = -1e9
# Behind a softmax, what is so far below all else is 0 in floats of 32 bits, unless all of it is.
_FAR_BELOW = -1e4


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(
        aten.masked_fill.Scalar, aten.masked_fill.Tensor, aten.where.self, aten.where.ScalarOther
    ):
        x, hidden = _parts(scene, node)
        if hidden is None or not _is_before_softmax(scene, node):
            continue
        if bool(hidden.all(dim=-1).any()) or scene.shape(node) != scene.shape(x):
            continue
        yield scene.changed(_NAME, node, "a sum with 0 or -1e9")
        write, dtype = scene.writer(node, in_floats=True), scene.dtype(x)
        lowest = max(_MASKED, torch.finfo(dtype).min / 2)
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, lowest)
        scene.replace(node, write(aten.add.Tensor, x, write.constant(mask)))


def _parts(scene: Scene, node: torch.fx.Node) -> tuple[Any, torch.Tensor | None]:
    """What is masked, and the constant that is true where."""
    if node.target in {aten.where.self, aten.where.ScalarOther}:
        mask, x, value = node.args
        hidden = scene.constant(mask)
        if hidden is not None and _is_far_below(scene, x):
            x, value = value, x
        elif hidden is not None:
            hidden = ~hidden
    else:
        x, mask, value = node.args
        hidden = scene.constant(mask)
    is_tensor = isinstance(x, torch.fx.Node) and hidden is not None and hidden.dim() > 0
    return x, hidden if is_tensor and _is_far_below(scene, value) else None


def _is_far_below(scene: Scene, value: Any) -> bool:
    if isinstance(value, (int, float)):
        return value <= _FAR_BELOW
    known = scene.constant(value)
    return known is not None and known.numel() > 0 and float(known.max()) <= _FAR_BELOW


def _is_before_softmax(scene: Scene, node: torch.fx.Node) -> bool:
    reader = scene.only_user(node)
    if reader is None or reader.target is not aten.softmax.int:
        return False
    return int(reader.args[1]) % max(scene.rank(node), 1) == scene.rank(node) - 1


REWRITE = Rewrite(
    name=_NAME,
    title="masks before a softmax as sums",
    advice="keep the mask as a buffer of 0 and -1e9, and add it",
    safety="exact",
    apply=_apply,
)
