"""`straightway profile`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from straightway.cli.app import (
    Dims,
    Inputs,
    Json,
    Shapes,
    app,
    errors,
    print_lines,
    progress,
    request,
    result_console,
)
from straightway.errors import InvalidRequest
from straightway.report.quantity import duration, percent, plural, printable


@app.command("profile")
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="TRACE.json", show_default=False)
    ] = None,
    runs: Annotated[int, typer.Option("-n", "--runs", help="Measured runs.")] = 30,
    threads: Annotated[int, typer.Option(help="Threads; CPU time is counted for one only.")] = 1,
    top: Annotated[int, typer.Option(help="How many operators to print.")] = 20,
    dim: Dims = None,
    shape: Shapes = None,
    inputs: Inputs = None,
    json: Json = False,
) -> None:
    """Measure a .tflite file on LiteRT, or an .onnx file on onnxruntime, operator by operator."""
    with errors(as_json=json), progress(f"profiling {model.name}"):
        from straightway.flow import files  # noqa: PLC0415 - after --help
        from straightway.flow.profile import profile  # noqa: PLC0415

        if top < 1:
            raise InvalidRequest(f"--top takes a number of 1 or more; got {top}")
        asked = request(dim, shape, inputs=inputs)
        if output is not None:
            files.check_output(output, model, *asked.sources)
        trace = profile(model, asked, runs=runs, threads=threads)
        if output is not None:
            files.write(output, trace.to_json().encode())
    if json:
        sys.stdout.write(trace.to_json() + "\n")
        return
    print_lines(*lines(trace))
    result_console().print(operator_table(trace, top))
    print_lines(whole(trace))


def whole(trace: Any) -> str:
    """The time of the model, and how much of it the operators explain."""
    text = f"whole model: {duration(trace.median_ns)}"
    if not trace.run.operator_level:
        return text
    return f"{text}, of which operators account for {percent(trace.accounted)}"


def lines(trace: Any) -> list[str]:
    """How it was measured."""
    run = trace.run
    how = (
        f"{run.runtime} on {run.cpu or run.device}, {plural(run.threads, 'thread')}, "
        f"{run.clock} time, {plural(run.runs, 'run')} after {run.warmup}"
    )
    sizes = ", ".join(f"{name}={size}" for name, size in run.sizes.items())
    at = f"at {sizes}, which stay open: --shape and --inputs take other sizes" if sizes else ""
    return [line for line in (how, at, run.reason) if line]


def operator_table(trace: Any, count: int) -> Table:
    """The events that took longest."""
    table = Table("operator", "kernel", "place", "category", "time µs", "share")
    for event in sorted(trace.events, key=lambda e: -e.median_ns)[:count]:
        share = event.median_ns / trace.median_ns if trace.median_ns else 0.0
        where = "" if event.op_index is None else f"#{event.op_index} "
        table.add_row(
            printable(f"{where}{event.kind or event.name}"),
            printable(event.name) if event.place == "xnnpack" else "",
            event.place if event.owner is None else f"{event.place} in #{event.owner}",
            event.category,
            f"{event.median_ns / 1e3:.1f}",
            f"{share:.1%}",
        )
    return table
