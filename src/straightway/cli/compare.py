"""`straightway compare`."""

from collections.abc import Mapping
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
from straightway.cli.calibration import Data
from straightway.cli.groups import takes
from straightway.errors import InvalidRequest
from straightway.report.quantity import duration, percent, plural, printable
from straightway.trace.difference import Difference

MOST_ROWS = 20


Original = Annotated[
    Path | None,
    typer.Option("--reference", metavar="FLOAT.onnx", help="The model that both were made of."),
]
MaxDrop = Annotated[
    float | None,
    typer.Option(metavar="DB", help="Exit with 1 where an output of B is farther by more dB."),
]
Fixes = Annotated[bool, typer.Option("--fixes", help="Of a PyTorch model: with all rewrites.")]


@app.command("compare")
@takes(data=Data)
def command(
    a: Annotated[str, typer.Argument(metavar="A", show_default=False)],
    b: Annotated[Path | None, typer.Argument(metavar="[B]", show_default=False)] = None,
    reference: Original = None,
    *,
    data: Data,
    samples: Annotated[int, typer.Option(metavar="N", help="Compare on at most N samples.")] = 16,
    max_drop: MaxDrop = None,
    fixes: Fixes = False,
    dim: Dims = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Compare two quantizations of one model, two traces, or a PyTorch model's two ways to a CPU.

    Two quantizations (.onnx or .tflite) are compared with the float model, output by output; two
    traces of `profile` operator by operator. MODULE:FACTORY alone goes to ExecuTorch, and through
    ONNX to LiteRT.
    """
    with errors(as_json=json), progress(f"comparing {a}") as step:
        if b is None:
            alone(
                {
                    "--reference": reference,
                    "--calibration": data.calibration,
                    "--random": data.random,
                    "--max-drop": max_drop,
                    "--dim": dim,
                    "--shape": shape,
                }
            )
            two_ways(a, fixes=fixes, step=step, as_json=json)
            return
        from straightway.flow.compare import CompareRequest, compare  # noqa: PLC0415 - after --help

        request = CompareRequest(
            reference=reference,
            calibration=data.calibration,
            random=data.random,
            pictures=data.pictures(),
            samples=samples,
            max_drop_db=max_drop,
            dims=parse_dims(dim),
            shapes=parse_shapes(shape),
            step=step,
        )
        found = compare(a, b, request)
    if isinstance(found, Difference):
        show_difference(found, ("A", "B"), as_json=json)
        return
    if json:
        print_json(summary(found))
    else:
        show(found)
    if found.fails:
        raise typer.Exit(1)


def alone(options: Mapping[str, object]) -> None:
    """Raise InvalidRequest for what a comparison of two files takes, but not that of two ways."""
    for option, given in options.items():
        if given:
            raise InvalidRequest(
                f"{option} is for two files; a model's two ways take --fixes alone"
            )


def two_ways(model: str, *, fixes: bool, step: Any, as_json: bool) -> None:
    """A PyTorch model through ExecuTorch, and through ONNX to LiteRT."""
    from straightway.executorch.given import check  # noqa: PLC0415 - after --help
    from straightway.executorch.installed import require  # noqa: PLC0415 - after --help

    check(model)
    require()
    from straightway.flow.routes import routes  # noqa: PLC0415

    show_routes(routes(model, fixes=fixes, step=step), as_json=as_json)


def show_difference(found: Difference, names: tuple[str, str], *, as_json: bool) -> None:
    """Two traces, row by row, and as wholes."""
    if as_json:
        print_json(asdict(found))
        return
    console = result_console()
    for title, rows in (
        ("category", found.categories),
        ("in the model", found.places),
        ("operator", found.operators),
    ):
        table = Table(title, *(f"{name} µs" for name in names), f"{names[1]} / {names[0]}")
        for row in rows[:MOST_ROWS]:
            ratio = "" if row.ratio is None else str(row.ratio)
            times = (f"{row.a_ns / 1e3:.1f}", f"{row.b_ns / 1e3:.1f}")
            table.add_row(printable(row.name, 60), *times, ratio)
        console.print(table)
    how = f"in {plural(found.pairs, 'pair')} of runs in turns" if found.pairs else "as traced"
    print_lines(f"whole, {how}: {duration(found.a_ns)}, {duration(found.b_ns)}: {found.whole}")


def show_routes(both: Any, *, as_json: bool) -> None:
    """A model's two ways."""
    if as_json:
        print_json(
            {
                "model": both.model,
                "ratio": asdict(both.ratio),
                "apart_db": both.apart_db,
                "difference": asdict(both.difference),
                "shared": dict(zip(("executorch", "litert"), both.difference.shared, strict=True)),
            }
        )
        return
    show_difference(both.difference, ("ExecuTorch", "LiteRT"), as_json=False)
    ours, theirs = both.difference.shared
    print_lines(
        f"{percent(ours)} of ExecuTorch's and {percent(theirs)} of LiteRT's time stand in lines of the "
        "model on which both spend some; the rest only one of them does"
    )
    print_lines(
        f"{both.model}, in {plural(both.ratio.pairs, 'pair')} of runs in turns, not traced: LiteRT "
        f"takes {both.ratio} of ExecuTorch's time; {both.apart_db:.1f} dB signal to error between "
        "their outputs"
    )


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
    inside = [one for one in found.inside if one.a_db is not None and one.b_db is not None]
    apart = sorted((one for one in inside if one.differs), key=lambda one: -abs(one.gain_db))
    if inside:
        print_lines(_counted(len(inside), len(apart), "inner value"))
    if apart:
        console.print(_table("value", apart[:MOST_ROWS]))
    known = [one for one in found.branches if None not in (one.a_db, one.b_db)]
    branches = [one for one in known if one.differs]
    branches.sort(key=lambda one: -abs(one.b_db - one.a_db))
    if len(known) > 1:
        print_lines(_counted(len(known), len(branches), "branch", "branches"))
    if len(known) > 1 and branches:
        table = Table("branch", "A", "B", "B nearer by")
        for one in branches[:MOST_ROWS]:
            ends = dict.fromkeys((one.first, one.last))
            name = " to ".join(printable(end, 40) for end in ends)
            table.add_row(name, _db(one.a_db), _db(one.b_db), f"{one.b_db - one.a_db:+.1f} dB")
        console.print(table)
    print_lines(*said(found))


def _counted(known: int, differ: int, one: str, many: str = "") -> str:
    """How many rows follow, and how many are left out, since they are as near in both files."""
    shown = f", those that differ most ({MOST_ROWS})" if differ > MOST_ROWS else ""
    return (
        f"{plural(known, one, many or f'{one}s')}: {differ:,} nearer in one of the files{shown}, "
        f"{known - differ:,} without a clear difference"
    )


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
