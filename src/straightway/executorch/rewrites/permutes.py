"""Permutes that move nothing become reshapes; two in a row become one.

XNNPACK copies for each transpose, even where only dimensions of size 1 change places: batches of one
that torch's own attention keeps second, heads of a decoder's single token.

    permute((1, N, C), (1, 0, 2))   →   reshape(N, 1, C)          permute(permute(x, a), b)   →   permute(x, a[b])
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "permutes"
_PERMUTES = (aten.permute.default, aten.transpose.int, aten.t.default)
_RESHAPES = {
    aten.reshape.default,
    aten.view.default,
    aten.flatten.using_ints,
    aten.unflatten.int,
    aten.linear.default,
}


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_PERMUTES):
        before: Any = node.args[0]
        axes = axes_of(scene, node)
        text = ""
        while isinstance(before, torch.fx.Node) and before.target in _PERMUTES:
            first = axes_of(scene, before)
            before, axes = before.args[0], [first[axis] for axis in axes]
            text = "two permutes in one"
        shape = scene.sizes(before)
        if shape is None:
            continue
        if _keeps(shape, axes) and _lies_as_told(scene, before):
            yield scene.changed(_NAME, node, "a reshape, which moves nothing")
            write = scene.writer(node)
            scene.replace(node, write(aten.reshape.default, before, [shape[a] for a in axes]))
        elif text:
            yield scene.changed(_NAME, node, text)
            scene.replace(node, scene.writer(node)(aten.permute.default, before, axes))


def axes_of(scene: Scene, node: torch.fx.Node) -> list[int]:
    """The permutation of a permute or transpose."""
    axes = list(range(scene.rank(node)))
    if node.target is aten.permute.default:
        return [int(axis) % len(axes) for axis in node.args[1]]
    dims: Any = node.args[1:3] if node.target is aten.transpose.int else (0, -1)
    if axes:
        first, second = (int(dim) % len(axes) for dim in dims)
        axes[first], axes[second] = axes[second], axes[first]
    return axes


def _keeps(shape: tuple[int, ...], axes: list[int]) -> bool:
    """Whether all dimensions but those of size 1 stay in their order."""
    large = [axis for axis in axes if shape[axis] != 1]
    return large == sorted(large)


def _lies_as_told(scene: Scene, node: torch.fx.Node) -> bool:
    """Whether its values lie in the order of its dimensions: an image may lie in NHWC instead."""
    return scene.rank(node) != 4 or node.target in _RESHAPES


REWRITE = Rewrite(
    name=_NAME,
    title="permutes of dimensions of size 1 as reshapes",
    advice="write x.reshape(...) where a permute or transpose moves dimensions of size 1 alone",
    safety="exact",
    apply=_apply,
)
