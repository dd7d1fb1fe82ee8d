"""What a device asks of a file: its scheme of integers, its spellings, its inputs and outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from straightway.targets.engine import Engine
from straightway.tflite.rows import ROWS

Activations = Literal["int8", "int16"]
InputOutputType = Literal["float", "integer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A figure of the device, and where it is from."""

    amount: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One device, or one engine on it.

    `activations`: types of values that it computes with, the usual one first. `single_scale`: TFLite
    ops whose weights have one scale for all channels there; `per_channel` is False where all do.
    `delegate`: files are spelled for XNNPACK's delegate; else each op is the one that says it most
    directly. `io_type`: what inputs and outputs are: floats, or the integers that are stored.
    `engine`: the kernels on its CPU, where those are not all of TFLite's. `accelerated`: scaled integers
    are an NPU's. `accelerator`: its name for the tool that compiles for it. `sources` say where all this is from.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    activations: tuple[Activations, ...] = ("int8",)
    per_channel: bool = True
    single_scale: frozenset[str] = frozenset()
    delegate: bool = False
    io_type: InputOutputType = "integer"
    engine: Engine | None = None
    accelerated: bool = False
    accelerator: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)

    @property
    def lacks(self) -> frozenset[str]:
        """TFLite ops that its CPU has no kernel of."""
        return frozenset(() if self.engine is None else ROWS.keys() - self.engine.kernels.keys())

    @property
    def weights(self) -> str:
        """How weights are scaled, in a phrase."""
        if not self.per_channel:
            return "per tensor"
        if self.single_scale:
            return f"per channel; {', '.join(sorted(self.single_scale))} per tensor"
        return "per channel"
