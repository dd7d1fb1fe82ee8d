"""Pools of one image without a batch dimension are given one.

XNNPACK's passes in ExecuTorch 1.5.1 demand NHWC of every pool, and fail on tensors of three dimensions
(backends/xnnpack/_passes/channels_last_tagged_reshape_pass.py): without it such a model can't be lowered at
all, so it is always applied.
"""

from collections.abc import Iterator

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "unbatched-pool"
_POOLS = (aten.max_pool2d.default, aten.avg_pool2d.default)
_IMAGE_RANK = 4


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_POOLS):
        x = node.args[0]
        if scene.rank(x) == _IMAGE_RANK:
            continue
        yield scene.changed(_NAME, node, "of a batch of one, since XNNPACK's takes batches alone")
        write = scene.writer(node)
        batch = write(aten.unsqueeze.default, x, 0)
        done = write(node.target, batch, *node.args[1:], **node.kwargs)
        scene.replace(node, write(aten.squeeze.dim, done, 0))


REWRITE = Rewrite(
    name=_NAME,
    title="pools of single images with a batch dimension",
    advice="write functional.max_pool2d(x[None], ...)[0], or keep the batch dimension throughout",
    safety="exact",
    apply=_apply,
)
