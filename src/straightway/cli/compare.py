"""`straightway compare`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
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
    print_lines,
    progress,
    result_console,
)
from straightway.cli.calibration import Calibration, Channels, Mean, Random, Std, preprocessing
from straightway.report.quantity import plural, printable

MOST_ROWS = 20


@app.command("compare")
def command(
    a: Annotated[Path, typer.Argument(metavar="A", show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", show_default=False)],
    reference: Annotated[
        Path | None,
        typer.Option("--reference", metavar="FLOAT.onnx", help="The model that both were made of."),
    ] = None,
    calibration: Calibration = None,
    random: Random = 0,
    mean: Mean = None,
    std: Std = None,
    channels: Channels = "rgb",
    samples: Annotated[int, typer.Option(metavar="N", help="Compare on at most N samples.")] = 16,
    max_drop: Annotated[
        float | None,
        typer.Option(metavar="DB", help="Exit with 1 where an output of B is farther by more dB."),
    ] = None,
    dim: Dims = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Compare two quantizations of one model with it, output by output and node by node."""
    with errors(as_json=json), progress(f"comparing {a.name} with {b.name}") as step:
        from straightway.flow.compare import CompareRequest, compare  # noqa: PLC0415 - after --help

        request = CompareRequest(
            reference=reference,
            calibration=calibration,
            random=random,
            pictures=preprocessing(mean, std, channels),
            samples=samples,
            max_drop_db=max_drop,
            dims=parse_dims(dim),
            shapes=parse_shapes(shape),
            step=step,
        )
        found = compare(a, b, request)
    if json:
        print_json(summary(found))
    else:
        show(found)
    if found.fails:
        raise typer.Exit(1)


def summary(found: Any) -> dict[str, Any]:
    """The result as plain data."""
    rows = {"outputs": found.outputs, "inside": found.inside}
    return {
        "a": str(found.a),
        "b": str(found.b),
        "reference": str(found.reference),
        "data": found.data,
        "random": found.is_random,
        "samples": found.samples,
        "verdict": found.verdict,
        "fails": found.fails,
        "max_drop_db": found.max_drop_db,
        **{key: [{**asdict(one), "nearer": one.nearer} for one in rows[key]] for key in rows},
        "branches": [asdict(one) for one in found.branches],
    }


def show(found: Any) -> None:
    """The result as tables: outputs, then where the two differ most, then the verdict."""
    console = result_console()
    console.print(_table("output", found.outputs))
    apart = [one for one in found.inside if one.a_db is not None and one.b_db is not None]
    apart.sort(key=lambda one: -abs(one.gain_db))
    if apart:
        print_lines(f"inner values that differ most, of {len(apart):,}:")
        console.print(_table("value", apart[:MOST_ROWS]))
    branches = [one for one in found.branches if None not in (one.a_db, one.b_db)]
    branches.sort(key=lambda one: -abs(one.b_db - one.a_db))
    if len(branches) > 1:
        table = Table("branch", "A", "B", "B nearer by")
        for one in branches[:MOST_ROWS]:
            ends = dict.fromkeys((one.first, one.last))
            name = " to ".join(printable(end, 40) for end in ends)
            table.add_row(name, _db(one.a_db), _db(one.b_db), f"{one.b_db - one.a_db:+.1f} dB")
        console.print(table)
    print_lines(*said(found))


def _table(kind: str, rows: Any) -> Table:
    table = Table(kind, "A", "B", "B nearer by", "")
    for one in rows:
        name = f"{printable(one.name, 50)}{f' ({one.op})' if one.op else ''}"
        spread = "" if one.error_db == float("inf") else f" ± {one.error_db:.1f}"
        words = {"same": "no clear difference", "a": "A is nearer", "b": "B is nearer"}
        gain = f"{one.gain_db:+.1f}{spread} dB"
        table.add_row(name, _db(one.a_db), _db(one.b_db), gain, words[one.nearer])
    return table


def _db(number: float | None) -> str:
    return "" if number is None else f"{number:.1f} dB"


def said(found: Any) -> list[str]:
    """On what was compared, and the verdict."""
    words = {
        "a": f"A, {found.a.name}, is nearer to the float model",
        "b": f"B, {found.b.name}, is nearer to the float model",
        "same": "no clear difference: both are as far from the float model, within the spread of samples",
        "mixed": "A is nearer in some outputs, B in others",
    }
    data = f"signal to error against {found.reference.name}, on {plural(found.samples, 'sample')}"
    brand = "; made-up inputs say little" if found.is_random else ""
    text = [f"{data} ({found.data}{brand})", words[found.verdict]]
    if found.fails:
        text.append(f"B is farther by more than {found.max_drop_db:g} dB")
    return text
