"""`straightway ops`."""

import difflib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from straightway.cli.app import (
    Json,
    app,
    errors,
    print_json,
    print_lines,
    progress,
    result_console,
)
from straightway.errors import InvalidRequest

if TYPE_CHECKING:
    from straightway.flow.support import Support


@app.command("ops")
def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Print the support table of ONNX operators: versions, types, kernels, limits; or a TFLite row."""
    with errors(as_json=json), progress("converting the operators' samples"):
        from straightway.flow.support import known, support  # noqa: PLC0415 - after --help
        from straightway.tflite.rows import ROWS  # noqa: PLC0415

        row = ROWS.get(name or "")
        found = [*support(name)]
        if not found and row is None:
            raise InvalidRequest(
                f"no operator '{name}' is lowered, and TFLite has none so called"
                f"{_meant(name, {*ROWS, *known()})}"
            )
    if json:
        print_json([*map(support_data, found), *([] if row is None else [row_data(row)])])
        return
    if name is None:
        table = Table("operator", "versions", "types", "becomes", "limits")
        for entry in found:
            table.add_row(*cells(entry))
        result_console().print(table)
        return
    for entry in found:
        print_lines(*lines(entry))
    if row is not None:
        print_lines(row_line(row))


def cells(entry: "Support") -> tuple[str, ...]:
    """An operator as a row of the table."""
    return (
        entry.name,
        listed(entry.versions),
        "\n".join(f"{name}: {listed(kinds)}" for name, kinds in entry.types.items()),
        listed(entry.rows) or "constants",
        "\n".join(limit.text for limit in entry.limits) or "none",
    )


def lines(entry: "Support") -> Iterator[str]:
    """All that is known of an operator."""
    yield f"{entry.name}: {entry.becomes}"
    yield f"  versions: {listed(entry.versions)}"
    for name, kinds in entry.types.items():
        yield f"  types {name}: {listed(kinds)}"
    yield "  becomes:" if entry.rows else "  becomes: constants"
    for row, kernel in entry.rows.items():
        yield f"    {row} ({kernel})"
    yield "  limits:" if entry.limits else "  limits: none"
    for limit in entry.limits:
        place = f" ({limit.kernel})" if limit.kernel else ""
        instead = f"; what works: {limit.remedy}" if limit.remedy else ""
        yield f"    {limit.setter}: {limit.text}{place}{instead}"


def listed(words: Iterable[object]) -> str:
    """Words with commas between."""
    return ", ".join(map(str, words))


def support_data(entry: "Support") -> dict[str, Any]:
    """An operator as plain data."""
    rows = [{"row": row, "kernel": kernel} for row, kernel in entry.rows.items()]
    return {**asdict(entry), "op": entry.name, "rows": rows}


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
