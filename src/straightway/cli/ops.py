"""`straightway ops`."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from straightway.cli.app import Json, app, errors, print_json
from straightway.errors import InvalidRequest


@app.command("ops")
def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    json: Json = False,
) -> None:
    """List the ONNX operators that are lowered, with their limits; or TFLite's rows by name."""
    from straightway.lower import families  # noqa: PLC0415 - after --help
    from straightway.lower.declare import LOWERINGS  # noqa: PLC0415
    from straightway.tflite.rows import ROWS  # noqa: PLC0415

    families.load()
    with errors(as_json=json):
        found = [low for low in LOWERINGS.values() if name in (None, low.op.name)]
        row = ROWS.get(name or "")
        if not found and row is None:
            raise InvalidRequest(f"no operator '{name}' is lowered, and TFLite has none so called")
    if json:
        print_json(
            [
                {"op": str(low.op), "limits": [limit.text for limit in low.needs]}
                for low in sorted(found, key=lambda low: str(low.op))
            ]
        )
        return
    console = Console()
    table = Table("operator", "limits")
    for low in sorted(found, key=lambda low: str(low.op)):
        table.add_row(str(low.op), "\n".join(limit.text for limit in low.needs) or "none")
    if found:
        console.print(table)
    if row is not None:
        delegate = (
            row.xnnpack
            if isinstance(row.xnnpack, str)
            else "taken; asks: " + "; ".join(condition.text for condition in row.xnnpack)
        )
        console.print(f"TFLite {row.name}: {row.kernel}; XNNPACK: {delegate}", markup=False)
