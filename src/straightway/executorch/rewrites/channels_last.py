"""Images given channels last, so that the program need not turn them: a change of its interface.

XNNPACK computes in NHWC; an input in NCHW is turned first, which for a picture of three channels takes
as long as all else that moves. Whoever calls the program then gives such memory
(torch.channels_last): what a camera or a decoder of pictures writes anyway.
"""

from collections.abc import Iterator

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene

_NAME = "channels-last"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.graph.nodes:
        if node.op != "placeholder" or not node.users:
            continue
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dim() != 4 or value.shape[1] == 1:
            continue
        if value.is_floating_point() and not value.is_contiguous(memory_format=torch.channels_last):
            scene.channels_last.add(node.name)
            yield scene.changed(_NAME, next(iter(node.users)), f"input {node.name} in NHWC")


REWRITE = Rewrite(
    name=_NAME,
    title="images given channels last",
    advice="give the model x.contiguous(memory_format=torch.channels_last) when it is exported",
    safety="interface",
    apply=_apply,
)
