"""SiLU of half floats by its sigmoid: torch takes it apart into floats of 32 bits and back.

Half a unit in the last place of the sigmoid, and another of the product.

    silu(x)   →   x · sigmoid(x)
"""

from collections.abc import Iterator

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "half-silu"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.silu.default, aten.silu_.default):
        if scene.dtype(node) is not torch.float16:
            continue
        yield scene.changed(_NAME, node, "a product with a sigmoid")
        write, x = scene.writer(node), node.args[0]
        scene.replace(node, write(aten.mul.Tensor, x, write(aten.sigmoid.default, x)))


REWRITE = Rewrite(
    name=_NAME,
    title="SiLU of half floats by its sigmoid",
    advice="write x * torch.sigmoid(x)",
    safety="exact",
    apply=_apply,
)
