"""A segmentation network of SqueezeSAM's kind: a U-Net whose bottleneck is a transformer.

    straightway fix examples/squeeze_sam.py:model -o squeeze_sam.pte

Each convolution is followed by its activation and then by a batch norm, the order that can't be folded
into the convolution. Weights are seeded: no download, always the same. `model` has 10.6 million
parameters and 27 thousand million products at 512 × 512; `small` is the same in little, for tests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Channels of each level, convolutions in each, and the transformer at the bottom."""

    channels: tuple[int, ...] = (16, 32, 80, 176, 384)
    convolutions: tuple[int, ...] = (1, 2, 2, 2, 2)
    layers: int = 4
    heads: int = 4
    image: int = 512


class Convolution(nn.Module):
    """A 3 × 3 convolution, its activation, then its batch norm."""

    def __init__(self, channels: tuple[int, int], stride: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(*channels, 3, stride, padding=1)
        self.norm = nn.BatchNorm2d(channels[1])

    def forward(self, x: Tensor) -> Tensor:
        """Half the size where the stride is 2."""
        return self.norm(functional.relu(self.convolution(x)))


class Attention(nn.Module):
    """Attention of tokens to each other, its three projections packed in one layer."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.packed = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.heads = heads

    def forward(self, x: Tensor) -> Tensor:
        """Tokens of (batch, tokens, size)."""
        batch, tokens, size = x.shape
        packed = self.packed(x).reshape(batch, tokens, 3, self.heads, size // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, size))


class Layer(nn.Module):
    """One layer of the transformer, its norms before attention and perceptron."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.first_norm = nn.LayerNorm(size)
        self.attention = Attention(size, heads)
        self.second_norm = nn.LayerNorm(size)
        self.wide = nn.Linear(size, 4 * size)
        self.narrow = nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens of (batch, tokens, size)."""
        x = x + self.attention(self.first_norm(x))
        return x + self.narrow(functional.gelu(self.wide(self.second_norm(x))))


class SqueezeSam(nn.Module):
    """A mask of one channel for a picture of three."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        widths = sizes.channels
        self.encoder = nn.ModuleList()
        before = 3
        for level, (width, count) in enumerate(zip(widths, sizes.convolutions, strict=True)):
            first = Convolution((before, width), 1 if level == 0 else 2)
            others = [Convolution((width, width)) for _ in range(count - 1)]
            self.encoder.append(nn.Sequential(first, *others))
            before = width
        self.transformer = nn.Sequential(
            *(Layer(widths[-1], sizes.heads) for _ in range(sizes.layers))
        )
        self.decoder = nn.ModuleList(
            Convolution((below + skip, skip)) for below, skip in _steps_up(widths)
        )
        self.head = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 3, height, width), both multiples of 16, to (batch, 1, height, width)."""
        skips = []
        for level in self.encoder:
            x = level(x)
            skips.append(x)
        batch, channels, height, width = x.shape
        tokens = self.transformer(x.flatten(2).transpose(1, 2))
        x = tokens.transpose(1, 2).reshape(batch, channels, height, width)
        for level, skip in zip(self.decoder, reversed(skips[:-1]), strict=True):
            x = functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
            x = level(torch.cat([x, skip], dim=1))
        return self.head(x)


def _steps_up(widths: Sequence[int]) -> list[tuple[int, int]]:
    """Channels from below and of the skip connection, for each level of the decoder."""
    return list(zip(reversed(widths[1:]), reversed(widths[:-1]), strict=True))


def made(sizes: Sizes) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The network with seeded weights and statistics, and a seeded picture."""
    torch.manual_seed(SEED)
    module = SqueezeSam(sizes).eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-0.1, 0.3)
            part.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(part.weight, 0.8, 1.2)
            nn.init.uniform_(part.bias, -0.1, 0.1)
    return module, (torch.randn(1, 3, sizes.image, sizes.image),)


def model() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The whole network at 512 × 512."""
    return made(Sizes())


def small() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The same in little, at 64 × 64."""
    return made(
        Sizes(
            channels=(8, 12, 20, 24, 32),
            convolutions=(1, 1, 1, 1, 2),
            layers=1,
            heads=2,
            image=64,
        )
    )
