"""Layer norms of half floats are computed in floats of 32 bits.

ExecuTorch 1.5.1 takes mean and variance of a row by vectors of halves, of which it reads a part as if they
were vectors of floats (RowwiseMomentsImpl in kernels/optimized/cpu/moments_utils.h): rows of 256 numbers or
more lose theirs on a processor with vectors of 16 halves. Without it the numbers are wrong, so it is always
applied. Torch accumulates in floats as well.
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten, parts_of

_NAME = "half-layer-norm"
_HALVES = (torch.float16, torch.bfloat16)


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.layer_norm.default, aten.native_layer_norm.default):
        whole = node.target is aten.layer_norm.default
        parts = {0: node} if whole else parts_of(node)
        dtype = scene.dtype(node.args[0])
        if dtype not in _HALVES or set(parts) != {0}:
            continue
        yield scene.changed(
            _NAME, node, "in floats of 32 bits, since the kernel of halves is wrong"
        )
        write = scene.writer(node)

        def wide(one: Any, write: Any = write) -> Any:
            known = scene.constant(one)
            if known is not None:
                return write.constant(known.float())
            is_tensor = isinstance(one, torch.fx.Node)
            return write(aten.to.dtype, one, torch.float32) if is_tensor else one

        keywords = {name: wide(one) for name, one in node.kwargs.items()}
        # input, shape, weight, bias, eps: of both operators
        done = write(aten.layer_norm.default, *[wide(one) for one in node.args], **keywords)
        scene.replace(parts[0], write(aten.to.dtype, done, dtype))
        if not whole:
            scene.drop(node)


REWRITE = Rewrite(
    name=_NAME,
    title="layer norm of half floats in floats",
    advice="write norm(x.float()).half(), with the norm's weights in floats",
    safety="exact",
    apply=_apply,
)
