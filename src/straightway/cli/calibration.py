"""The options that say on what a model is observed, and how its ranges follow."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from straightway.cli.app import parse_dims, parse_shapes, progress_console
from straightway.errors import InvalidRequest

if TYPE_CHECKING:
    from straightway.flow.calibration import Pictures
    from straightway.flow.quantize_request import QuantizeRequest

Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        "--data",
        metavar="DATA",
        help="Typical inputs: a folder of .npy, .npz or pictures, an .npz, MODULE:FUNCTION or FILE.py:FUNCTION.",
    ),
]
Random = Annotated[
    int, typer.Option("--random", metavar="N", help="Without data: N made-up inputs, for a trial.")
]
Method = Annotated[
    str,
    typer.Option(help="How ranges follow from the data: auto, minmax, percentile, mse, entropy."),
]
Percentile = Annotated[float, typer.Option(help="The share that --method percentile covers.")]
Mean = Annotated[str | None, typer.Option(metavar="M[,M,M]", help="Of pictures from 0 to 1.")]
Std = Annotated[str | None, typer.Option(metavar="S[,S,S]", help="Of pictures from 0 to 1.")]
Channels = Annotated[str, typer.Option(help="Order of pictures' channels: rgb, bgr, gray.")]
Activations = Annotated[
    str, typer.Option(help="Integers between operators: int8, int16; the target's own unless told.")
]
Size = Annotated[
    str | None, typer.Option(metavar="HxW", help="Of pictures, where the model leaves it open.")
]
PictureLayout = Annotated[
    str, typer.Option("--layout", help="Of pictures, where the shape leaves it open: nchw, nhwc.")
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.npz",
        help="Keep what was observed here; where it exists, go on from it.",
    ),
]
Floats = Annotated[
    list[str] | None, typer.Option("--float", metavar="NODE", help="Keep a node in floats.")
]
Int16 = Annotated[
    list[str] | None,
    typer.Option("--int16", metavar="NODE", help="Give a node int16 activations, int8 weights."),
]
MaxLoss = Annotated[
    str | None,
    typer.Option(
        metavar="LOSS",
        help="Greatest error of an output, its root mean square over the output's: 3% or 30dB. What "
        "loses too much stays in floats, or is int16 where engines are fast at that.",
    ),
]
Sensitivity = Annotated[
    int,
    typer.Option(
        metavar="N",
        help="Measure on N samples which share of the end error each node causes. A run for each node.",
    ),
]
PerTensor = Annotated[
    bool, typer.Option("--per-tensor", help="One scale for all weights of a node, not by channel.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What a model is observed on."""

    calibration: Calibration = None
    random: Random = 0
    mean: Mean = None
    std: Std = None
    channels: Channels = "rgb"

    def pictures(self, size: str | None = None, layout: str = "") -> "Pictures | None":
        """How pictures become inputs; None where nothing is declared. Raises InvalidRequest."""
        from straightway.flow.calibration import Pictures  # noqa: PLC0415 - after --help

        if self.mean is None and self.std is None:
            return None
        return Pictures(
            mean=_numbers("--mean", self.mean or "0"),
            std=_numbers("--std", self.std or "1"),
            channels=self.channels.lower(),
            size=_size(size),
            layout=layout.lower(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantizing(Data):
    """All that a quantization is asked for with."""

    size: Size = None
    layout: PictureLayout = ""
    method: Method = "auto"
    percentile: Percentile = 99.99
    keep_float: Floats = None
    int16: Int16 = None
    max_loss: MaxLoss = None
    sensitivity: Sensitivity = 0
    per_tensor: PerTensor = False
    activations: Activations = ""
    resume: Resume = None

    def request(
        self, dim: list[str] | None, shape: list[str] | None, **more: Any
    ) -> "QuantizeRequest":
        """What these options ask for; raises InvalidRequest."""
        from straightway.flow.quantize_request import QuantizeRequest  # noqa: PLC0415 - after --help

        return QuantizeRequest(
            calibration=self.calibration,
            random=self.random,
            dims=parse_dims(dim),
            shapes=parse_shapes(shape),
            pictures=self.pictures(self.size, self.layout),
            method=self.method.lower(),
            percentile=self.percentile,
            keep_float=tuple(self.keep_float or ()),
            int16=tuple(self.int16 or ()),
            per_channel=not self.per_tensor,
            max_loss=_loss(self.max_loss),
            sensitivity=self.sensitivity,
            activations=self.activations.lower(),
            resume=self.resume,
            **more,
        )


def _loss(text: str | None) -> float | None:
    """Read 3% or 30dB; raises InvalidRequest."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*([0-9.]+)\s*(%|dB)?\s*", text, re.IGNORECASE)
    try:
        number = float(found[1]) if found else math.nan
    except ValueError:
        number = math.nan
    if found is None or math.isnan(number):
        raise InvalidRequest(
            f"--max-loss takes a share of the output such as 3%, or a distance such as 30dB; got '{text}'"
        )
    return number / 100 if (found[2] or "%") == "%" else float(10 ** (-number / 20))


def _size(text: str | None) -> tuple[int, int] | None:
    """Read HEIGHTxWIDTH; raises InvalidRequest."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) for part in parts):
        raise InvalidRequest(f"--size takes HEIGHTxWIDTH such as 224x224; got '{text}'")
    return int(parts[0]), int(parts[1])


def _numbers(option: str, text: str) -> tuple[float, ...]:
    """Read one number or several; raises InvalidRequest."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise InvalidRequest(
            f"{option} takes numbers such as 0.485,0.456,0.406; got '{text}'"
        ) from error


@dataclass(slots=True, kw_only=True)
class Counted:
    """Tells steps as text, with how far each is."""

    tell: Callable[[str], None]
    current: str = ""

    def step(self, text: str) -> None:
        """Begin a step."""
        self.current = text
        self.tell(text)

    def advance(self, done: int, total: int) -> None:
        """Say how many of how many are done."""
        self.tell(f"{self.current}, {done}" + f" of {total}" * bool(total))


@contextmanager
def bar(what: str) -> Iterator[tuple[Any, Any]]:
    """A bar on stderr; gives what is to be told steps, and how many samples of how many are done."""
    console = progress_console()
    if not console.is_terminal:
        yield (lambda _: None), (lambda _done, _total: None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as shown:
        task = shown.add_task(what, total=None)

        def step(text: str) -> None:
            shown.update(task, description=f"{what}: {text}")

        def advance(done: int, total: int) -> None:
            shown.update(task, completed=done, total=total or None)

        yield step, advance
