"""GELU of half floats by a sigmoid: XNNPACK's own GELU takes floats of 32 bits alone.

What torch calls tanh's approximation is that very sigmoid, exactly; GELU by erf is off from it by up to 5e-4,
half a unit in the last place of a half float near 1.

    gelu(x)   →   x · sigmoid(2 · √(2/π) · (x + 0.044715 · x³))
"""

import math
from collections.abc import Iterator

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "half-gelu"
_SLOPE = 2 * math.sqrt(2 / math.pi)


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.gelu.default, aten.gelu_.default):
        x, rank, dtype = node.args[0], scene.rank(node), scene.dtype(node)
        if dtype is not torch.float16 or rank == 0:
            continue
        yield scene.changed(_NAME, node, "a product with a sigmoid")
        write = scene.writer(node)
        cubic, linear = (
            write.constant(torch.full((1,) * rank, value, dtype=dtype))
            for value in (_SLOPE * 0.044715, _SLOPE)
        )
        square = write(aten.mul.Tensor, x, x)
        inner = write(aten.add.Tensor, write(aten.mul.Tensor, square, cubic), linear)
        gate = write(aten.sigmoid.default, write(aten.mul.Tensor, x, inner))
        scene.replace(node, write(aten.mul.Tensor, x, gate))


REWRITE = Rewrite(
    name=_NAME,
    title="GELU of half floats by a sigmoid",
    advice="write x * torch.sigmoid(1.5957691 * (x + 0.044715 * x**3))",
    safety="exact",
    apply=_apply,
)
