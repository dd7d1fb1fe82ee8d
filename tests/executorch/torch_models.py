"""Factories of small models, as `export` takes them."""

import dataclasses

import torch
from torch import nn
from torch.nn import functional


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.batch = nn.BatchNorm2d(8)
        self.norm = nn.LayerNorm(12)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Linear(12, 5)

    def forward(self, x):
        x = self.batch(torch.relu(self.first(x)))
        x = self.norm(x)
        x = self.second(x * 2 + 1)
        return self.last(x).softmax(-1)


class Attention(nn.Module):
    def __init__(self, size=16, heads=2, causal=False):
        super().__init__()
        self.packed = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        batch, steps, size = x.shape
        packed = self.packed(x).reshape(batch, steps, 3, self.heads, size // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, steps, size))


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1


class SoftmaxOfImage(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.second(self.first(x).softmax(-1))


class Parts(nn.Module):
    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        return a * b[:, 1] + x.select(1, -1).unsqueeze(1)


class Turned(nn.Module):
    """Permutes: of an image, whose batch is 1; of a batch of 1; one after another."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 1, 1)

    def forward(self, x):
        image, rows = self.first(x).transpose(2, 3).flatten(2), x.flatten(2)
        twice = rows.permute(2, 0, 1).permute(0, 2, 1)
        return image + rows.transpose(0, 1) + twice.reshape(3, 1, 30)


class Weighed(nn.Module):
    """Squeeze and excitation, and means without their dimensions."""

    def __init__(self):
        super().__init__()
        self.first, self.scale = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.last = nn.Linear(8, 4)

    def forward(self, x):
        x = self.first(x)
        x = x * functional.hardsigmoid(self.scale(x))
        return self.last(x.mean((2, 3))) + self.last(x.flatten(2).mean(-1))


class NormAfterActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.batch = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.second(self.batch(torch.relu(self.first(x))))


def _made(module, *shape):
    torch.manual_seed(0)
    return module.eval(), (torch.randn(*shape),)


def small():
    torch.manual_seed(0)
    module = Small()
    module.batch.running_mean.uniform_(-0.3, 0.3)
    module.batch.running_var.uniform_(0.5, 1.5)
    return _made(module, 1, 3, 10, 12)


def weighed():
    return _made(Weighed(), 2, 3, 6, 7)


def norm_after_activation():
    return _made(NormAfterActivation(), 1, 3, 10, 12)


def attention():
    return _made(Attention(), 2, 6, 16)


def large_product():
    return _made(nn.Linear(512, 512), 64, 512)


def causal_attention():
    return _made(Attention(causal=True), 1, 6, 16)


def branch():
    return _made(Branch(), 2, 3)


def softmax_of_image():
    return _made(SoftmaxOfImage(), 1, 3, 5, 6)


def parts():
    return _made(Parts(), 2, 4, 5, 6)


def turned():
    return _made(Turned(), 1, 3, 5, 6)


def open_batch():
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    batch = torch.export.Dim("batch", min=1, max=16)
    return module, (torch.randn(4, 8),), ({0: batch},)


class Series(nn.Module):
    """Has a size of its own among the model's numbers."""

    def forward(self, x):
        return (x.reshape(x.shape[0], -1) * x.shape[0]).sum(1)


def open_size():
    batch = torch.export.Dim("batch", min=1, max=16)
    return Series().eval(), (torch.randn(4, 2, 8),), ({0: batch},)


def open_steps():
    steps = torch.export.Dim("steps", min=2, max=80)
    return nn.GRU(3, 3, batch_first=True).eval(), (torch.randn(1, 6, 3),), ({1: steps},)


def nothing():
    return 3


def open_attention():
    batch = torch.export.Dim("batch", min=1, max=16)
    return *_made(Attention(), 2, 6, 16), ({0: batch},)


class Stream(nn.Module):
    """What it heard before is in a buffer, which does not begin with zeros."""

    def __init__(self):
        super().__init__()
        self.register_buffer("past", torch.full((1, 4, 3), 0.5))
        self.last = nn.Conv1d(4, 2, 3)

    def forward(self, x):
        heard = torch.cat([self.past[:, :, 1:], x], 2)
        self.past.copy_(heard)
        return self.last(heard)


def stream():
    return _made(Stream(), 1, 4, 1)


class Decomposed(nn.Module):
    def forward(self, x):
        return torch.linalg.svd(x)[1]


def without_kernel():
    return _made(Decomposed(), 4, 4)


class Folded(nn.Module):
    """What torch.onnx keeps otherwise: norms folded into their convolutions, chunks without a line."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.last = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU())

    def forward(self, x):
        x = self.conv(x)
        x = self.norm(x)
        first, second = x.chunk(2, 1)
        return self.last(self.last(first)), second.sigmoid()


def folded():
    return _made(Folded(), 1, 3, 24, 24)


def long_norm():
    """A layer norm whose rows take more than 16 vectors of half floats."""
    torch.manual_seed(0)
    return nn.LayerNorm(384).eval(), (torch.randn(1, 6, 384),)


class Prelus(nn.Module):
    """Of an image, of rows, of sequences, with a slope for all and one a channel."""

    def __init__(self):
        super().__init__()
        self.image, self.of_image = nn.Conv2d(3, 4, 3), nn.PReLU(4)
        self.rows, self.of_rows, self.of_all = nn.Linear(16, 8), nn.PReLU(8), nn.PReLU()
        self.of_steps = nn.PReLU(4)

    def forward(self, x):
        x = self.of_image(self.image(x))
        steps = self.of_steps(x.flatten(2))
        return self.of_rows(self.rows(steps.flatten(0, 1))) + self.of_all(steps.mean())


def prelus():
    torch.manual_seed(0)
    net = Prelus().eval()
    for one in (net.of_image, net.of_rows, net.of_steps):
        nn.init.uniform_(one.weight, -0.5, 0.9)
    return net, (torch.randn(2, 3, 6, 6),)


class CalledTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x):
        return self.layer(self.layer(x))


def called_twice():
    return _made(CalledTwice(), 1, 3, 8, 8)


class Greatest(nn.Module):
    def forward(self, x):
        return x.max(3)[0] + x.amax(-1)


def greatest():
    return _made(Greatest(), 1, 2, 3, 4)


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: torch.Tensor


class Odd(nn.Module):
    """Takes and returns what is no tensor, and writes to an input."""

    def forward(self, pair, table, scale, mask=None, *rest):
        table["a"].add_(1)
        total = pair.left * scale + table["a"] + rest[0]
        return Pair(total, pair.right), torch.topk(total, 2, 0 if mask is None else 1)


def odd():
    batch = {0: torch.export.Dim("batch", min=2, max=16)}
    inputs = (
        Pair(torch.randn(3, 4), torch.randn(3, 4)),
        {"a": torch.randn(3, 4)},
        2.5,
        None,
        torch.randn(3, 4),
    )
    shapes = ({"left": batch, "right": batch}, {"a": batch}, None, None, batch)
    return Odd().eval(), inputs, shapes


class Refused(nn.Module):
    """Each way is one that ExecuTorch has no numbers for."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def forward(self, x):
        return {
            "nonzero": lambda: torch.nonzero(x > 0),
            "unique": lambda: torch.unique(x),
            "float8": lambda: x.to(torch.float8_e4m3fn).to(torch.float32),
            "fft": lambda: torch.fft.fft(x),
            "random": lambda: x + torch.rand(4),
            "nothing": lambda: None,
        }[self.way]()


class OpenMoves(nn.Module):
    """Squeeze and excitation by views and expand_as, a packed projection, a focus: of an open batch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(6, 8, 3), nn.Conv2d(8, 6, 1)
        self.gate, self.packed = nn.Linear(8, 8), nn.Linear(6, 12)

    def forward(self, x):
        x = self.first(torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2]], 1))
        batch, channels = x.shape[:2]
        gate = self.gate(x.mean((2, 3)).view(batch, channels)).view(batch, channels, 1, 1)
        x = self.second(x * gate.expand_as(x)).flatten(2).transpose(1, 2)
        left, right = self.packed(x).reshape(batch, -1, 2, 6).permute(2, 0, 1, 3).unbind(0)
        return left * right


def open_moves():
    batch = torch.export.Dim("batch", min=1, max=9)
    return *_made(OpenMoves(), 3, 3, 12, 12), ({0: batch},)


def in_a_row():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.ReLU(),
        nn.BatchNorm2d(4),
    ).eval(), (torch.randn(1, 3, 8, 8),)
