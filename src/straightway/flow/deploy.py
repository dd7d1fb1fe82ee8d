"""`deploy`: the whole way, from an ONNX file to a verified TFLite file and an account of its time."""

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path

from straightway.errors import InvalidRequest, Mismatch
from straightway.flow import files
from straightway.flow.convert import Conversion, Request, attempt
from straightway.flow.measure import Measurement, measure
from straightway.flow.verify import mismatch
from straightway.flow.view import view_of
from straightway.report.html import render_html
from straightway.report.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What `deploy` made: the conversion, the measurement, and the report's path and data."""

    conversion: Conversion
    measurement: Measurement | None
    view: View
    report: Path


def deploy(
    model: str | Path,
    output: str | Path,
    *,
    request: Request | None = None,
    command: str = "",
) -> Deployment:
    """Convert, verify, measure, and write `output`/report.html beside the TFLite file.

    The folder is made if it is not there. A file that computes other numbers is kept as
    NAME.mismatch.tflite, the report says where it first differs, and Mismatch is raised; its
    attribute `report` is the path.
    """
    asked = request or Request()
    path, folder = Path(model), Path(output)
    _check_folder(folder, path, asked)
    conversion = attempt(path, asked)
    found = conversion.verification
    if found is None:
        raise InvalidRequest("deploy always verifies")
    target = folder / f"{path.stem}{'.tflite' if found.equal else '.mismatch.tflite'}"
    placed = conversion.at(target)
    created = dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    with files.staged(folder) as stage:
        file = stage / target.name
        files.write(file, conversion.translation.written.data)
        measurement = measure(placed, file, step=asked.step) if found.equal else None
        view = view_of(placed, found, measurement, created=created, command=command)
        asked.step("writing the report")
        files.write(stage / "report.html", render_html(view).encode())
        files.write(stage / "report.json", json.dumps(view.to_json(), indent=1).encode())
        if measurement is not None:
            files.write(stage / "trace.json", measurement.trace.to_json().encode())
    report = folder / "report.html"
    if not found.equal:
        raise Mismatch(f"{mismatch(path, target, found)}\n  report: {report}")
    return Deployment(conversion=placed, measurement=measurement, view=view, report=report)


def _check_folder(folder: Path, model: Path, request: Request) -> None:
    """Refuse a folder that is a file, or in which a file to be written is the model's own."""
    if folder.exists() and not folder.is_dir():
        raise InvalidRequest(f"{folder}: is a file; give a folder")
    names = ("report.html", "report.json", "trace.json", f"{model.stem}.tflite")
    for name in (*names, f"{model.stem}.mismatch.tflite"):
        if folder.is_dir():
            files.check_model_output(folder / name, model, *request.sources)
