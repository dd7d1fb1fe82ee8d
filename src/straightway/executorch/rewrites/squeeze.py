"""Squeezes and unsqueezes as reshapes, which XNNPACK takes; an open size told as the one that is left.

XNNPACK's reshape finds one size itself, but takes none that is computed.

    x.unsqueeze(1)   →   x.reshape(n, 1, …)          x.view(x.shape[0], -1, 1)   →   x.reshape(-1, c, 1)
"""

from collections.abc import Iterator

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "squeeze"
_TARGETS = (
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
)
_RESHAPES = (
    aten.view.default,
    aten.reshape.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
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
    for node in scene.calls(*_RESHAPES):
        shape = scene.sizes(node)
        if shape is None or -1 not in shape or not _computes(node):
            continue
        yield scene.changed(_NAME, node, "a reshape that finds its open size")
        write = scene.writer(node)
        scene.replace(node, write(aten.reshape.default, node.args[0], list(shape)))
    scene.graph.eliminate_dead_code()


def _computes(node: torch.fx.Node) -> bool:
    """Whether a size of its own is computed; torch takes flatten apart so."""
    sizes = node.args[1]
    if node.target in {aten.view.default, aten.reshape.default} and isinstance(
        sizes, (list, tuple)
    ):
        return any(isinstance(one, torch.fx.Node) for one in sizes)
    return True


REWRITE = Rewrite(
    name=_NAME,
    title="squeezes as reshapes, of known sizes but one",
    advice=(
        "write reshape in place of squeeze and unsqueeze, and -1 in place of an open size: "
        "x.reshape(-1, 8, 1) where x.view(x.shape[0], 8, 1) stands"
    ),
    safety="exact",
    apply=_apply,
)
