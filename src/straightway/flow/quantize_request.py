"""What is asked of `quantize`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from straightway.errors import InvalidRequest
from straightway.flow.calibration import Pictures
from straightway.flow.progress import Step, quiet
from straightway.flow.tuning import AUTO
from straightway.quant.ranges import PERCENTILE
from straightway.quant.scheme import INT8
from straightway.targets import known
from straightway.targets.target import Target

Advance = Callable[[int, int], None]


def nowhere(_done: int, _total: int) -> None:
    """Show nobody how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeRequest:
    """What the user asks of a quantization.

    `calibration`: a folder, an .npz file, "module:function" or a function; without it `random` inputs
    are made up. `method`: how the range follows from what was seen; "auto" tries three on samples held
    out. `fit`: weights are rounded, and biases corrected, by what was seen, where that is better.
    `keep_float`: nodes that stay in floats; `int16`: nodes whose activations are int16. `per_channel`: a scale for each channel of weights, else one for all.
    `equalize`: channels of unlike ranges are scaled first; by default where the outputs gain by it. `max_loss`: the greatest error of an output
    of floats over the output, each its root mean square; what must stay in floats, or be int16 where engines are fast at that, is found.
    `resume`: a file in which what was observed is kept, and from which a later run goes on.
    `sensitivity`: on so many samples the error of each rounding alone is measured. `target` is a name of
    `targets.known` and narrows all this; `activations` are "int8" or "int16", by default the target's own. `advance` is told how
    many samples of how many were seen.
    """

    calibration: "str | Path | Callable[[], Iterable[object]] | None" = None
    random: int = 0
    pictures: Pictures | None = None
    method: str = AUTO
    fit: bool = True
    percentile: float = PERCENTILE
    per_channel: bool = True
    equalize: bool | None = None
    max_loss: float | None = None
    sensitivity: int = 0
    resume: "str | Path | None" = None
    target: str = known.DEFAULT
    activations: str = ""
    keep_float: Sequence[str] = ()
    int16: Sequence[str] = ()
    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    step: Step = quiet
    advance: Advance = nowhere

    def __post_init__(self) -> None:
        """Check what can be checked without the model."""
        if self.sensitivity < 0:
            raise InvalidRequest(f"--sensitivity takes samples from 0 on; got {self.sensitivity}")
        if self.max_loss is not None and not self.max_loss >= 0:
            raise InvalidRequest(f"a loss is not negative; got {self.max_loss}")
        types = self.device.activations
        if self.activations and self.activations not in types:
            raise InvalidRequest(
                f"{self.device.name} computes with {' or '.join(types)}; got "
                f"activations {self.activations!r}"
            )
        if self.int16 and "int16" not in types:
            raise InvalidRequest(
                f"{self.device.name} computes with {' or '.join(types)}; got int16 for "
                f"{self.int16[0]!r}"
            )
        both = sorted(set(self.int16) & set(self.keep_float))
        if both:
            raise InvalidRequest(f"a node is int16 or in floats; got both for {both[0]!r}")

    def kept(self, part: str = "") -> Path | None:
        """The file for what was observed; another one for each part of a calibration."""
        if self.resume is None:
            return None
        path = Path(self.resume)
        return path.with_name(f"{path.stem}{part}{path.suffix}")

    @property
    def device(self) -> Target:
        """The target; raises InvalidRequest for one that there is not."""
        return known.find(self.target)

    @property
    def widens(self) -> bool:
        """Whether int16 is a choice for what loses too much: XNNPACK's delegate takes none."""
        fast = "int16" in self.device.activations and not self.device.delegate
        return fast and self.stored_as == INT8 and self.max_loss is not None

    @property
    def has_hybrids(self) -> bool:
        """Whether products among floats may round their operand: it is no rounding to be switched off."""
        return self.device.delegate and self.stored_as == INT8 and self.max_loss is None

    @property
    def lacks_hybrids(self) -> bool:
        """Whether they may not, since a greatest loss is asked for."""
        return self.device.delegate and self.stored_as == INT8 and self.max_loss is not None

    @property
    def is_respelled(self) -> bool:
        """Whether ops are said otherwise: for XNNPACK, or since int16 has fewer kernels."""
        return self.device.delegate or self.stored_as != INT8

    @property
    def stored_as(self) -> np.dtype:
        """The type of the integers between ops."""
        return np.dtype(self.activations or self.device.activations[0])


def request_of(options: Mapping[str, object]) -> QuantizeRequest:
    """Read the options of `quantize`; raises InvalidRequest for one that it does not have."""
    try:
        return QuantizeRequest(**options)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidRequest(f"quantize: {error}") from error
