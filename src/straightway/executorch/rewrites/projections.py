"""A linear layer whose result is taken apart at once becomes one layer for each part.

Slicing a packed projection (query, key and value in one) moves the whole result; the weights can be
sliced instead, when the program is made.

    linear(x, W) → reshape(B, N, 3, h, d) → permute(2, 0, 3, 1, 4) → unbind
        becomes three times   linear(x, Wᵢ) → reshape(B, N, h, d) → permute(0, 2, 1, 3)
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten, parts_of

_NAME = "projections"


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(
        aten.unbind.int, aten.chunk.default, aten.split.Tensor, aten.split_with_sizes.default
    ):
        if node.target is aten.unbind.int:
            yield from _unbound(scene, node)
        else:
            yield from _divided(scene, node)


def _linear(scene: Scene, node: Any) -> torch.fx.Node | None:
    """The linear layer of known weights that a value comes from, if nobody else reads it."""
    if not isinstance(node, torch.fx.Node) or node.target is not aten.linear.default:
        return None
    if scene.only_user(node) is None or scene.constant(node.args[1]) is None:
        return None
    bias = node.args[2] if len(node.args) > 2 else None
    return node if bias is None or scene.constant(bias) is not None else None


def _unbound(scene: Scene, node: torch.fx.Node) -> Iterator[Change]:
    """unbind(permute(reshape(linear))), where the dimension unbound is the outermost of the features."""
    turned: Any = node.args[0]
    dim = int(node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0))
    permutation = None
    if turned.target is aten.permute.default and scene.only_user(turned):
        permutation = [int(axis) % scene.rank(turned) for axis in turned.args[1]]
        dim = permutation[dim % len(permutation)]
        turned = turned.args[0]
    if turned.target not in {aten.reshape.default, aten.view.default} or not scene.only_user(
        turned
    ):
        return
    linear = _linear(scene, turned.args[0])
    shape, before = scene.dims(turned), scene.dims(turned.args[0])
    sizes = scene.sizes(turned)
    if linear is None or sizes is None:
        return
    dim %= len(shape)
    if dim != len(before) - 1 or shape[:dim] != before[:-1]:
        return
    yield scene.changed(
        _NAME, linear, f"one layer for each of {shape[dim]} parts, in place of slices"
    )
    size = before[-1] // shape[dim]
    for index, part in parts_of(node).items():
        write = scene.writer(part)
        own = write(
            aten.linear.default, *_part(scene, write, linear, (index * size, (index + 1) * size))
        )
        own = write(aten.reshape.default, own, [*sizes[:dim], *sizes[dim + 1 :]])
        if permutation is not None:
            kept = [axis for axis in permutation if axis != dim]
            own = write(aten.permute.default, own, [axis - (axis > dim) for axis in kept])
        scene.replace(part, own)


def _divided(scene: Scene, node: torch.fx.Node) -> Iterator[Change]:
    """A chunk or split of a linear layer along its features."""
    linear = _linear(scene, node.args[0])
    dim = node.args[2] if len(node.args) > 2 else node.kwargs.get("dim", 0)
    if linear is None or int(dim) % scene.rank(linear) != scene.rank(linear) - 1:
        return
    yield scene.changed(
        _NAME, linear, f"one layer for each of {len(node.meta['val'])} parts, in place of slices"
    )
    start = 0
    bounds = []
    for value in node.meta["val"]:
        bounds.append((start, start + int(value.shape[-1])))
        start += int(value.shape[-1])
    for index, part in parts_of(node).items():
        write = scene.writer(part)
        scene.replace(part, write(aten.linear.default, *_part(scene, write, linear, bounds[index])))


def _part(scene: Scene, write: Any, linear: torch.fx.Node, bounds: tuple[int, int]) -> list[Any]:
    """Operands of the layer that makes features `bounds` alone."""
    rows = slice(*bounds)
    operands = [linear.args[0]]
    for given in linear.args[1:]:
        value = scene.constant(given)
        operands.append(None if value is None else write.constant(value[rows]))
    return operands


REWRITE = Rewrite(
    name=_NAME,
    title="packed projections as one layer for each part",
    advice="write q, k and v as three nn.Linear in place of one that is split",
    safety="exact",
    apply=_apply,
)
