"""What is asked of an export, checked before torch is imported, which takes seconds."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from straightway.errors import InvalidRequest
from straightway.executorch.given import PRECISIONS, Precision
from straightway.flow import files
from straightway.flow.calibration import Pictures, check_data
from straightway.flow.progress import Step, quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What is asked of an export.

    `fixes` applies all rewrites, `channels_last` the one that has images given so; `without` leaves out configurations of XNNPACK's partitioner;
    `etrecord` is where to write what ExecuTorch's own tools tell the program's lines by. `calibration` is data as `quantize` takes it, `random` a number of made-up samples instead.
    """

    precision: Precision = "fp32"
    calibration: "str | Path | Callable[[], Any] | None" = None
    random: int = 0
    pictures: Pictures | None = None
    fixes: bool = False
    channels_last: bool = False
    without: tuple[str, ...] = ()
    etrecord: Path | None = None
    verify: bool = True
    step: Step = quiet


def check(asked: ExportRequest, path: Path | None = None) -> None:
    """Refuse what contradicts itself, or an output that can't be; raises InvalidRequest."""
    if path is not None:
        files.check_output(path)
        if asked.etrecord is not None:
            files.check_output(asked.etrecord, path)
        if path.suffix != ".pte":
            raise InvalidRequest(f"{path}: an ExecuTorch program is a .pte file")
    if asked.precision not in PRECISIONS:
        raise InvalidRequest(f"precisions are {', '.join(PRECISIONS)}; got '{asked.precision}'")
    if asked.precision == "int8":
        check_data(asked.calibration, random=asked.random)
    elif asked.calibration is not None or asked.random:
        raise InvalidRequest(f"calibration data is for --int8; {asked.precision} needs none")
