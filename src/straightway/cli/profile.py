"""`straightway profile`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from straightway.cli.app import (
    Dims,
    Json,
    Shapes,
    app,
    errors,
    parse_dims,
    parse_shapes,
    progress,
)


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
    inputs: Annotated[Path | None, typer.Option(metavar="NPZ", help="Run on these inputs.")] = None,
    json: Json = False,
) -> None:
    """Measure a .tflite file on LiteRT, or an .onnx file on onnxruntime, operator by operator."""
    from straightway.flow.convert import Request  # noqa: PLC0415 - after --help
    from straightway.flow.files import write_text  # noqa: PLC0415
    from straightway.flow.profile import profile  # noqa: PLC0415

    with errors(as_json=json), progress(f"profiling {model.name}"):
        request = Request(dims=parse_dims(dim), shapes=parse_shapes(shape), inputs=inputs)
        trace = profile(model, request, runs=runs, threads=threads)
        if output is not None:
            write_text(output, trace.to_json())
    if json:
        typer.echo(trace.to_json())
        return
    console = Console()
    run = trace.run
    console.print(
        f"{run.runtime} on {run.cpu or run.device}, {run.threads} thread(s), {run.clock} time, "
        f"{run.runs} runs after {run.warmup}",
        markup=False,
        highlight=False,
    )
    if run.reason:
        console.print(run.reason, markup=False, highlight=False)
    table = Table("operator", "kernel", "place", "category", "time µs", "share")
    for event in sorted(trace.events, key=lambda e: -e.median_ns)[:top]:
        share = event.median_ns / trace.median_ns if trace.median_ns else 0.0
        where = "" if event.op_index is None else f"#{event.op_index} "
        table.add_row(
            f"{where}{event.kind or event.name}",
            event.name if event.place == "xnnpack" else "",
            event.place,
            event.category,
            f"{event.median_ns / 1e3:.1f}",
            f"{share:.1%}",
        )
    console.print(table)
    console.print(f"whole model: {trace.median_ns / 1e6:.3f} ms", highlight=False)
