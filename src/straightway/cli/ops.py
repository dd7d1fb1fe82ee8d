"""`straightway ops`."""

import difflib
from collections.abc import Collection
from typing import Annotated, Any

import typer
from rich.table import Table

from straightway.cli.app import Json, app, errors, print_json, print_lines, result_console
from straightway.errors import InvalidRequest


@app.command("ops")
def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    json: Json = False,
) -> None:
    """List the ONNX operators that are lowered, with their limits; or TFLite's rows by name."""
    with errors(as_json=json):
        from straightway.lower import families  # noqa: PLC0415 - after --help
        from straightway.lower.declare import LOWERINGS  # noqa: PLC0415
        from straightway.tflite.rows import ROWS  # noqa: PLC0415

        families.load()
        found = [low for low in LOWERINGS.values() if name in (None, low.op.name)]
        row = ROWS.get(name or "")
        if not found and row is None:
            known = {*ROWS, *(low.op.name for low in LOWERINGS.values())}
            raise InvalidRequest(
                f"no operator '{name}' is lowered, and TFLite has none so called{_meant(name, known)}"
            )
    limits = {str(low.op): [need.limit(low.op.name) for need in low.needs] for low in found}
    if json:
        described = [{"op": op, "limits": limits[op]} for op in sorted(limits)]
        print_json(described + ([] if row is None else [row_data(row)]))
        return
    if limits:
        table = Table("operator", "limits")
        for op in sorted(limits):
            table.add_row(op, "\n".join(limits[op]) or "none")
        result_console().print(table)
    if row is not None:
        print_lines(row_line(row))


def _meant(name: str | None, known: Collection[str]) -> str:
    """Names that are spelled nearly so, or begin so."""
    wanted = (name or "").lower()
    spelled = {one.lower(): one for one in sorted(known)}
    near = difflib.get_close_matches(wanted, spelled, cutoff=0.7)
    near = near or [one for one in spelled if wanted and one.startswith(wanted)][:3]
    return f"; did you mean {' or '.join(spelled[one] for one in near)}?" if near else ""


def row_data(row: Any) -> dict[str, Any]:
    """A TFLite op as plain data."""
    refused = isinstance(row.xnnpack, str)
    asks = [] if refused else [condition.text for condition in row.xnnpack]
    return {
        "row": row.name,
        "kernel": row.kernel,
        "xnnpack": not refused,
        "reason": row.xnnpack if refused else "",
        "xnnpack_asks": asks,
    }


def row_line(row: Any) -> str:
    """A TFLite op in a line."""
    data = row_data(row)
    asks = "taken; asks: " + "; ".join(data["xnnpack_asks"])
    return f"TFLite {row.name}: {row.kernel}; XNNPACK: {asks if data['xnnpack'] else row.xnnpack}"
