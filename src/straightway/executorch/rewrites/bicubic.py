"""A bicubic resize of known sizes as two matrix products, one for each direction.

ExecuTorch takes it apart into sixteen gathers outside of the delegate; the weights of all pixels are known
when the program is made.

    up(x)   →   A · x · Bᵀ, A (height after, before), B (width after, before)
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten, together

_NAME = "bicubic"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.upsample_bicubic2d.vec, aten.upsample_bicubic2d.default):
        x = node.args[0]
        before, after = scene.sizes(x), scene.sizes(node)
        if (
            before is None
            or after is None
            or -1 in (*before[1:], *after[1:])
            or scene.dtype(x) is not torch.float32
        ):
            continue
        yield scene.changed(_NAME, node, "two matrix products with the weights of all pixels")
        write = scene.writer(node, in_floats=True)
        high, wide = (write.constant(_weights(node, before, dim, after[dim])) for dim in (2, 3))
        images = together(before[:2])
        rows = write(aten.reshape.default, x, [together(before[:3]), before[3]])
        done = write(aten.linear.default, rows, wide)
        done = write(aten.reshape.default, done, [images, before[2], after[3]])
        done = _turned(write, write(aten.linear.default, _turned(write, done), high))
        scene.replace(node, write(aten.reshape.default, done, list(after)))


def _turned(write: Writer, x: torch.fx.Node) -> torch.fx.Node:
    return write(aten.permute.default, x, [0, 2, 1])


def _weights(node: torch.fx.Node, before: tuple[int, ...], dim: int, size: int) -> torch.Tensor:
    """How much of each pixel before is in each after along one dimension: what becomes of ones.

    The other dimension is of one pixel, and keeps it.
    """
    given: Any = node.args
    align, scales = bool(given[2]), [None, None]
    if node.target is aten.upsample_bicubic2d.default:
        scales = [*given[3:5], None, None][:2]
    elif len(given) > 3 and given[3] is not None:
        scales = list(given[3])
    scales[3 - dim] = None
    eye = torch.eye(before[dim])
    image, sizes = (
        (eye[None, :, :, None], [size, 1]) if dim == 2 else (eye[None, :, None, :], [1, size])
    )
    found: torch.Tensor = aten.upsample_bicubic2d.default(image, sizes, align, *scales)
    return found.reshape(before[dim], size).t()


REWRITE = Rewrite(
    name=_NAME,
    title="bicubic resizes by matrix products",
    advice="keep the weights of the resize as buffers a and b, and write a @ x @ b.T",
    safety="exact",
    apply=_apply,
)
