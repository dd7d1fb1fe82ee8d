"""Layers that are called more than once have weights of their own for each call, in 8 bits.

ExecuTorch 1.5.1's lowering makes a program of quantized weights that two operators read, which fails when it is
run (error 0x1): a head over several levels, a layer that is called in a loop. So it is always applied there.
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "own-weights"
_LAYERS = (
    aten.conv1d.default,
    aten.conv1d.padding,
    aten.conv2d.default,
    aten.conv2d.padding,
    aten.conv_transpose1d.default,
    aten.conv_transpose2d.input,
    aten.linear.default,
)


def _apply(scene: Scene) -> Iterator[Change]:
    seen: set[str] = set()
    for node in scene.calls(*_LAYERS):
        given: list[Any] = list(node.args)
        for place, one in enumerate(given[1:3], 1):
            known = scene.constant(one)
            if known is None or not isinstance(one, torch.fx.Node):
                continue
            if str(one.target) in seen:
                yield scene.changed(_NAME, node, "weights of its own, as another call's")
                given[place] = scene.new_constant(known, node)
            seen.add(str(one.target))
        node.args = tuple(given)


REWRITE = Rewrite(
    name=_NAME,
    title="weights of their own for each call",
    advice="give each call a layer of its own",
    safety="exact",
    apply=_apply,
)
