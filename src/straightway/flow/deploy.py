"""`deploy`: the whole way, from an ONNX file to a verified TFLite file and an account of its time."""

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from straightway.errors import InvalidRequest, Mismatch
from straightway.flow import files
from straightway.flow.accuracy_view import accuracy_report
from straightway.flow.borders import borders
from straightway.flow.convert import Conversion, Request, attempt
from straightway.flow.measure import Measurement, measure
from straightway.flow.quantize import Quantization, quantize
from straightway.flow.quantize_request import QuantizeRequest
from straightway.flow.verify import mismatch
from straightway.flow.view import view_of
from straightway.report.html import render_html
from straightway.report.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What `deploy` made: the conversion, the measurement, and the report's path and data.

    `quantization` is what was done to the model before, if it was to have 8 bits.
    """

    conversion: Conversion
    measurement: Measurement | None
    view: View
    report: Path
    quantization: Quantization | None = None


def deploy(
    model: str | Path,
    output: str | Path,
    *,
    request: Request | None = None,
    quantization: QuantizeRequest | None = None,
    command: str = "",
) -> Deployment:
    """Convert, verify, measure, and write `output`/report.html beside the TFLite file.

    With `quantization` the model is given 8 bits first; NAME.int8.onnx is written, too. The folder
    is made if it is not there. A file that computes other numbers is kept as
    NAME.mismatch.tflite, the report says where it first differs, and Mismatch is raised; its
    attribute `report` is the path.
    """
    asked = request or Request()
    path, folder = Path(model), Path(output)
    if quantization is None:
        _check_folder(folder, path, asked, _written(path.stem))
        return _deploy(path, folder, asked, command, None)
    named = f"{path.stem}.int8.onnx"
    _check_folder(folder, path, asked, (named, *_written(Path(named).stem)))
    given = quantize(path, None, quantization)
    with files.scratch(named, given.data) as rounded:
        fixed = replace(asked, dims={}, shapes={})
        return _deploy(rounded, folder, fixed, command, given)


def _deploy(
    path: Path, folder: Path, asked: Request, command: str, given: Quantization | None
) -> Deployment:
    conversion = attempt(path, asked)
    found = conversion.verification
    if found is None:
        raise InvalidRequest("deploy always verifies")
    target = folder / f"{path.stem}{'.tflite' if found.equal else '.mismatch.tflite'}"
    placed = conversion.at(target)
    created = dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    with files.staged(folder) as stage:
        file = stage / target.name
        files.write(file, conversion.translation.written)
        measurement = measure(placed, file, step=asked.step) if found.equal else None
        view = view_of(placed, found, measurement, created=created, command=command)
        if given is not None:
            files.write(stage / path.name, given.data)
            view = replace(
                view,
                accuracy=accuracy_report(given, borders(placed.translation, given.floats)),
                verdict=replace(view.verdict, accuracy=headline(given)),
                notes=(*accuracy_notes(given), *view.notes),
                remarks=(*given.remarks, *view.remarks),
            )
        asked.step("writing the report")
        files.write(stage / "report.html", render_html(view).encode())
        files.write(stage / "report.json", json.dumps(view.to_json(), indent=1).encode())
        if measurement is not None:
            files.write(stage / "trace.json", measurement.trace.to_json().encode())
    report = folder / "report.html"
    if not found.equal:
        raise Mismatch(f"{mismatch(path, target, found)}\n  report: {report}")
    return Deployment(
        conversion=placed, measurement=measurement, view=view, report=report, quantization=given
    )


def headline(given: Quantization) -> str:
    """What eight bits cost the least accurate output, in a few words."""
    worst = min(given.accuracy.outputs, key=lambda row: row.sqnr_db)
    which = f" in '{worst.name}'" if len(given.accuracy.outputs) > 1 else ""
    return f"{worst.sqnr_db:.1f} dB signal to error against the float model{which}"


def accuracy_notes(given: Quantization) -> tuple[str, ...]:
    """What eight bits cost, in a sentence each."""
    near = given.accuracy
    notes = [
        f"8 bits against the float model: '{row.name}' {row.sqnr_db:.1f} dB signal to error, off by "
        f"up to {row.max_error:.4g}"
        for row in near.outputs
    ]
    source = f"observed on {given.calibration}, compared on {near.samples} of them"
    brand = "; made-up inputs: ranges and accuracy say little" if given.is_random else ""
    brand += "; every input is constant: ranges and accuracy say nothing" * given.is_constant
    worst = ", ".join(f"{row.node} ({row.op}, {row.sqnr_db:.1f} dB)" for row in near.worst(3))
    return (*notes, f"{source}{brand}", *([f"least accurate inside: {worst}"] if worst else []))


def _written(stem: str) -> tuple[str, ...]:
    """Names of the files that a model of this name leads to."""
    files_of_it = (f"{stem}.tflite", f"{stem}.mismatch.tflite")
    return ("report.html", "report.json", "trace.json", *files_of_it)


def _check_folder(folder: Path, model: Path, request: Request, names: Sequence[str]) -> None:
    """Refuse a folder that is a file, or in which a file to be written is the model's own."""
    if folder.exists() and not folder.is_dir():
        raise InvalidRequest(f"{folder}: is a file; give a folder")
    for name in names:
        if folder.is_dir():
            files.check_model_output(folder / name, model, *request.sources)
