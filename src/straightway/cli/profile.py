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
    add_named,
    app,
    at_least_one,
    errors,
    print_lines,
    progress,
    request,
    result_console,
    table_for,
)
from straightway.cli.compare import show_difference
from straightway.errors import InvalidRequest
from straightway.report.quantity import duration, percent, plural, printable

Output = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="TRACE.json", show_default=False)
]
Etdump = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Of a .pte: read this trace, made elsewhere; run nothing."),
]
Etrecord = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Of a .pte without a map beside it: what tells its lines."),
]
Cap = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FEATURE", help="Of a .pte: with a feature of the CPU and without it: 'avx512*'."
    ),
]
WhatIf = Annotated[
    float | None,
    typer.Option(
        "--what-if", metavar="K", help="Project: what it would take with products K times faster."
    ),
]


@app.command("profile")
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
    output: Output = None,
    runs: Annotated[int, typer.Option("-n", "--runs", help="Measured runs.")] = 30,
    threads: Annotated[int, typer.Option(help="Threads; CPU time is counted for one only.")] = 1,
    top: Annotated[int, typer.Option(help="How many operators to print.")] = 20,
    dim: Dims = None,
    shape: Shapes = None,
    inputs: Inputs = None,
    etdump: Etdump = None,
    etrecord: Etrecord = None,
    cap: Cap = None,
    what_if: WhatIf = None,
    json: Json = False,
) -> None:
    """Measure a .tflite, .onnx or .pte file operator by operator, on its own runtime."""
    with errors(as_json=json), progress(f"profiling {model.name}"):
        from straightway.flow import files  # noqa: PLC0415 - after --help
        from straightway.flow.profile import profile  # noqa: PLC0415

        if what_if is not None and what_if <= 0:
            raise InvalidRequest(f"--what-if takes a factor above 0, such as 6; got {what_if}")
        at_least_one({"--top": top, "--runs": runs, "--threads": threads})
        asked = request(dim, shape, inputs=inputs)
        if output is not None:
            files.check_output(output, model, *asked.sources)
        if cap and etdump is not None:
            raise InvalidRequest("one of --etdump and --cap at a time: a trace is measured already")
        for file in (model, etdump, etrecord, inputs):
            if file is not None and not file.is_file():
                problem = "is a directory" if file.is_dir() else "there is no such file"
                raise InvalidRequest(f"{file}: {problem}")
        if model.suffix.lower() == ".pte":
            found = _program(
                model,
                runs=runs,
                threads=threads,
                etdump=etdump,
                etrecord=etrecord,
                cap=tuple(cap or ()),
                inputs=inputs,
            )
        elif etdump is not None or etrecord is not None or cap:
            raise InvalidRequest(
                "--etdump, --etrecord and --cap are for ExecuTorch programs (.pte)"
            )
        else:
            found = (profile(model, asked, runs=runs, threads=threads),)
        if output is not None:
            for path, one in zip((output, without(output)), found, strict=False):
                files.write(path, one.to_json().encode())
    if len(found) > 1:
        show_features(found, tuple(cap or ()), as_json=json)
    else:
        show(found[0], top, what_if, as_json=json)


def show(trace: Any, top: int, what_if: float | None, *, as_json: bool) -> None:
    """A trace: its operators, the slowest first, and its whole."""
    if as_json:
        sys.stdout.write(trace.to_json() + "\n")
        return
    print_lines(*lines(trace))
    result_console().print(operator_table(trace, top))
    print_lines(whole(trace))
    if what_if is not None:
        print_lines(projected(trace, what_if))


def _program(model: Path, **options: Any) -> tuple[Any, ...]:
    """The trace of an ExecuTorch program; with a cap, that without the features behind it."""
    from straightway.executorch.installed import require  # noqa: PLC0415

    require()
    from straightway.flow.program import TraceRequest, on_and_off, trace  # noqa: PLC0415

    asked = TraceRequest(**options)
    return on_and_off(model, asked) if asked.cap else (trace(model, asked),)


def without(output: Path) -> Path:
    """Where the trace without the features goes, beside the one with all."""
    return output.with_suffix(f".off{output.suffix}")


def show_features(both: Any, features: tuple[str, ...], *, as_json: bool) -> None:
    """What features of the CPU bring: end to end, by category, by line, by operator."""
    from straightway.trace.difference import difference  # noqa: PLC0415

    if not as_json:
        print_lines(*lines(both[0]), f"on: all features; off: without {', '.join(features)}")
    show_difference(difference(*both, in_turns=True), ("on", "off"), as_json=as_json)


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
    """The events that took longest; with the model's line where the trace has it."""
    sourced = any(op.file for op in trace.ops)
    columns = ["operator", "kernel", "place", "category", "time µs", "share"]
    columns += ["in the model"] if sourced else []
    table = table_for(result_console(), columns, ("kernel", "place"))
    for event in sorted(trace.events, key=lambda e: -e.median_ns)[:count]:
        share = event.median_ns / trace.median_ns if trace.median_ns else 0.0
        where = "" if event.op_index is None else f"#{event.op_index} "
        row = [
            printable(f"{where}{event.kind or event.name}"),
            printable(event.name) if event.place == "xnnpack" else "",
            event.place if event.owner is None else f"{event.place} in #{event.owner}",
            event.category,
            f"{event.median_ns / 1e3:.1f}",
            f"{share:.1%}",
        ]
        if sourced:
            row.append(printable(line_of(trace, event)))
        add_named(table, dict(zip(columns, row, strict=True)))
    return table


def projected(trace: Any, factor: float) -> str:
    """A run with faster products, clearly a projection."""
    from straightway.trace.projection import project  # noqa: PLC0415

    found = project(trace, factor)
    return (
        f"a projection, not a measurement: with convolutions and matrix products {factor:g} times "
        f"faster and all else as it is, {duration(found.total_ns)} ({found.speedup:.2f} times "
        f"faster), of which moving and converting data {percent(found.moved_share)}"
    )


def line_of(trace: Any, event: Any) -> str:
    """The module and line that an event stands for, and what forces it."""
    if event.op_index is None:
        return ""
    op = trace.ops[event.op_index]
    line = f"{Path(op.file).name}:{op.line}" if op.file else ""
    return " ".join(part for part in (op.module, line, event.cause) if part)
