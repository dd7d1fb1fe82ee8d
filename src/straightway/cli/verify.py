"""`straightway verify`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from straightway.cli.app import (
    Dims,
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
    result_console,
)
from straightway.report.quantity import plural, printable


@app.command("verify")
def command(
    reference: Annotated[Path, typer.Argument(metavar="MODEL.onnx", show_default=False)],
    candidate: Annotated[Path, typer.Argument(metavar="MODEL.tflite", show_default=False)],
    dim: Dims = None,
    shape: Shapes = None,
    target: Target = "",
    inputs: Inputs = None,
    json: Json = False,
) -> None:
    """Compare a TFLite file with the ONNX model that it should compute. Exit code 1 if it differs."""
    with errors(as_json=json), progress(f"verifying {candidate.name}"):
        from straightway.flow.pair import verify_pair  # noqa: PLC0415 - after --help

        found = verify_pair(reference, candidate, request(dim, shape, target=target, inputs=inputs))
    checks = (*found.outputs, *found.interior)
    if json:
        print_json(
            {
                "equal": found.equal,
                "compared": {
                    "outputs": len(found.outputs) // found.seeds,
                    "sets": found.seeds,
                    "interior": len(found.interior),
                },
                "note": found.note,
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
        table = Table("value", "shape", "greatest difference", "allowed", "")
        for c in checks:
            mark = "equal" if c.equal else c.reason
            error, bound = f"{c.max_error:.3g}", f"{c.bound:.3g}"
            table.add_row(printable(c.name), str(list(c.shape)), error, bound, mark)
        result_console().print(table)
        if found.difference is not None:
            print_lines(str(found.difference))
        print_lines(*said(found))
    if not found.equal:
        raise typer.Exit(1)


def said(found: Any) -> list[str]:
    """What was compared, why not more, and the verdict."""
    compared = (
        f"compared: {plural(len(found.outputs) // found.seeds, 'output')} on "
        f"{plural(found.seeds, 'set')} of inputs, {plural(len(found.interior), 'interior value')}"
    )
    verdict = "equal" if found.equal else "different"
    return [compared, *([found.note] if found.note else []), verdict]
