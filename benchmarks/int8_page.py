"""The page of the documentation on int8: what `make bench-int8` found, and on what machine."""

import datetime as dt
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from run import machine
from tables import markdown

PAGE = Path(__file__).parents[1] / "docs" / "int8.md"
TASKS = Path(__file__).with_name("results") / "accuracy.json"
OURS, FLOAT = "straightway", "float"
PACKAGES = ("straightway", "ai-edge-litert", "onnxruntime", "onnx", "numpy")
HEAD = """\
---
hide: [toc]
---
# int8

*Written by `make bench-int8` on {date}; no figure here is typed by hand.*

{machine}; {packages}.

Every quantizer gets the same {samples} samples; signal to quantization noise (SQNR) is that of all outputs on 24
others, run by LiteRT, against onnxruntime on the model in floats. *floats*: operators that compute with
floats; *inside*: QUANTIZE and DEQUANTIZE that stand neither at an input nor at an output.
*onnxruntime, our floats*: its quantizer told to leave in floats what straightway does.
"""


def write(models: Sequence[Mapping[str, Any]], samples: int) -> None:
    """Write docs/int8.md; with the tasks where `accuracy.py` has measured them."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    today = dt.datetime.now(dt.UTC).date()
    parts = [HEAD.format(date=today, machine=machine(), packages=packages, samples=samples)]
    header = ("model", "file", "SQNR dB", "operators", "floats", "inside", "partitions", "x float")
    parts.append(markdown(header, [row for model in models for row in _rows(model)]))
    gains = [gain for model in models if (gain := _gain_db(model)) is not None]
    if gains:
        parts.append(
            f"\nAgainst the best other file: {statistics.median(gains):+.1f} dB in the median, "
            f"{min(gains):+.1f} dB at worst, of {len(gains)} models.\n"
        )
    notes = [f"- {m['name']}, {f['label']}: {f['note']}" for m in models for f in m["files"]]
    parts += [note for note in notes if not note.endswith(": ")]
    if TASKS.exists():
        found = json.loads(TASKS.read_text())
        parts += [
            "\n## Tasks\n",
            markdown(("task", "float", "int8", "agreement", "of"), task_rows(found)),
        ]
    PAGE.write_text("\n".join(parts).rstrip() + "\n")


def _rows(model: Mapping[str, Any]) -> list[tuple[str, ...]]:
    base = next((f["median_ns"] for f in model["files"] if f["label"] == FLOAT), float("nan"))
    return [
        (
            model["name"],
            file["label"],
            f"{file['sqnr_db']:.1f}",
            str(file["ops"]),
            str(file["float_ops"]),
            str(file["borders"]),
            str(file["partitions"]),
            _ratio(file["median_ns"], base),
        )
        for file in model["files"]
        if file["ops"]
    ]


def _ratio(time_ns: float, base_ns: float) -> str:
    ratio = time_ns / base_ns
    return f"{ratio:.2f}×" if math.isfinite(ratio) else "–"


def _gain_db(model: Mapping[str, Any]) -> float | None:
    """By how much ours is nearer than the best other; None where there is none."""
    found = {f["label"]: f["sqnr_db"] for f in model["files"] if f["ops"]}
    others = [db for label, db in found.items() if label not in (OURS, FLOAT)]
    return found[OURS] - max(others) if others and OURS in found else None


def task_rows(found: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    """What int8 costs on each task, and how many answers that was asked for."""
    return [
        (
            name,
            *(f"{one[key]:.1f} %" if key in one else "" for key in ("float", "int8", "agreement")),
            f"{one['count']:.0f}",
        )
        for name, one in found.items()
    ]
