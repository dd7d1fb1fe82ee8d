"""`straightway deploy`."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from straightway.cli.app import (
    Dims,
    Json,
    Shapes,
    app,
    errors,
    parse_dims,
    parse_shapes,
    print_json,
    print_lines,
    progress,
)
from straightway.errors import InvalidRequest


@app.command("deploy")
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", show_default=False)],
    dim: Dims = None,
    shape: Shapes = None,
    io: Annotated[
        str, typer.Option(help="Layout of inputs and outputs: keep (the model's own) or nhwc.")
    ] = "keep",
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Keep open dimensions open (experimental).")
    ] = False,
    inputs: Annotated[
        Path | None, typer.Option(metavar="NPZ", help="Compare and measure on these inputs.")
    ] = None,
    to: Annotated[str, typer.Option(help="Runtime to deploy to: litert.")] = "litert",
    json: Json = False,
) -> None:
    """Convert, verify, measure operator by operator, and write DIR/report.html."""
    with errors(as_json=json), progress(f"deploying {model.name}") as step:
        from straightway.flow.convert import Request  # noqa: PLC0415 - after --help
        from straightway.flow.deploy import deploy  # noqa: PLC0415
        from straightway.report.text import print_summary  # noqa: PLC0415

        if to != "litert":
            raise InvalidRequest(f"--to takes litert so far; got '{to}'")
        request = Request(
            dims=parse_dims(dim),
            shapes=parse_shapes(shape),
            io=io,  # type: ignore[arg-type]
            inputs=inputs,
            dynamic=dynamic,
            step=step,
        )
        done = deploy(
            model, output, request=request, command=shlex.join(["straightway", *sys.argv[1:]])
        )
    if json:
        print_json({"report": str(done.report), **done.view.to_json()})
        return
    print_summary(done.view, Console())
    print_lines("", str(done.report))
