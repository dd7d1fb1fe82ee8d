"""A softmax over another dimension than the last takes its rows from a transpose.

XNNPACK's softmax runs over the last dimension only; ExecuTorch's own kernel walks over the others with a
stride.

    softmax(x, 1)   →   softmax(rows of transpose(x), −1), turned back
"""

from collections.abc import Iterator

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten, together

_NAME = "softmax-channels"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.softmax.int):
        x, dim = node.args[0], int(node.args[1])
        shape = scene.sizes(x)
        if shape is None or not scene.dtype(x).is_floating_point or len(node.args) > 2:
            continue
        dim %= max(len(shape), 1)
        if len(shape) < 2 or dim == len(shape) - 1:
            continue
        yield scene.changed(_NAME, node, f"rows of dimension {dim}, turned there and back")
        write = scene.writer(node)
        outer, size, inner = together(shape[:dim]), shape[dim], together(shape[dim + 1 :])
        apart = write(aten.reshape.default, x, [outer, size, inner])
        turned = write(aten.permute.default, apart, [0, 2, 1])
        done = write(aten.softmax.int, turned, -1)
        back = write(aten.permute.default, done, [0, 2, 1])
        scene.replace(node, write(aten.reshape.default, back, list(shape)))


REWRITE = Rewrite(
    name=_NAME,
    title="softmax over channels by rows",
    advice="put the dimension of the softmax last; or leave the softmax out where an argmax follows",
    safety="exact",
    apply=_apply,
)
