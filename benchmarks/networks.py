"""Small PyTorch networks of common kinds, with seeded weights, as `straightway fix` takes them."""

import torch
from torch import Tensor, nn
from torch.nn import functional

SEED = 0
Made = tuple[nn.Module, tuple[Tensor, ...]]


def _made(module: nn.Module, *inputs: Tensor) -> Made:
    """Batch norms get statistics of their own, so that they do something."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.uniform_(-0.1, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    return module.eval(), inputs


def _convolution(channels: tuple[int, int], size: int = 3, **options: int) -> list[nn.Module]:
    return [
        nn.Conv2d(*channels, size, padding=size // 2, bias=False, **options),
        nn.BatchNorm2d(channels[1]),
    ]


class Excitation(nn.Module):
    """Squeeze and excitation: each channel weighed by what all of the image holds."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape."""
        y = functional.relu(self.reduce(functional.adaptive_avg_pool2d(x, 1)))
        return x * functional.hardsigmoid(self.expand(y))


class Inverted(nn.Module):
    """MobileNetV3's block."""

    def __init__(self, channels: int, wide: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution((channels, wide), 1),
            nn.Hardswish(),
            *_convolution((wide, wide), 5, groups=wide),
            nn.Hardswish(),
            Excitation(wide),
            *_convolution((wide, channels), 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape."""
        return x + self.body(x)


class MobileNet(nn.Module):
    """Of the kind of MobileNetV3."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_convolution((3, 16), stride=2), nn.Hardswish())
        self.blocks = nn.Sequential(Inverted(16, 64), Inverted(16, 72), Inverted(16, 96))
        self.classify = nn.Linear(16, 100)

    def forward(self, x: Tensor) -> Tensor:
        """Classes of pictures."""
        return self.classify(self.blocks(self.stem(x)).mean((2, 3)))


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_convolution((channels, channels)), nn.ReLU(), *_convolution((channels, channels))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape."""
        return functional.relu(x + self.body(x))


class ResNet(nn.Module):
    """Of the kind of ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_convolution((3, 32), 7, stride=2), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Residual(32), Residual(32))
        self.classify = nn.Linear(32, 100)

    def forward(self, x: Tensor) -> Tensor:
        """Classes of pictures."""
        y = functional.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1)
        return self.classify(y.flatten(1))


class VisionTransformer(nn.Module):
    """Patches, a class token, places, and two layers."""

    def __init__(self, size: int = 192) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 16, stride=16)
        self.first = nn.Parameter(torch.randn(1, 1, size))
        self.places = nn.Parameter(torch.randn(1, 197, size) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                size, 3, 4 * size, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(size)
        self.classify = nn.Linear(size, 100)

    def forward(self, x: Tensor) -> Tensor:
        """Classes of pictures."""
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(x.shape[0], -1, -1), tokens], 1) + self.places
        for layer in self.layers:
            tokens = layer(tokens)
        return self.classify(self.norm(tokens)[:, 0])


class Split(nn.Module):
    """YOLO's C2f: half of the channels go through bottlenecks, all are kept."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.half = after // 2
        self.inward = nn.Sequential(*_convolution((before, after), 1), nn.SiLU())
        self.body = nn.Sequential(*_convolution((self.half, self.half)), nn.SiLU())
        self.outward = nn.Sequential(*_convolution((3 * self.half, after), 1), nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        """Keep height and width."""
        a, b = self.inward(x).chunk(2, 1)
        return self.outward(torch.cat([a, b, self.body(b)], 1))


class YoloNeck(nn.Module):
    """Three levels of a detector: upwards, then a head for each."""

    def __init__(self) -> None:
        super().__init__()
        self.upper = Split(96 + 64, 64)
        self.lower = Split(64 + 32, 32)
        self.heads = nn.ModuleList(nn.Conv2d(width, 24, 1) for width in (32, 64, 96))

    def forward(self, fine: Tensor, middle: Tensor, coarse: Tensor) -> tuple[Tensor, ...]:
        """Images of 32, 64 and 96 channels, each half as large as the one before."""
        upper = self.upper(torch.cat([functional.interpolate(coarse, scale_factor=2.0), middle], 1))
        lower = self.lower(torch.cat([functional.interpolate(upper, scale_factor=2.0), fine], 1))
        levels = (lower, upper, coarse)
        return tuple(head(level) for head, level in zip(self.heads, levels, strict=True))


class Audio(nn.Module):
    """Convolutions over time."""

    def __init__(self) -> None:
        super().__init__()
        sizes = ((40, 96), (96, 96), (96, 128))
        self.layers = nn.ModuleList(nn.Conv1d(a, b, 5, padding=2) for a, b in sizes)
        self.classify = nn.Linear(128, 12)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 40, time) to classes."""
        for layer in self.layers:
            x = functional.relu(layer(x))
        return self.classify(x.mean(-1))


class Recurrent(nn.Module):
    """An LSTM or GRU over a short sequence."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.cell = kind(32, 64, batch_first=True)
        self.classify = nn.Linear(64, 12)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, time, 32) to classes."""
        states, _ = self.cell(x)
        return self.classify(states[:, -1])


class DecoderLayer(nn.Module):
    """Of Gemma's kind: grouped queries, rotary places, RMS norms, a gated perceptron."""

    def __init__(self, size: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.width = heads, groups, size // heads
        self.before, self.after = nn.RMSNorm(size), nn.RMSNorm(size)
        self.query = nn.Linear(size, size, bias=False)
        self.key = nn.Linear(size, groups * self.width, bias=False)
        self.value = nn.Linear(size, groups * self.width, bias=False)
        self.out = nn.Linear(size, size, bias=False)
        self.gate = nn.Linear(size, 4 * size, bias=False)
        self.up = nn.Linear(size, 4 * size, bias=False)
        self.down = nn.Linear(4 * size, size, bias=False)

    def forward(
        self, x: Tensor, turns: tuple[Tensor, Tensor], past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """New tokens; the layer's keys and values, those of the past first."""
        y = self.before(x)
        query = _rotated(self._apart(self.query(y), self.heads), turns)
        key = _rotated(self._apart(self.key(y), self.groups), turns)
        value = self._apart(self.value(y), self.groups)
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=past is None, enable_gqa=True
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
        y = self.after(x)
        gate = functional.gelu(self.gate(y), approximate="tanh")
        return x + self.down(gate * self.up(y)), key, value

    def _apart(self, x: Tensor, heads: int) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], heads, self.width).transpose(1, 2)


def _rotated(x: Tensor, turns: tuple[Tensor, Tensor]) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * turns[0] + torch.cat([-b, a], -1) * turns[1]


class Decoder(nn.Module):
    """Of Gemma's kind: tokens to the scores of the next one."""

    def __init__(self, first: int, steps: int, size: int = 256, words: int = 512) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.layers = nn.ModuleList(DecoderLayer(size, 4, 1) for _ in range(2))
        self.norm = nn.RMSNorm(size)
        self.scores = nn.Linear(size, words, bias=False)
        width = size // 4
        rate = 1.0 / 10000 ** (torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(first, first + steps), rate).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """Scores of the last token, then keys and values of each layer."""
        x = self.embed(tokens) * 16.0
        kept = []
        for index, layer in enumerate(self.layers):
            before = (past[2 * index], past[2 * index + 1]) if past else None
            x, key, value = layer(x, (self.cos, self.sin), before)
            kept += [key, value]
        return (self.scores(self.norm(x)[:, -1]), *kept)


def mobilenet() -> Made:
    """MobileNetV3's blocks."""
    torch.manual_seed(SEED)
    return _made(MobileNet(), torch.randn(1, 3, 160, 160))


def resnet() -> Made:
    """ResNet's blocks."""
    torch.manual_seed(SEED)
    return _made(ResNet(), torch.randn(1, 3, 128, 128))


def vit() -> Made:
    """A vision transformer of torch's own layers."""
    torch.manual_seed(SEED)
    return _made(VisionTransformer(), torch.randn(1, 3, 224, 224))


def yolo_neck() -> Made:
    """The neck and heads of a detector."""
    torch.manual_seed(SEED)
    inputs = [torch.randn(1, c, s, s) for c, s in ((32, 80), (64, 40), (96, 20))]
    return _made(YoloNeck(), *inputs)


def audio() -> Made:
    """Convolutions over time."""
    torch.manual_seed(SEED)
    return _made(Audio(), torch.randn(1, 40, 200))


def lstm() -> Made:
    """An LSTM over 12 steps."""
    torch.manual_seed(SEED)
    return _made(Recurrent(nn.LSTM), torch.randn(1, 12, 32))


def gru() -> Made:
    """A GRU over 12 steps."""
    torch.manual_seed(SEED)
    return _made(Recurrent(nn.GRU), torch.randn(1, 12, 32))


def prefill() -> Made:
    """A decoder reading 64 tokens."""
    torch.manual_seed(SEED)
    return _made(Decoder(0, 64), torch.randint(0, 512, (1, 64)))


def decode() -> Made:
    """A decoder writing its 65th token."""
    torch.manual_seed(SEED)
    past = [torch.randn(1, 1, 64, 64) for _ in range(4)]
    return _made(Decoder(64, 1), torch.randint(0, 512, (1, 1)), *past)
