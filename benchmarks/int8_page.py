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
floats; *hybrid*: products of int8 weights with an operand that is rounded by its own range as they run;
*inside*: QUANTIZE and DEQUANTIZE that stand neither at an input nor at an output; *outside*: what
XNNPACK leaves to LiteRT's own kernels. *onnxruntime, our floats*: its quantizer told to leave in floats what
straightway does. What onnxruntime writes is converted by straightway.
"""
# those of the latency target: networks that multiply most of the time
TIMED = (
    "mlperf_resnet8",
    "mlperf_vww",
    "ppocrv4_det",
    "ppocrv4_rec",
    "nudenet_yolov8n",
    "opennsfw_resnet",
    "oww_embedding",
)


def write(models: Sequence[Mapping[str, Any]], samples: int) -> None:
    """Write docs/int8.md; with the tasks where `accuracy.py` has measured them."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    today = dt.datetime.now(dt.UTC).date()
    parts = [HEAD.format(date=today, machine=machine(), packages=packages, samples=samples)]
    header = (
        "model", "file", "SQNR dB", "operators", "floats", "hybrid", "inside", "partitions",
        "outside", "x float",
    )  # fmt: skip
    parts.append(markdown(header, [row for model in models for row in _rows(model)]))
    gains = [gain for model in models if (gain := _gain_db(model)) is not None]
    if gains:
        parts.append(
            f"\nAgainst the best other file: {statistics.median(gains):+.1f} dB in the median, "
            f"{min(gains):+.1f} dB at worst, of {len(gains)} models.\n"
        )
    parts.append(_latency(models))
    notes = [f"- {m['name']}, {f['label']}: {f['note']}" for m in models for f in m["files"]]
    parts += [note for note in notes if not note.endswith(": ")]
    parts.append("\n## What stays in floats, and why\n")
    reasons = [
        (model["name"], str(count), why)
        for model in models
        for why, count in model["floats"].items()
    ]
    parts.append(markdown(("model", "nodes", "reason"), reasons))
    parts += left_inside(models)
    if TASKS.exists():
        found = json.loads(TASKS.read_text())
        parts += [
            "\n## Tasks\n",
            markdown(("task", "float", "int8", "agreement", "of"), task_rows(found)),
        ]
        spent = found.get("calibration")
        if spent:
            parts.append(
                f"`straightway quantize` of a model of 12 MB with {spent['count']} samples takes "
                f"{spent['cpu_s']:.0f} s of CPU time on one core, and holds "
                f"{spent['peak_bytes'] / 2**20:.0f} MB at most.\n"
            )
    PAGE.write_text("\n".join(parts).rstrip() + "\n")


def left_inside(models: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each QUANTIZE and DEQUANTIZE inside our files, as the plan lists it: between what, and its cause."""
    rows = [
        (model["name"], one["op"], one["between"], one["cause"])
        for model in models
        for one in model["inside"]
    ]
    return [
        "\n## QUANTIZE and DEQUANTIZE left inside, and why\n",
        markdown(("model", "operator", "between", "cause"), rows) if rows else "None.\n",
    ]


def _rows(model: Mapping[str, Any]) -> list[tuple[str, ...]]:
    base = next((f["median_ns"] for f in model["files"] if f["label"] == FLOAT), float("nan"))
    return [
        (
            model["name"],
            file["label"],
            f"{file['sqnr_db']:.1f}",
            str(file["ops"]),
            str(file["float_ops"]),
            str(file["hybrid_ops"]),
            str(file["borders"]),
            str(file["partitions"]),
            ", ".join(f"{count} {kind}" for kind, count in file["outside"].items()),
            _ratio(file["median_ns"], base),
        )
        for file in model["files"]
        if file["ops"]
    ]


def _latency(models: Sequence[Mapping[str, Any]]) -> str:
    """The geometric mean of our times over floats', and the CPU's instructions for it."""
    ratios = []
    for model in models:
        times = {file["label"]: file["median_ns"] for file in model["files"]}
        ratio = times.get(OURS, math.nan) / times.get(FLOAT, math.nan)
        if model["name"] in TIMED and math.isfinite(ratio):
            ratios.append(ratio)
    if len(ratios) < len(TIMED):
        return "Not timed in this run: times want a quiet machine (`--race-only`).\n"
    info = Path("/proc/cpuinfo")
    flags = info.read_text().split() if info.exists() else []
    has = "with" if any("vnni" in flag for flag in flags) else "without"
    return (
        f"Time over that in floats, geometric mean over {', '.join(TIMED)}: "
        f"{statistics.geometric_mean(ratios):.2f}×, on a CPU {has} VNNI.\n"
    )


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
        if name != "calibration"
    ]
