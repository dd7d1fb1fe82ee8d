"""`straightway deploy`."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from straightway.cli.app import (
    Dims,
    InputOutput,
    InputOutputType,
    Inputs,
    Json,
    Shapes,
    Target,
    app,
    errors,
    print_json,
    print_lines,
    progress,
    request,
)
from straightway.cli.calibration import Counted, Quantizing, Sensitivity
from straightway.cli.groups import takes
from straightway.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantized(Quantizing):
    """The report has the share that each node has in the end error."""

    sensitivity: Sensitivity = 1


@app.command("deploy")
@takes(options=Quantized)
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", show_default=False)],
    dim: Dims = None,
    shape: Shapes = None,
    io: InputOutput = "keep",
    io_type: InputOutputType = "",
    target: Target = "",
    inputs: Inputs = None,
    to: Annotated[str, typer.Option(help="Runtime to deploy to: litert.")] = "litert",
    int8: Annotated[bool, typer.Option("--int8", help="Quantize first; needs data.")] = False,
    *,
    options: Quantized,
    json: Json = False,
) -> None:
    """Convert, verify, measure operator by operator, and write DIR/report.html."""
    with errors(as_json=json), progress(f"deploying {model.name}") as step:
        from straightway.flow.deploy import deploy  # noqa: PLC0415 - after --help
        from straightway.report.text import print_summary  # noqa: PLC0415

        if to.lower() != "litert":
            raise InvalidRequest(f"--to takes litert so far; got '{to}'")
        asked = request(
            dim,
            shape,
            io=io.lower(),
            io_type=io_type.lower(),
            target=target,
            inputs=inputs,
            step=step,
        )
        if not int8 and (options.calibration or options.random):
            raise InvalidRequest("--calibration and --random are for --int8")
        quantization = None
        told = Counted(tell=step)
        if int8:
            quantization = options.request(
                dim, shape, target=target or "litert", step=told.step, advance=told.advance
            )
        done = deploy(
            model,
            output,
            request=asked,
            quantization=quantization,
            command=shlex.join(["straightway", *sys.argv[1:]]),
        )
    if json:
        print_json({"report": str(done.report), **done.view.to_json()})
        return
    print_summary(done.view, Console())
    print_lines("", str(done.report))
