"""The TOSA reference model, in an environment of its own: what it needs does not fit beside onnx."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

PACKAGES = ("tosa-converter-for-tflite==2026.2.0", "tosa-tools==2026.8.0")
TIMEOUT_S = 900
# run there: reads arrays of an .npz in order, writes those of another
PROGRAM = """
import sys
import numpy as np
import tosa_reference_model as model
given = np.load(sys.argv[2])
outputs, status = model.run(open(sys.argv[1], "rb").read(), [given[k] for k in given.files])
np.savez(sys.argv[3], *outputs)
"""


class NotMeasured(Exception):
    """The reference model can't be had here, or does not take a file; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tosa:
    """An environment with the converter and the reference model."""

    folder: Path

    def run(self, file: Path, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs of a TFLite file of integers; raises NotMeasured with what a tool says."""
        programs = self.folder / "bin"
        with TemporaryDirectory(prefix="straightway-") as scratch:
            work = Path(scratch)
            text, data = work / "m.mlir", work / "m.tosa"
            _run([programs / "tosa-converter-for-tflite", file, "--text", "-o", text])
            serialize = ["--tosa-serialize", f"--tosa-flatbuffer-filename={data}"]
            _run([programs / "tosa-opt", *serialize, text])
            np.savez(work / "in.npz", *inputs)
            (work / "run.py").write_text(PROGRAM)
            command = [work / "run.py", data, work / "in.npz", work / "out.npz"]
            _run([programs / "python", *command])
            with np.load(work / "out.npz") as found:
                return [found[name] for name in found.files]


def prepare(cache: Path) -> Tosa:
    """Make the environment, or use the one made before. Raises NotMeasured where it can't be had."""
    tosa = Tosa(folder=cache / "tosa")
    if (tosa.folder / "bin" / "tosa_reference_model").exists():
        return tosa
    try:
        _run([sys.executable, "-m", "venv", tosa.folder])
        pip = [tosa.folder / "bin" / "python", "-m", "pip", "install", "-qq"]
        _run([*pip, "--disable-pip-version-check", *PACKAGES])
    except NotMeasured:
        shutil.rmtree(tosa.folder, ignore_errors=True)
        raise
    return tosa


def _run(command: Sequence[str | Path]) -> None:
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMeasured(str(error)) from error
    if ran.returncode:
        last = (ran.stderr or ran.stdout).strip().splitlines()[-1:]
        raise NotMeasured(f"{Path(command[0]).name}: {' '.join(last)[:200]}")
