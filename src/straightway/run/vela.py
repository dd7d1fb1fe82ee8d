"""Arm's compiler for Ethos-U, Vela: what of a .tflite file its NPU takes, and what it expects of it.

Vela runs as a command, since its Python interface is no public one; it writes tables, which are read
by the names of their columns (tested with 5.2).
"""

import csv
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from straightway.errors import InvalidRequest, ToolFailed

TIMEOUT_S = 600
INSTALL = "Vela is not installed: pip install 'straightway[npu]'"
# Of each family the system and the memories that Vela's own vela.ini describes (config_files/Arm).
SYSTEMS = {
    "ethos-u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "ethos-u65": ("Ethos_U65_High_End", "Dedicated_Sram"),
    "ethos-u85": ("Ethos_U85_SYS_DRAM_Mid", "Dedicated_Sram_384KB"),
}
ACCELERATORS = (
    *(f"ethos-u55-{macs}" for macs in (32, 64, 128, 256)),
    *(f"ethos-u65-{macs}" for macs in (256, 512)),
    *(f"ethos-u85-{macs}" for macs in (128, 256, 512, 1024, 2048)),
)
_REFUSED = re.compile(
    r"Warning \(supported operators\) operator: (?P<op>\w+), ofm: '(?P<name>.*)'\s+"
    r"(?:Reason: )?(?P<reason>.*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One operator: where it runs, and the cycles and multiplications that Vela expects of it.

    Vela counts no cycles for what the CPU does.
    """

    op: str
    name: str
    on_npu: bool
    cycles: float
    macs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An operator that the NPU does not take, and Vela's reason."""

    op: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """What Vela makes of a file; times are its estimate for the NPU, without what the CPU does."""

    accelerator: str
    layers: tuple[Layer, ...]
    refused: tuple[Refused, ...]
    cycles: float
    time_s: float
    sram_bytes: float
    flash_bytes: float
    macs: int

    @property
    def whole(self) -> bool:
        """Whether nothing is left to the CPU."""
        return all(layer.on_npu for layer in self.layers)


def compile_for(path: Path, accelerator: str = "ethos-u55-128") -> Compiled:
    """Compile a file for one of `ACCELERATORS`; the result of the compilation is not kept.

    Raises ToolFailed where Vela is missing or fails, InvalidRequest for an unknown accelerator.
    """
    if accelerator not in ACCELERATORS:
        raise InvalidRequest(f"accelerators are {', '.join(ACCELERATORS)}; got {accelerator!r}")
    if importlib.util.find_spec("ethosu") is None:
        raise ToolFailed(INSTALL)
    system, memory = SYSTEMS[accelerator.rpartition("-")[0]]
    with tempfile.TemporaryDirectory(prefix="straightway-") as folder:
        arguments = [
            *("--accelerator-config", accelerator, "--config", "Arm/vela.ini"),
            *("--system-config", system, "--memory-mode", memory),
            *("--output-dir", folder, "--verbose-performance", "--show-cpu-operations"),
        ]
        text = _vela(path, arguments)
        layers = tuple(_layers(Path(folder)))
        (summary,) = _table(Path(folder), "*_summary_*.csv")
    return Compiled(
        accelerator=accelerator,
        layers=layers,
        refused=tuple(Refused(**found.groupdict()) for found in _REFUSED.finditer(text)),
        cycles=float(summary["cycles_total"]),
        time_s=float(summary["inference_time"]),
        sram_bytes=1024 * float(summary["sram_memory_used"]),
        flash_bytes=1024
        * (
            float(summary["off_chip_flash_memory_used"])
            + float(summary["on_chip_flash_memory_used"])
        ),
        macs=int(float(summary["nn_macs"])),
    )


def _vela(path: Path, arguments: list[str]) -> str:
    """Run Vela; return what it prints."""
    command = [sys.executable, "-P", "-m", "ethosu.vela", str(path), *arguments]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolFailed(f"Vela did not end within {TIMEOUT_S} s on {path.name}") from error
    text = ran.stdout + ran.stderr
    if ran.returncode:
        last = "\n".join(text.strip().splitlines()[-8:])
        raise ToolFailed(f"Vela can't compile {path.name} (exit code {ran.returncode}):\n{last}")
    return text


def _table(folder: Path, pattern: str) -> list[dict[str, str]]:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise ToolFailed(f"Vela wrote {len(files)} files {pattern}; one is expected of version 5.2")
    with files[0].open(newline="") as file:
        return list(csv.DictReader(file))


def _layers(folder: Path) -> Iterator[Layer]:
    """Rows of the table; what was fused into another has a row without cycles."""
    for row in _table(folder, "*_per-layer.csv"):
        yield Layer(
            op=row["Original Operator"],
            name=row["Name"],
            on_npu=row["Target"] == "NPU",
            cycles=float(row["Op Cycles"]),
            macs=int(float(row["MAC Count"])),
        )
