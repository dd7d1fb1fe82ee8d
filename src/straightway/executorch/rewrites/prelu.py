"""PReLU of what is no image out of two clamps.

XNNPACK's passes in ExecuTorch 1.5.1 demand NHWC of every PReLU, and fail on tensors of other than four
dimensions (backends/xnnpack/_passes/channels_last_tagged_reshape_pass.py): without it such a model, a linear
layer with a PReLU behind, can't be lowered at all, so it is always applied.

    prelu(x, w)   →   relu(x) + w · min(x, 0)
"""

from collections.abc import Iterator

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "prelu"
_IMAGE_RANK = 4


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.prelu.default):
        x, weight = node.args
        rank, count = scene.rank(x), scene.shape(weight)
        if rank == _IMAGE_RANK or count is None:
            continue
        yield scene.changed(_NAME, node, "by two clamps, since XNNPACK's takes images alone")
        write = scene.writer(node)
        # channels are the second dimension
        sizes = [count[0], *[1] * max(rank - 2, 0)][:rank]
        known = scene.constant(weight)
        slope = (
            write(aten.reshape.default, weight, sizes)
            if known is None
            else write.constant(known.reshape(sizes))
        )
        below = write(aten.mul.Tensor, write(aten.clamp.default, x, None, 0.0), slope)
        scene.replace(node, write(aten.add.Tensor, write(aten.relu.default, x), below))


REWRITE = Rewrite(
    name=_NAME,
    title="PReLU of what is no image by two clamps",
    advice="write torch.relu(x) + weight * x.clamp(max=0) after linear layers",
    safety="exact",
    apply=_apply,
)
