"""Slices with a step, which XNNPACK lacks, as convolutions with a stride, or as slices without.

The parts of an image that a focus layer concatenates become one convolution of the image itself, its
weights spread out; a part that is read otherwise a depthwise convolution of one weight. Elsewhere the step
becomes a dimension.

    conv(cat(x[.., ::2, ::2], x[.., 1::2, ::2], …), w)   →   conv(x, w spread, stride 2)
    x[.., k::s]   →   x.reshape(.., n/s, s)[.., k]
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, aten

_NAME = "strided-slice"
# dimensions that XNNPACK's slice takes (XNN_MAX_TENSOR_DIMS, include/xnnpack.h)
_MOST_RANK = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """Every `steps`-th pixel of an image, from `starts`: what one or two slices leave of it."""

    image: torch.fx.Node
    starts: tuple[int, int]
    steps: tuple[int, int]


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(aten.cat.default):
        found = _focus(scene, node)
        if found is not None:
            yield scene.changed(_NAME, node, "one convolution of the whole image, with its stride")
            _fold(scene, *found)
    scene.graph.eliminate_dead_code()
    for node in reversed(scene.calls(aten.slice.Tensor)):
        phase = _phase(scene, node) if node.users else None
        if phase is not None and max(phase.steps) > 1:
            yield scene.changed(_NAME, node, "a depthwise convolution of one weight, with a stride")
            _thin(scene, node, phase)
    scene.graph.eliminate_dead_code()
    for node in scene.calls(aten.slice.Tensor):
        dim, start, step = _bounds(scene, node) or (0, 0, 1)
        # slices of open shapes have no place in XNNPACK's partitioner (SliceCopyConfig)
        is_closed = scene.shape(node) is not None
        if step > 1 and scene.rank(node) < _MOST_RANK and is_closed:
            yield scene.changed(_NAME, node, "a slice of a dimension of its own")
            _divide(scene, node, dim, start, step)


def _bounds(scene: Scene, node: torch.fx.Node) -> tuple[int, int, int] | None:
    """Dimension, start and step of a slice that goes to the end; None for another."""
    before, after = scene.sizes(node.args[0]), scene.sizes(node)
    if before is None or after is None:
        return None
    names = ("input", "dim", "start", "end", "step")
    given = {"dim": 0, "start": None, "step": 1} | dict(zip(names, node.args, strict=False))
    dim = int(given["dim"]) % len(before)
    if before[dim] == -1:
        return None
    size, step = before[dim], int(given["step"])
    start = int(given["start"] or 0)
    start += size if start < 0 else 0
    if not 0 <= start < step or after[dim] * step != size:
        return None
    return dim, start, step


def _phase(scene: Scene, node: Any) -> _Phase | None:
    """Of an image in floats; slices of both dimensions are taken together."""
    starts, steps = [0, 0], [1, 1]
    image = node
    while isinstance(image, torch.fx.Node) and image.target is aten.slice.Tensor:
        found = _bounds(scene, image)
        if found is None or scene.rank(image) != 4 or found[0] < 2 or steps[found[0] - 2] > 1:
            break
        dim, start, step = found
        starts[dim - 2], steps[dim - 2] = start, step
        image = image.args[0]
    if image is node or not scene.dtype(node).is_floating_point:
        return None
    return _Phase(image=image, starts=(starts[0], starts[1]), steps=(steps[0], steps[1]))


def _focus(
    scene: Scene, joined: torch.fx.Node
) -> tuple[torch.fx.Node, list[_Phase], dict[str, Any], torch.Tensor] | None:
    """The convolution that reads a concatenation of phases, and all about it."""
    reader = scene.only_user(joined)
    dim = joined.args[1] if len(joined.args) > 1 else joined.kwargs.get("dim", 0)
    if reader is None or reader.target is not aten.conv2d.default or int(dim) % 4 != 1:
        return None
    phases = [_phase(scene, one) for one in joined.args[0]]
    first = phases[0]
    if first is None or max(first.steps) == 1:
        return None
    known = [
        one
        for one in phases
        if one is not None and one.image is first.image and one.steps == first.steps
    ]
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    given = dict(zip(names, reader.args, strict=False)) | dict(reader.kwargs)
    weight = scene.constant(given["weight"])
    plain = _pair(given.get("dilation", 1)) == (1, 1) and given.get("groups", 1) == 1
    if len(known) != len(phases) or weight is None or not plain:
        return None
    return reader, known, given, weight


def _pair(value: Any) -> tuple[int, int]:
    parts = [value] if isinstance(value, int) else list(value)
    return int(parts[0]), int(parts[-1])


def _fold(
    scene: Scene,
    reader: torch.fx.Node,
    phases: list[_Phase],
    given: dict[str, Any],
    weight: torch.Tensor,
) -> None:
    """Each weight stands where its phase's pixel is."""
    first, channels = phases[0], weight.shape[1] // len(phases)
    high, wide = first.steps
    spread = weight.new_zeros(
        weight.shape[0], channels, weight.shape[2] * high, weight.shape[3] * wide
    )
    for phase, part in zip(phases, weight.split(channels, 1), strict=True):
        spread[:, :, phase.starts[0] :: high, phase.starts[1] :: wide] += part
    stride, padding = (
        [one * step for one, step in zip(_pair(given.get(name, other)), first.steps, strict=True)]
        for name, other in (("stride", 1), ("padding", 0))
    )
    write = scene.writer(reader)
    kernel = write.constant(spread)
    bias = given.get("bias")
    scene.replace(
        reader, write(aten.conv2d.default, first.image, kernel, bias, stride, padding, [1, 1], 1)
    )


def _thin(scene: Scene, node: torch.fx.Node, phase: _Phase) -> None:
    write, channels = scene.writer(node), (scene.sizes(node) or ())[1]
    size = [start + 1 for start in phase.starts]
    weight = torch.zeros(channels, 1, *size, dtype=scene.dtype(node))
    weight[..., -1, -1] = 1
    kernel, steps = write.constant(weight), list(phase.steps)
    scene.replace(
        node,
        write(aten.conv2d.default, phase.image, kernel, None, steps, [0, 0], [1, 1], channels),
    )


def _divide(scene: Scene, node: torch.fx.Node, dim: int, start: int, step: int) -> None:
    write, x = scene.writer(node), node.args[0]
    shape, result = scene.shape(x) or (), scene.shape(node) or ()
    divided = [*shape[:dim], shape[dim] // step, step, *shape[dim + 1 :]]
    apart = write(aten.reshape.default, x, divided)
    part = write(aten.slice.Tensor, apart, dim + 1, start, start + 1)
    scene.replace(node, write(aten.reshape.default, part, list(result)))


REWRITE = Rewrite(
    name=_NAME,
    title="slices with a step as convolutions with a stride",
    advice=(
        "make the layer behind a focus a convolution of twice the kernel and stride 2; elsewhere "
        "reshape the step to a dimension and index that"
    ),
    safety="exact",
    apply=_apply,
)
