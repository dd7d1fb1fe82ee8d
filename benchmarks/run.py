"""`make bench`: straightway against onnx2tf and onnxruntime on real models.

    python benchmarks/run.py [--models a,b] [--no-rival] [--cache out/bench] [--no-page]

Prints tables of ratios, writes benchmarks/results/latest.json and the page docs/benchmarks.md (the
page only after a run over all models). Exit code 1 if a file of ours computes other numbers.
"""

import argparse
import dataclasses
import datetime as dt
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

import corpus
import race
import rival as rivals
import tables
from costs import cost
from results import OURS, Model, Report, aims
from straightway.errors import StraightwayError
from straightway.run.device import cpu_model
from straightway.trace.statistics import median

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("results") / "latest.json"
PAGE = ROOT / "docs" / "benchmarks.md"
PACKAGES = ("straightway", "ai-edge-litert", "onnxruntime", "onnx", "numpy")
IMPORT_RUNS = 7


def main() -> int:
    """Measure every model, print, and write."""
    arguments = parse()
    console = Console(stderr=True)
    rival, reason = find_rival(arguments, console)
    chosen = corpus.entries()
    if arguments.models:
        names = arguments.models.split(",")
        chosen = tuple(entry for entry in chosen if entry.name in names)
    models = tuple(measured(entry, arguments.cache, rival, console) for entry in chosen)
    report = Report(
        created=dt.datetime.now(tz=dt.UTC).strftime("%Y-%m-%d"),
        machine=machine(),
        versions={name: version(name) for name in PACKAGES} | {"onnx2tf": rivals.VERSION},
        import_cpu_s=import_cpu_s(),
        rival=reason,
        models=models,
    )
    write(report, with_page=arguments.page and not arguments.models)
    show(report)
    return int(any((file := m.file(OURS)) is None or not file.equal for m in report.measured))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Compare straightway with onnx2tf and onnxruntime."
    )
    parser.add_argument("--models", default="", help="names, separated by commas")
    parser.add_argument("--rival", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--page", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--cache", type=Path, default=ROOT / "out" / "bench")
    return parser.parse_args()


def find_rival(arguments: argparse.Namespace, console: Console) -> tuple[rivals.Rival | None, str]:
    """The rival's environment, or why it is not measured."""
    if not arguments.rival:
        return None, "left out by --no-rival"
    try:
        with console.status("preparing onnx2tf"):
            return rivals.prepare(arguments.cache), ""
    except rivals.NotMeasured as error:
        console.print(f"onnx2tf: not measured: {error}", highlight=False)
        return None, str(error)


def measured(
    entry: corpus.Entry, cache: Path, rival: rivals.Rival | None, console: Console
) -> Model:
    """One model all the way, or why not."""
    with console.status(entry.name) as status:
        try:
            path = corpus.find(entry, cache / "models")
            folder = cache / "files"
            folder.mkdir(parents=True, exist_ok=True)
            setting = race.Setting(
                folder=folder,
                rival=rival,
                step=lambda step: status.update(f"{entry.name}: {step}"),
            )
            model = race.measure(entry, path, setting)
        except (corpus.Missing, StraightwayError) as error:
            model = Model(name=entry.name, skipped=str(error).partition("\n")[0])
    console.print(f"{entry.name}: {model.skipped or 'measured'}", highlight=False)
    return model


def machine() -> str:
    """What the times were taken on, and how busy it was with this and whatever else."""
    name = f"{cpu_model() or platform.machine()}, {os.cpu_count()} cores, {platform.system()}"
    return f"{name}, load {os.getloadavg()[-1]:.1f}"


def import_cpu_s() -> float:
    """CPU seconds of `import straightway` beyond those of the interpreter."""
    python = [sys.executable, "-c"]
    spent = [
        cost([*python, "import straightway"]).cpu_s - cost([*python, "pass"]).cpu_s
        for _ in range(IMPORT_RUNS)
    ]
    return median(spent)


def write(report: Report, *, with_page: bool) -> None:
    """Keep everything as JSON, and the summary as a page."""
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(dataclasses.asdict(report), indent=1) + "\n")
    if with_page:
        PAGE.write_text(tables.page(report, aims(report)))


def show(report: Report) -> None:
    """Print the tables and what was missed."""
    console = Console()
    console.print(tables.terminal("Latency, CPU time", tables.LATENCY, tables.latency(report)))
    structure = tables.structure(report)
    console.print(tables.terminal("Ops, ours / onnx2tf", tables.STRUCTURE, structure))
    console.print(tables.terminal("Converting", tables.COST, tables.costs(report)))
    rows = tables.aim_rows(aims(report))
    console.print(tables.terminal("Aims", ("aim", "found", "missed"), rows))
    console.print(str(RESULTS), highlight=False)


if __name__ == "__main__":
    sys.exit(main())
