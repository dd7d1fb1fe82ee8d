"""The rival: onnx2tf with its default backend, in an environment of its own."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from costs import Cost, cost

VERSION = "2.6.9"
NEEDS = (3, 12)
NAMES = ("python3.12", "python3.13", "python3")
INSTALL_TIMEOUT_S = 900


class NotMeasured(Exception):
    """The rival can't be had here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """An environment with onnx2tf in it."""

    folder: Path

    @property
    def programs(self) -> Path:
        """Where its commands are; onnxsim must be on the PATH."""
        return self.folder / "bin"


def prepare(cache: Path) -> Rival:
    """Make the environment, or use the one made before. Raises NotMeasured where it can't be had."""
    rival = Rival(folder=cache / f"onnx2tf-{VERSION}")
    if (rival.programs / "onnx2tf").exists():
        return rival
    try:
        _run([_python(), "-m", "venv", rival.folder])
        pip = [rival.programs / "python", "-m", "pip", "install", "-qq"]
        _run([*pip, "--disable-pip-version-check", f"onnx2tf=={VERSION}"])
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(rival.folder, ignore_errors=True)
        raise NotMeasured(f"onnx2tf {VERSION} can't be installed: {error}") from error
    return rival


def _run(command: Sequence[str | Path]) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_TIMEOUT_S)


def _python() -> Path:
    """An interpreter that runs and is new enough: a shim may exist that does neither."""
    found = [Path(path) for name in NAMES if (path := shutil.which(name))]
    found += sorted((Path.home() / ".pyenv" / "versions").glob("3.1[2-9].*/bin/python"))
    test = f"import sys, venv, ensurepip; sys.exit(sys.version_info < {NEEDS})"
    for python in found:
        if subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0:
            return python
    raise NotMeasured("onnx2tf needs Python 3.12 or newer; none runs here")


@dataclass(frozen=True, slots=True, kw_only=True)
class RivalFile:
    """What onnx2tf wrote (None: nothing), and what that cost."""

    path: Path | None
    cost: Cost


def convert(
    rival: Rival, model: Path, shapes: Mapping[str, Sequence[int]], folder: Path
) -> RivalFile:
    """Convert a copy: onnx2tf overwrites its input."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    copy = Path(shutil.copy(model, folder / "model.onnx"))
    command: list[str | Path] = [rival.programs / "onnx2tf", "-i", copy, "-o", folder / "out"]
    command += ["-ois", *(f"{name}:{','.join(map(str, dims))}" for name, dims in shapes.items())]
    path = f"{rival.programs}:/usr/local/bin:/usr/bin:/bin"
    spent = cost(command, environment={"PATH": path, "ORT_DISABLE_TELEMETRY": "1"})
    written = folder / "out" / "model_float32.tflite"
    return RivalFile(path=written if written.exists() else None, cost=spent)
