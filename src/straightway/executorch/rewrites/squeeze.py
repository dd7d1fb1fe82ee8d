"""Squeezes and unsqueezes as reshapes, which XNNPACK takes.

x.unsqueeze(1)   →   x.reshape(n, 1, …)
"""

from collections.abc import Iterator

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "squeeze"
_TARGETS = (
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
)


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_TARGETS):
        shape = scene.sizes(node)
        if shape is None or not scene.dtype(node).is_floating_point:
            continue
        if scene.constant(node.args[0]) is not None:
            continue
        yield scene.changed(_NAME, node, "a reshape")
        write = scene.writer(node)
        scene.replace(node, write(aten.reshape.default, node.args[0], list(shape)))


REWRITE = Rewrite(
    name=_NAME,
    title="squeezes as reshapes",
    advice="write reshape in place of squeeze and unsqueeze",
    safety="exact",
    apply=_apply,
)
