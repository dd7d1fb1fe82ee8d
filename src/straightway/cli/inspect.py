"""`straightway inspect`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from straightway.cli.app import (
    Dims,
    Json,
    Shapes,
    Target,
    add_named,
    app,
    errors,
    print_json,
    print_lines,
    progress,
    remark_data,
    request,
    result_console,
    table_for,
)
from straightway.report.quantity import printable

if TYPE_CHECKING:
    from straightway.flow.inspect import Fate


EXACT = {True: "yes", False: "no", None: ""}


def _becomes(fate: "Fate") -> str:
    if fate.refused:
        return "refused"
    return ", ".join(fate.becomes) or ("not judged" if fate.waits else "constant or none")


def _remark(fate: "Fate") -> str:
    """What stands against it or is special about it, and the user's own line where there is one."""
    delegate = f"not delegated: {fate.delegate}" if fate.delegate else ""
    refused = "see below" if fate.refused else ""
    return "; ".join(filter(None, (refused, fate.numbers, delegate, fate.source)))


@app.command("inspect")
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", show_default=False)],
    dim: Dims = None,
    shape: Shapes = None,
    target: Target = "",
    json: Json = False,
) -> None:
    """Say for every node what becomes of it, and name everything unsupported at once."""
    with errors(as_json=json), progress(f"inspecting {model.name}"):
        from straightway.flow.inspect import inspect  # noqa: PLC0415 - after --help

        found = inspect(model, request(dim, shape, target=target))
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
        columns = ("node", "operator", "becomes", "stored as", "exact", "remark")
        table = table_for(result_console(), columns, ("stored as", "exact"))
        for fate in found.fates:
            cells = (
                fate.node,
                fate.op,
                _becomes(fate),
                fate.layout,
                EXACT[fate.exact],
                _remark(fate),
            )
            add_named(table, dict(zip(columns, map(printable, cells), strict=True)))
        result_console().print(table)
        if found.causes:
            print_lines(found.causes)
        print_lines(found.verdict)
    if found.refusals:
        raise typer.Exit(3)
