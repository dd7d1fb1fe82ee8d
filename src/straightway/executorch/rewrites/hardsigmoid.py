"""Hard sigmoid by a sum, a clamp and a product that can follow the layout.

ExecuTorch takes it apart itself, with numbers that become tensors without dimensions: each then turns
the image from NHWC to NCHW and back.

    hardsigmoid(x)   →   clamp(x + 3, 0, 6) · 1/6
"""

from collections.abc import Iterator

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "hardsigmoid"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.hardsigmoid.default, aten.hardsigmoid_.default):
        x = node.args[0]
        rank, dtype = scene.rank(x), scene.dtype(x)
        if rank == 0:
            continue
        yield scene.changed(_NAME, node, "a sum, a clamp and a product of the image's rank")
        write = scene.writer(node)
        three, sixth = (
            write.constant(torch.full((1,) * rank, value, dtype=dtype)) for value in (3.0, 1 / 6)
        )
        bounded = write(aten.clamp.default, write(aten.add.Tensor, x, three), 0.0, 6.0)
        scene.replace(node, write(aten.mul.Tensor, bounded, sixth))


REWRITE = Rewrite(
    name=_NAME,
    title="hard sigmoid in operators that follow the layout",
    advice="write (x + three).clamp(0, 6) * sixth with buffers of shape (1, 1, 1, 1)",
    safety="exact",
    apply=_apply,
)
