"""One model for each kind of overhead, and its counterexample; all in one program, exported once."""

import torch
from torch import nn
from torch.nn import functional


def conv(channels=8, to=8):
    return nn.Conv2d(channels, to, 3, padding=1)


class Sandwich(nn.Module):
    """An operation between two convolutions."""

    def __init__(self, inner, to=8):
        super().__init__()
        self.before, self.inner, self.after = conv(), inner, conv(to)

    def forward(self, x):
        return self.after(self.inner(self.before(x)))


class Function(nn.Module):
    """A function as a module, on a line of its own."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


class Attention(nn.Module):
    def forward(self, x):
        x = x.flatten(2)
        return functional.scaled_dot_product_attention(x, x, x)


class Plain(nn.Module):
    """Attention by hand."""

    def forward(self, x):
        x = x.flatten(2)
        return (x @ x.transpose(1, 2)).softmax(-1) @ x


class Sides(nn.Module):
    """Skip connections across a cut."""

    def __init__(self, inner):
        super().__init__()
        self.before, self.inner, self.after = conv(), inner, conv()

    def forward(self, x):
        x = self.before(x)
        return self.after(x + self.inner(x))


class Product(nn.Module):
    def forward(self, x):
        x = x.flatten(1)
        return torch.mm(x, x.t())


class Folds(nn.Module):
    """What never changes, computed in each run."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(8.0).reshape(1, 8, 1, 1))

    def forward(self, x):
        return x * torch.where(self.table > 2, self.table.exp(), self.table)


class Returns(Folds):
    """A result that never changes."""

    def forward(self, x):
        return x + 1, self.table.exp()


class Cells(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cells = kind(16, 8, batch_first=True)

    def forward(self, x):
        return self.cells(x.flatten(2)[:, :3, :16])[0]


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(16)

    def forward(self, x):
        return self.norm(x)


class Joined(nn.Module):
    """Two branches of different ranges in one."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = conv(), conv(), conv(16)

    def forward(self, x):
        return self.last(torch.cat([self.first(x) * 8, self.second(x).sigmoid()], 1))


class Audio(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv1d(8, 8, 3), nn.Conv1d(8, 8, 3)

    def forward(self, x):
        return self.second(self.first(x.flatten(2)))


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 4)

    def forward(self, x):
        return self.table(x.argmax(1))


class Between(nn.Module):
    """An operation between a convolution and a norm."""

    def __init__(self, first, second):
        super().__init__()
        self.conv, self.first, self.second = conv(), first, second

    def forward(self, x):
        return self.second(self.first(self.conv(x)))


def blocks():
    return {
        "batch_norm": Between(nn.ReLU(), nn.BatchNorm2d(8)),
        "batch_norm_first": Between(nn.BatchNorm2d(8), nn.ReLU()),
        "layer_norm": Sandwich(nn.LayerNorm(16)),
        "group_norm": Sandwich(nn.GroupNorm(2, 8)),
        "instance_norm": Sandwich(nn.InstanceNorm2d(8)),
        "rms_norm": RmsNorm(),
        "attention": Attention(),
        "plain_attention": Plain(),
        "sides": Sides(nn.GroupNorm(2, 8)),
        "scalar": Sandwich(Function(lambda x: x * 2 + 1)),
        "mean": Function(lambda x: x.mean((2, 3))),
        "mean_kept": Sandwich(Function(lambda x: x * x.mean((2, 3), keepdim=True))),
        "nearest": Sandwich(nn.Upsample(scale_factor=2)),
        "bilinear": Sandwich(nn.Upsample(scale_factor=2, mode="bilinear")),
        "bicubic": Sandwich(nn.Upsample(scale_factor=2, mode="bicubic")),
        "split": Sandwich(Function(lambda x: sum(x.chunk(2, 1)).repeat(1, 2, 1, 1))),
        "strided": Sandwich(Function(lambda x: x[:, :, ::2, ::2])),
        "expand": Sandwich(Function(lambda x: x[:, :1].expand(-1, 8, -1, -1))),
        "where": Sandwich(Function(lambda x: torch.where(x > 0.5, x, x.abs()))),
        "softmax_channels": Sandwich(nn.Softmax(1)),
        "softmax_last": Function(lambda x: x.flatten(1).softmax(-1)),
        "elu": Sandwich(nn.ELU()),
        "mish": Sandwich(nn.Mish()),
        "softplus": Sandwich(nn.Softplus()),
        "silu": Sandwich(nn.SiLU()),
        "audio": Audio(),
        "lstm": Cells(nn.LSTM),
        "gru": Cells(nn.GRU),
        "product": Product(),
        "table": Table(),
        "casts": Sandwich(Function(lambda x: x.to(torch.float64).to(torch.float32))),
        "last": Sandwich(Function(lambda x: x.to(memory_format=torch.channels_last))),
        "folds": Folds(),
        "returns": Returns(),
        "shuffle": Sandwich(nn.PixelShuffle(2), to=2),
        "gelu": Sandwich(nn.GELU()),
        "reflection": Sandwich(nn.ReflectionPad2d(1)),
        "cumulated": Sandwich(Function(lambda x: x.cumsum(2))),
        "squeezed": Function(lambda x: x.exp().squeeze(0).exp()),
        "joined": Joined(),
    }


class Gallery(nn.Module):
    def __init__(self, names=()):
        super().__init__()
        self.blocks = nn.ModuleDict({k: v for k, v in blocks().items() if not names or k in names})

    def forward(self, *inputs):
        return tuple(b(x) for b, x in zip(self.blocks.values(), inputs, strict=True))


def gallery(names=()):
    torch.manual_seed(0)
    module = Gallery(names)
    return module.eval(), tuple(torch.randn(1, 8, 10, 16) for _ in module.blocks)


def small():
    return gallery(("layer_norm", "scalar"))
