"""Scalars and per-channel constants of four dimensions, so that they can follow the layout.

A number that is added to or multiplied with an image becomes a tensor without dimensions, which
XNNPACK's lowering can't turn to NHWC: it turns the image to NCHW and back instead. With four
dimensions, of size 1, it can.
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "scalar"
_BINARY = {
    aten.add.Tensor: aten.add.Tensor,
    aten.sub.Tensor: aten.sub.Tensor,
    aten.mul.Tensor: aten.mul.Tensor,
    aten.div.Tensor: aten.div.Tensor,
    aten.add.Scalar: aten.add.Tensor,
    aten.sub.Scalar: aten.sub.Tensor,
    aten.mul.Scalar: aten.mul.Tensor,
    aten.div.Scalar: aten.div.Tensor,
}


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_BINARY):
        image, other = node.args[:2]
        swapped = False
        if not isinstance(image, torch.fx.Node) or scene.constant(image) is not None:
            image, other, swapped = other, image, True
        if not isinstance(image, torch.fx.Node) or node.kwargs.get("alpha", 1) != 1:
            continue
        value = _value(scene, other, image)
        if value is None:
            continue
        yield scene.changed(
            _NAME, node, "a constant of four dimensions, which can follow the layout"
        )
        write = scene.writer(node)
        operands = [image, write.constant(value)]
        if swapped:
            operands.reverse()
        scene.replace(node, write(_BINARY[node.target], *operands))


def _value(scene: Scene, other: Any, image: torch.fx.Node) -> torch.Tensor | None:
    if scene.rank(image) != 4 or not scene.dtype(image).is_floating_point:
        return None
    if isinstance(other, (int, float)) and not isinstance(other, bool):
        return torch.full((1, 1, 1, 1), float(other), dtype=scene.dtype(image))
    known = scene.constant(other)
    if known is None or known.dim() >= 4 or known.dtype != scene.dtype(image):
        return None
    return known.reshape((1,) * (4 - known.dim()) + tuple(known.shape))


REWRITE = Rewrite(
    name=_NAME,
    title="constants with four dimensions",
    advice="keep the constant as a buffer of shape (1, 1, 1, 1), or (1, C, 1, 1)",
    safety="exact",
    apply=_apply,
)
