"""Splits, chunks, unbinds and selections as slices, which XNNPACK takes; squeezes as reshapes.

split(x, [a, b], dim)   →   x[.., :a], x[.., a:]          unbind(x, dim)   →   x[.., i:i+1] reshaped
"""

from collections.abc import Iterator
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten, parts_of

_NAME = "split"
_LISTS = (
    aten.split.Tensor,
    aten.split_with_sizes.default,
    aten.split.sizes,
    aten.chunk.default,
    aten.unbind.int,
)


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_LISTS):
        if scene.shape(node.args[0]) is not None:
            yield scene.changed(_NAME, node, f"{_short(node)} as slices")
            _split(scene, node)
    for node in scene.calls(aten.select.int):
        if scene.shape(node.args[0]) is not None:
            yield scene.changed(_NAME, node, "a selection as a slice")
            dim, index = int(node.args[1]), int(node.args[2])
            scene.replace(node, _slice(scene, node, (dim, index, index + 1), squeeze=True))


def _short(node: torch.fx.Node) -> str:
    return str(node.target).split(".")[1]


def _split(scene: Scene, node: torch.fx.Node) -> None:
    """Each part becomes a slice; its reader stays where it is."""
    values = node.meta["val"]
    dim = _dim(node)
    squeeze = node.target is aten.unbind.int
    start = 0
    bounds = []
    for value in values:
        size = 1 if squeeze else int(value.shape[dim])
        bounds.append((dim, start, start + size))
        start += size
    for index, part in parts_of(node).items():
        scene.replace(part, _slice(scene, node, bounds[index], squeeze=squeeze))
    scene.graph.erase_node(node)


def _dim(node: torch.fx.Node) -> int:
    place = 1 if node.target is aten.unbind.int else 2
    dim = node.args[place] if len(node.args) > place else node.kwargs.get("dim", 0)
    rank = node.args[0].meta["val"].dim()
    return int(dim) % rank


def _slice(
    scene: Scene, node: torch.fx.Node, bounds: tuple[int, int, int], *, squeeze: bool
) -> torch.fx.Node:
    source: Any = node.args[0]
    dim, start, stop = bounds
    shape = scene.shape(source) or ()
    dim %= len(shape)
    if start < 0:
        start, stop = start + shape[dim], start + shape[dim] + 1
    write = scene.writer(node)
    if (start, stop) == (0, shape[dim]):
        part = source
    else:
        part = write(aten.slice.Tensor, source, dim, start, stop)
    if not squeeze:
        return part if part is not source else write(aten.alias.default, source)
    return write(aten.reshape.default, part, [size for k, size in enumerate(shape) if k != dim])


REWRITE = Rewrite(
    name=_NAME,
    title="splits and selections as slices",
    advice="write x[:, :a] and x[:, a:] in place of split, chunk, unbind or an index",
    safety="exact",
    apply=_apply,
)
