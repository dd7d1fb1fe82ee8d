"""`straightway targets`."""

from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.table import Table

from straightway.cli.app import Json, app, errors, print_json, print_lines, result_console


@app.command("targets")
def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    json: Json = False,
) -> None:
    """List the devices that --target knows: their scheme of integers, and where that is from."""
    with errors(as_json=json):
        from straightway.targets.known import TARGETS, find  # noqa: PLC0415 - after --help

        found = list(TARGETS.values()) if name is None else [find(name)]
    if json:
        print_json(
            [
                {
                    **asdict(replace(one, engine=None)),
                    "single_scale": sorted(one.single_scale),
                    "lacks": sorted(one.lacks),
                    "engine": None if one.engine is None else one.engine.described(),
                }
                for one in found
            ]
        )
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", expand=False)
    for heading in ("target", "activations", "in, out", "weights", "what"):
        table.add_column(heading, no_wrap=heading not in ("weights", "what"))
    for one in found:
        io = "floats" if one.io_type == "float" else "integers"
        table.add_row(one.name, ", ".join(one.activations), io, one.weights, one.title)
    result_console().print(table)
    if name is not None:
        (one,) = found
        figures = [f"{k}: {n.amount:g} {n.unit} ({n.source})" for k, n in one.numbers.items()]
        kernels = "XNNPACK" if one.delegate else "plain kernels"
        print_lines(
            f"spelled for {kernels}", *figures, *(f"source: {text}" for text in one.sources)
        )
