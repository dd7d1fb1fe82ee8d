"""Nearest upsampling by whole factors: rows and columns repeated, or a part of the convolution behind it.

Where channels are the innermost dimension, a product with ones repeats whole pixels, one direction at a time.

    up(x)   →   x as (N·H·W, 1, C) · ones (s, 1), as (N·H, 1, s·W·C) · ones (s, 1)

By large factors, a convolution over the enlarged image does the same sums again and again. Each of its weights
meets the same pixel as its neighbours, so that their sums make a transposed convolution of the small image.
Where the image is concatenated with others first, each part has a convolution of its own, and the results are
added.

    conv(up(x), w)   →   conv_transpose(x, flipped w ∗ ones, stride s)
    conv(cat(up(x), y), w)   →   conv_transpose(x, …) + conv(y, …)
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from straightway.executorch.rewrites.batch_norm import scale_and_shift
from straightway.executorch.rewrites.scene import Change, Rewrite, Scene, Writer, aten, together

_NAME = "nearest"
_UPSAMPLES = (aten.upsample_nearest2d.vec, aten.upsample_nearest2d.default)
# What a product of XNNPACK's transposed convolution costs of one of its convolution: 3.0 to 4.3 on x86 with
# AVX-512, of 16 to 320 channels, 16 to 48 pixels wide, by factors of 2 and 4.
_DEARER = 3.4


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
        if found is None or not _is_worth(found, factors):
            yield scene.changed(_NAME, node, "products with ones, channels last")
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
    before, after = scene.sizes(node.args[0]), scene.sizes(node)
    if before is None or after is None or -1 in (*before[1:], *after[1:]):
        return None
    if not scene.dtype(node).is_floating_point or any(
        b % a for a, b in zip(before[2:], after[2:], strict=True)
    ):
        return None
    return after[2] // before[2], after[3] // before[3]


def _is_worth(reader: _Reader, factors: tuple[int, int]) -> bool:
    """Whether the transposed convolution computes so much less that it is faster than the convolution."""
    kernel = reader.weight.shape[2:]
    taps = math.prod((k + s - 1) / s for k, s in zip(kernel, factors, strict=True))
    return _DEARER * taps <= math.prod(kernel)


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
    sizes = [(scene.sizes(one) or ())[1] for one in images]
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
    """Each pixel beside itself, then each row; of rank 3, which no layout is chosen for."""
    write, dtype = scene.writer(node), scene.dtype(node)
    images, channels, height, width = scene.sizes(node.args[0]) or ()
    high, wide = factors
    done = write(aten.permute.default, node.args[0], [0, 2, 3, 1])
    row = wide * width * channels
    for factor, sizes in (
        (wide, [together([images, height, width]), 1, channels]),
        (high, [together([images, height]), 1, row]),
    ):
        done = write(aten.reshape.default, done, sizes)
        if factor > 1:
            done = write(
                aten.mul.Tensor, done, write.constant(torch.ones(1, factor, 1, dtype=dtype))
            )
    done = write(aten.reshape.default, done, [images, high * height, wide * width, channels])
    return write(aten.permute.default, done, [0, 3, 1, 2])


REWRITE = Rewrite(
    name=_NAME,
    title="nearest upsampling by products with ones, or within the convolution behind it",
    advice=(
        "repeat pixels and rows by x.permute(0, 2, 3, 1).reshape(n * h * w, 1, c) * torch.ones(1, s, 1); by "
        "factors of 4 and more let nn.ConvTranspose2d do the convolution behind it, too"
    ),
    safety="exact",
    apply=_apply,
)
