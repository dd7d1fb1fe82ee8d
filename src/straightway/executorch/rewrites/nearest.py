"""Nearest upsampling by whole factors as part of the convolution that reads it, or as one.

Each weight of a convolution over the enlarged image meets the same pixel as its neighbours, so that their
sums make a transposed convolution of the small image. Where the image is concatenated with others first, each
part has a convolution of its own, and the results are added.

    conv(up(x), w)   →   conv_transpose(x, flipped w ∗ ones, stride s)
    conv(cat(up(x), y), w)   →   conv_transpose(x, …) + conv(y, …)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from straightway.executorch.rewrites.batch_norm import scale_and_shift
from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten

_NAME = "nearest"
_UPSAMPLES = (aten.upsample_nearest2d.vec, aten.upsample_nearest2d.default)
# A convolution of ones takes as many products as channels: beyond, copying is as fast.
_MOST_CHANNELS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """A convolution of stride 1, with the batch norm behind it; `node` is what makes the result."""

    node: torch.fx.Node
    weight: torch.Tensor
    bias: torch.Tensor | None
    padding: tuple[int, int]


def _apply(scene: Scene) -> Iterator[Change]:
    for node in scene.calls(*_UPSAMPLES):
        factors = _factors(scene, node) if node.users else None
        if factors is None:
            continue
        reader = scene.only_user(node)
        joined = reader if reader is not None and reader.target is aten.cat.default else None
        if joined is not None:
            reader = scene.only_user(joined) if _joins_channels(scene, joined) else None
        found = None if reader is None else _reader(scene, reader)
        if found is None:
            yield scene.changed(_NAME, node, "a transposed convolution with ones")
            scene.replace(node, _alone(scene, node, factors))
        elif joined is None:
            yield scene.changed(_NAME, node, "part of the convolution that reads it")
            _fold(scene, node, factors, found)
        else:
            yield scene.changed(_NAME, node, "part of the convolution that reads it beside others")
            _fold_part(scene, node, joined, factors, found)
        scene.graph.eliminate_dead_code()


def _factors(scene: Scene, node: torch.fx.Node) -> tuple[int, int] | None:
    """How many times as high and as wide; None where that is no whole number."""
    before, after = scene.shape(node.args[0]), scene.shape(node)
    if before is None or after is None or before[1] > _MOST_CHANNELS:
        return None
    if not scene.dtype(node).is_floating_point or any(
        b % a for a, b in zip(before[2:], after[2:], strict=True)
    ):
        return None
    return after[2] // before[2], after[3] // before[3]


def _joins_channels(scene: Scene, joined: torch.fx.Node) -> bool:
    dim = joined.args[1] if len(joined.args) > 1 else joined.kwargs.get("dim", 0)
    return scene.rank(joined) == 4 and int(dim) % 4 == 1


def _pair(value: Any) -> tuple[int, int]:
    """One number for both, or a pair."""
    parts = [value] if isinstance(value, int) else list(value)
    return int(parts[0]), int(parts[-1])


def _reader(scene: Scene, node: torch.fx.Node) -> _Reader | None:
    if node.target is not aten.conv2d.default:
        return None
    names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    weight, bias = scene.constant(given["weight"]), given.get("bias")
    plain = (
        _pair(given.get("stride", 1)) == (1, 1)
        and _pair(given.get("dilation", 1)) == (1, 1)
        and given.get("groups", 1) == 1
    )
    padding = _pair(given.get("padding", 0))
    if weight is None or not plain or (bias is not None and scene.constant(bias) is None):
        return None
    if any(pad > size - 1 for pad, size in zip(padding, weight.shape[2:], strict=True)):
        return None  # a transposed convolution's padding can't be negative
    return _with_norm(
        scene, _Reader(node=node, weight=weight, bias=scene.constant(bias), padding=padding)
    )


def _with_norm(scene: Scene, reader: _Reader) -> _Reader:
    """With the batch norm that is all that reads it: behind a sum of parts, it would stand alone."""
    norm = scene.only_user(reader.node)
    if norm is None or norm.target is not aten.batch_norm.default:
        return reader
    parts = scale_and_shift(scene, norm)
    if parts is None:
        return reader
    scale, shift = parts
    bias = shift if reader.bias is None else shift + reader.bias.double() * scale.reshape(-1)
    dtype = reader.weight.dtype
    weight = (reader.weight.double() * scale).to(dtype)
    return _Reader(node=norm, weight=weight, bias=bias.to(dtype), padding=reader.padding)


def _enlarging(weight: torch.Tensor, factors: tuple[int, int]) -> torch.Tensor:
    """The weights (in, out, h, w) of the transposed convolution: flipped, and summed by `factors`."""
    ones = torch.ones(1, 1, *factors, dtype=torch.float64)
    reach = (factors[0] - 1, factors[1] - 1)
    flat = weight.double().flip(2, 3).reshape(-1, 1, *weight.shape[2:])
    summed = functional.conv2d(flat, ones, padding=reach)
    return summed.reshape(*weight.shape[:2], *summed.shape[2:]).transpose(0, 1).to(weight.dtype)


def _transposed(
    write: Writer, image: Any, reader: _Reader, weight: torch.Tensor, factors: tuple[int, int]
) -> torch.fx.Node:
    """Of a part of the reader's weights; with its bias."""
    padding = [size - 1 - pad for pad, size in zip(reader.padding, weight.shape[2:], strict=True)]
    bias = None if reader.bias is None else write.constant(reader.bias)
    kernel = write.constant(_enlarging(weight, factors))
    return write(
        aten.conv_transpose2d.input, image, kernel, bias, list(factors), padding, [0, 0], 1, [1, 1]
    )


def _fold(scene: Scene, node: torch.fx.Node, factors: tuple[int, int], reader: _Reader) -> None:
    write = scene.writer(reader.node)
    scene.replace(reader.node, _transposed(write, node.args[0], reader, reader.weight, factors))


def _fold_part(
    scene: Scene,
    node: torch.fx.Node,
    joined: torch.fx.Node,
    factors: tuple[int, int],
    reader: _Reader,
) -> None:
    """The image's channels through a convolution of their own, the others through the old one."""
    write = scene.writer(reader.node)
    images: list[Any] = list(joined.args[0])
    sizes = [(scene.shape(one) or ())[1] for one in images]
    parts = dict(enumerate(torch.split(reader.weight, sizes, dim=1)))
    place = images.index(node)
    own = _transposed(write, node.args[0], reader, parts.pop(place), factors)
    others = [images[k] for k in parts]
    if others:
        rest = others[0] if len(others) == 1 else write(aten.cat.default, others, 1)
        weight = write.constant(torch.cat(list(parts.values()), 1))
        beside = write(
            aten.conv2d.default, rest, weight, None, [1, 1], list(reader.padding), [1, 1], 1
        )
        own = write(aten.add.Tensor, beside, own)
    scene.replace(reader.node, own)


def _alone(scene: Scene, node: torch.fx.Node, factors: tuple[int, int]) -> torch.fx.Node:
    """A transposed convolution that copies each pixel."""
    write, channels = scene.writer(node), (scene.shape(node) or ())[1]
    identity = torch.eye(channels, dtype=scene.dtype(node))[:, :, None, None]
    kernel = write.constant(identity.expand(-1, -1, *factors))
    return write(aten.conv_transpose2d.input, node.args[0], kernel, None, list(factors))


REWRITE = Rewrite(
    name=_NAME,
    title="nearest upsampling as a transposed convolution",
    advice=(
        "write nn.ConvTranspose2d with stride 2 in place of nn.Upsample and the convolution behind it; "
        "its weights are sums of that convolution's"
    ),
    safety="exact",
    apply=_apply,
)
