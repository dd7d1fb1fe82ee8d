"""`straightway inspect`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from straightway.cli.app import (
    Dims,
    Json,
    Shapes,
    app,
    errors,
    print_json,
    print_lines,
    progress,
    remark_data,
    request,
    result_console,
)
from straightway.report.quantity import printable


@app.command("inspect")
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", show_default=False)],
    dim: Dims = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Say for every node what becomes of it, and name everything unsupported at once."""
    with errors(as_json=json), progress(f"inspecting {model.name}"):
        from straightway.flow.inspect import inspect  # noqa: PLC0415 - after --help

        found = inspect(model, request(dim, shape))
    if json:
        print_json(
            {
                "model": str(found.model),
                "verdict": found.verdict,
                "nodes": [asdict(fate) for fate in found.fates],
                "refusals": [remark_data(remark) for remark in found.refusals],
            }
        )
    else:
        table = Table("node", "operator", "becomes", "remark")
        for fate in found.fates:
            becomes = ", ".join(fate.becomes) or ("refused" if fate.refused else "constant or none")
            remark = fate.refused or (f"not delegated: {fate.delegate}" if fate.delegate else "")
            remark += f" ({fate.remedy})" if fate.remedy else ""
            remark += f" [{fate.source}]" if fate.source and fate.refused else ""
            table.add_row(*map(printable, (fate.node, fate.op, becomes, remark)))
        result_console().print(table)
        print_lines(found.verdict)
    if found.refusals:
        raise typer.Exit(3)
