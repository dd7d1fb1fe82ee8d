"""`straightway verify`."""

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
    print_json,
    progress,
)


@app.command("verify")
def command(
    reference: Annotated[Path, typer.Argument(metavar="MODEL.onnx", show_default=False)],
    candidate: Annotated[Path, typer.Argument(metavar="MODEL.tflite", show_default=False)],
    dim: Dims = None,
    shape: Shapes = None,
    inputs: Annotated[
        Path | None, typer.Option(metavar="NPZ", help="Compare on these inputs.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare a TFLite file with the ONNX model that it should compute. Exit code 1 if it differs."""
    from straightway.flow.convert import Request  # noqa: PLC0415 - after --help
    from straightway.flow.pair import verify_pair  # noqa: PLC0415

    with errors(as_json=json), progress(f"verifying {candidate.name}"):
        request = Request(dims=parse_dims(dim), shapes=parse_shapes(shape), inputs=inputs)
        found = verify_pair(reference, candidate, request)
    checks = (*found.outputs, *found.interior)
    if json:
        print_json(
            {
                "equal": found.equal,
                "first_difference": str(found.difference) if found.difference else None,
                "checks": [
                    {
                        "name": c.name,
                        "shape": c.shape,
                        "dtype": c.dtype,
                        "max_error": float(c.max_error),
                        "bound": float(c.bound),
                        "equal": c.equal,
                    }
                    for c in checks
                ],
            }
        )
    else:
        console = Console()
        table = Table("value", "shape", "greatest difference", "allowed", "")
        for c in checks:
            mark = "equal" if c.equal else c.reason
            table.add_row(c.name, str(list(c.shape)), f"{c.max_error:.3g}", f"{c.bound:.3g}", mark)
        console.print(table)
        if found.difference is not None:
            console.print(str(found.difference), markup=False, highlight=False)
        console.print("equal" if found.equal else "different")
    if not found.equal:
        raise typer.Exit(1)
