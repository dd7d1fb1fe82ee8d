"""`make bench-engines`: int8 files on the engines of devices: whether they run, take all, agree.

    python benchmarks/engines.py [--models a,b] [--samples 12] [--cache DIR]

Each model is quantized for LiteRT and for a device. The file for LiteRT runs by XNNPACK and by the
built-in kernels, the file for devices by TensorFlow Lite Micro and, for MLPerf Tiny, by the TOSA
reference model; Vela compiles it for Ethos-U55. Prints a table, writes benchmarks/results/engines.json, and
docs/engines.md when all models were run.
"""

import argparse
import datetime as dt
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import corpus
import pictures
import straightway
import tosa
from straightway.errors import StraightwayError
from straightway.flow.candidate import describe, feeds
from straightway.run import litert, micro, vela
from straightway.run.process import Child
from tables import markdown

Arrays = Mapping[str, np.ndarray]
DEVICE = "ethos-u55-128"
TINY = "mlperf_"
EVALUATED = 4
PACKAGES = ("straightway", "ai-edge-litert", "tflite-micro", "ethos-u-vela")


@dataclass(slots=True, kw_only=True)
class Row:
    """One model: what each engine makes of it, with the reason where it does not take it."""

    model: str
    note: str = ""
    xnnpack: str = ""
    micro: str = ""
    tosa: str = ""
    vela: str = ""


def quanta(path: Path, some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> str:
    """By how many numbers stored outputs differ: the most, and the share that differs."""
    main = describe(path).main
    worst, wrong, total = 0, 0, 0
    indices = main.outputs * (len(some) // len(main.outputs))
    for index, one, other in zip(indices, some, others, strict=True):
        quant = main.tensors[index].quant
        step = 1.0 if quant is None or one.dtype.kind != "f" else float(np.ravel(quant.scale)[0])
        apart = np.abs(one.astype(np.float64) - other) / step
        if one.dtype.kind == "f" and quant is None:
            apart = apart / max(float(np.ptp(other)), 1e-30) * 256  # of 256 levels
        worst = max(worst, round(float(apart.max(initial=0))))
        wrong, total = wrong + int((apart >= 0.5).sum()), total + apart.size
    return "equal" if not wrong else f"{100 * wrong / total:.2g} % differ, by up to {worst}"


def made(
    model: Path, entry: corpus.Entry, data: Sequence[Arrays], target: str, folder: Path
) -> Path:
    """Quantize and convert for a target."""
    rounded, file = folder / f"{target}.onnx", folder / f"{target}.tflite"
    straightway.quantize(
        model, rounded, calibration=lambda: iter(data), shapes=entry.shapes, target=target
    )
    straightway.convert(rounded, file, verify=False, target=target)
    return file


def examine(
    row: Row, paths: tuple[Path, Path], data: Sequence[Arrays], reference: tosa.Tosa | None
) -> None:
    """Run both files on all engines."""
    own, device = paths
    with Child(engines=["litert"]) as child:
        stored = [feeds(own, describe(own), one) for one in data]
        some, others = (
            [y for x in stored for y in child.call(litert.run(own, x, delegate=on)).outputs]
            for on in (True, False)
        )
        row.xnnpack = quanta(own, some, others)
        stored = [feeds(device, describe(device), one) for one in data]
        try:
            some = [y for x in stored for y in child.call(micro.run(device, x))]
            others = [
                y for x in stored for y in child.call(litert.run(device, x, delegate=False)).outputs
            ]
            row.micro = quanta(device, some, others)
        except StraightwayError as error:
            row.micro = str(error)[:200]
    if reference is not None and row.model.startswith(TINY):
        try:
            row.tosa = quanta(device, some, [y for x in stored for y in reference.run(device, x)])
        except tosa.NotMeasured as error:
            row.tosa = str(error)[:200]
    row.vela = compiled(device)


def compiled(path: Path) -> str:
    """What Vela leaves to the CPU, and why."""
    try:
        found = vela.compile_for(path, DEVICE)
    except StraightwayError as error:
        return str(error).strip()[-200:]
    if found.whole:
        return "whole"
    left = Counter(layer.op for layer in found.layers if not layer.on_npu)
    counted = ", ".join(f"{n} {op}" for op, n in left.items())
    reasons: dict[str, set[str]] = {}
    for one in found.refused:
        reasons.setdefault(one.reason.partition(" (")[0].rstrip("."), set()).add(one.op)
    told = "; ".join(f"{why} ({', '.join(sorted(ops))})" for why, ops in reasons.items())
    return f"{counted} on the CPU: {told}"


HEADER = (
    "model", "XNNPACK against built-in", "Micro against built-in", "Micro against TOSA",
    "Ethos-U55 takes", "note",
)  # fmt: skip
PAGE = Path(__file__).parents[1] / "docs" / "engines.md"
HEAD = """\
---
hide: [toc]
---
# int8 on engines

*Written by `make bench-engines` on {date}; no figure here is typed by hand.*

{packages}.

Each model is quantized for LiteRT and for {device}. The first file runs by XNNPACK's delegate and by LiteRT's
own kernels; the second by TensorFlow Lite Micro and by LiteRT's own kernels, those of MLPerf Tiny by the TOSA
reference model too, whose integers are the specification's, and Vela compiles it. Compared are all outputs of {count} inputs: the share
of numbers that differ, and by how many numbers stored at most (of floats: in 256ths of what they span).
LiteRT's kernels and XNNPACK's round otherwise than the specification, each in its own way; what one number's
difference does to the layers after it is the model's.

"""


def cells(row: Row) -> tuple[str, ...]:
    """One line of the table."""
    return row.model, row.xnnpack, row.micro, row.tosa, row.vela, row.note


def show(rows: Sequence[Row], console: Console) -> None:
    """Print the table."""
    table = Table(*HEADER)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)


def write_page(rows: Sequence[Row]) -> None:
    """Write docs/engines.md."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    head = HEAD.format(
        date=dt.datetime.now(dt.UTC).date(), packages=packages, device=DEVICE, count=EVALUATED
    )
    PAGE.write_text(head + markdown(HEADER, [cells(row) for row in rows]) + "\n")


def main() -> int:
    """Examine every model, print, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--cache", type=Path, default=Path("out/bench"))
    options = parser.parse_args()
    console = Console(stderr=True)
    reference = None
    try:
        reference = tosa.prepare(options.cache)
    except tosa.NotMeasured as error:
        console.print(f"no TOSA reference model: {error}")
    names = options.models.split(",") if options.models else list(pictures.SOURCES)
    rows = []
    for entry in corpus.entries():
        if entry.name not in names:
            continue
        console.print(entry.name)
        folder = options.cache / "engines" / entry.name
        folder.mkdir(parents=True, exist_ok=True)
        model = corpus.find(entry, options.cache)
        data = list(pictures.drawn(entry.name, options.samples, calibration=True))
        tried = list(pictures.drawn(entry.name, EVALUATED, calibration=False))
        rows.append(Row(model=entry.name))
        try:
            own, device = (made(model, entry, data, name, folder) for name in ("litert", DEVICE))
            examine(rows[-1], (own, device), tried, reference)
        except StraightwayError as error:
            rows[-1].note = f"{type(error).__name__}: {str(error)[:200]}"
    results = Path(__file__).with_name("results") / "engines.json"
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    show(rows, Console(width=180))
    if not options.models:
        write_page(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
