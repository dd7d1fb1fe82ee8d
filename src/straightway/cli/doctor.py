"""`straightway doctor`."""

import platform
import shutil
from importlib.metadata import PackageNotFoundError, version

from rich.table import Table

from straightway.cli.app import Json, app, print_json, result_console

NEEDED = ("straightway", "numpy", "onnx", "onnx_ir", "onnxruntime", "ai-edge-litert", "flatbuffers")
EXTRAS = (
    ("pillow", "to calibrate on pictures: pip install 'straightway[images]'"),
    ("tflite-micro", "to run int8 files as Cortex-M does: pip install 'straightway[mcu]'"),
    ("executorch", "to export PyTorch models: pip install 'straightway[executorch]'"),
    ("torch", "to export PyTorch models: pip install 'straightway[executorch]'"),
    ("ethos-u-vela", "to compile for Ethos-U: pip install 'straightway[npu]'"),
)


@app.command("doctor")
def command(json: Json = False) -> None:
    """Say what is installed, and what is missing for what."""
    rows = [("python", platform.python_version(), "")]
    rows += [(name, _version(name), "pip install straightway") for name in NEEDED]
    rows += [(name, _version(name), purpose) for name, purpose in EXTRAS]
    compiler = shutil.which("cc") or shutil.which("gcc")
    clock = "for CPU time in nanoseconds, install a C compiler; without one, wall time is used"
    rows.append(("C compiler", compiler or "", clock))
    if json:
        print_json([{"name": n, "found": v, "otherwise": o} for n, v, o in rows])
        return
    table = Table("what", "found", "otherwise")
    for name, found, otherwise in rows:
        table.add_row(name, found or "missing", "" if found else otherwise)
    result_console().print(table)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
