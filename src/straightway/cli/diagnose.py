"""`straightway diagnose`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from straightway.cli.app import (
    Inputs,
    Json,
    app,
    at_least_one,
    errors,
    print_json,
    print_lines,
    progress,
)
from straightway.cli.export import Exporting, noted
from straightway.cli.groups import takes
from straightway.errors import InvalidRequest
from straightway.report.quantity import duration, percent, plural, printable

FOUND = 1


Folder = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="DIR", help="Write DIR/report.html.")
]
Traced = Annotated[
    Path | None, typer.Option(metavar="T.json", help="A trace that `profile` wrote.")
]
Etdump = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A trace of ExecuTorch, made elsewhere.")
]
Rules = Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only these rules.")]
MaxOverhead = Annotated[
    str | None,
    typer.Option(metavar="SHARE", help="Exit with 1 where more may be saved, such as 10%."),
]


@app.command("diagnose")
@takes(options=Exporting)
def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", show_default=False)],
    output: Folder = None,
    trace: Traced = None,
    etdump: Etdump = None,
    rule: Rules = None,
    max_overhead: MaxOverhead = None,
    runs: Annotated[int, typer.Option("-n", "--runs", help="Measured runs.")] = 20,
    top: Annotated[int, typer.Option(help="How many findings to print.")] = 10,
    inputs: Inputs = None,
    *,
    options: Exporting,
    json: Json = False,
) -> None:
    """Find what computes nothing in a .pte file or a PyTorch model (MODULE:FACTORY, .pt2), and its line."""
    with errors(as_json=json), progress(f"diagnosing {model}") as step:
        from straightway.executorch.installed import require  # noqa: PLC0415 - after --help

        at_least_one({"--top": top, "--runs": runs})
        threshold = share_of(max_overhead)
        from straightway.flow import diagnose_request  # noqa: PLC0415 - after --help

        asked = diagnose_request.DiagnoseRequest(
            trace=trace,
            etdump=etdump,
            inputs=inputs,
            runs=runs,
            rules=tuple(rule or ()),
            export=options.request(step=step),
        )
        diagnose_request.check(model, asked)
        if output is not None:
            _made(output)
        require()
        from straightway.flow.diagnose import diagnose  # noqa: PLC0415 - after torch

        done = diagnose(model, asked)
        written = () if output is None else (f"report: {_report(done, output)}",)
    if json:
        print_json(summary(done))
    else:
        print_lines(*lines(done, top), *noted(done.notes), *written)
    if threshold is not None and done.overhead > threshold:
        raise typer.Exit(FOUND)


def _made(folder: Path) -> Path:
    """Make a folder. Raises InvalidRequest where it can't be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidRequest(f"{folder}: no folder can be made there: {error}") from error
    return folder


def _report(done: Any, folder: Path) -> Path:
    """Write the report. Raises InvalidRequest where the folder can't be made."""
    from straightway.flow import files  # noqa: PLC0415
    from straightway.report.findings import render_findings  # noqa: PLC0415

    path = _made(folder) / "report.html"
    files.write(path, render_findings(done.model, done.trace, done.findings).encode())
    return path


def share_of(text: str | None) -> float | None:
    """A share as "10%" or 0.1; raises InvalidRequest for anything else."""
    if text is None:
        return None
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise InvalidRequest(f"--max-overhead takes a share, such as 10% or 0.1; got '{text}'")
    return number


def lines(done: Any, top: int) -> list[str]:
    """The findings with their lines of the model, and what all of them may save."""
    whole_ns = done.trace.median_ns
    text = [
        (
            f"{done.model}: {duration(whole_ns)}, {plural(len(done.program.delegates), 'partition')}, "
            f"{plural(done.program.inserted_transposes, 'transpose')} inserted; "
            f"{plural(len(done.findings), 'finding')}, which together may save up to {percent(done.overhead)}"
        )
    ]
    for number, one in enumerate(done.findings[:top], 1):
        text += ["", *finding_lines(number, one, whole_ns)]
    left = len(done.findings) - top
    if left > 0:
        text += ["", f"and {plural(left, 'smaller finding')}: --top {len(done.findings)}"]
    return text


def finding_lines(number: int, one: Any, whole_ns: float) -> list[str]:
    """One finding: what it may save, where, and what to do."""
    from straightway.report.snippet import snippet  # noqa: PLC0415

    share = one.saves.median / whole_ns if whole_ns > 0 else 0.0
    text = [
        (
            f"{number}. {one.rule}: {one.title}: up to {duration(one.saves.median)} "
            f"({duration(one.saves.p10)} to {duration(one.saves.p90)}), {percent(share)}"
        ),
        f"   {printable(one.message)}",
    ]
    if one.cause.file:
        text.append(f"   {printable(one.cause.file)}:{one.cause.line}")
    text += [
        f"   {'>' if line.is_cause else ' '} {line.number:4} | {printable(line.text)}"
        for line in snippet(one.cause)
    ]
    modules = [place.module for place in one.places if place.module]
    if len(modules) > 1:
        text.append(f"   {plural(len(modules), 'place')}: {printable(', '.join(modules))}")
    text.append(f"   what to do ({SAFETY[one.safety]}): {one.advice}")
    if one.fix:
        text.append(f"   straightway fix --rule {one.fix}")
    return text


SAFETY = {
    "exact": "the same numbers",
    "interface": "the caller gives or takes other tensors",
    "numbers": "other numbers: check the accuracy, or train again",
}


def summary(done: Any) -> dict[str, Any]:
    """The result as plain data."""
    return {
        "model": done.model,
        "median_ns": done.trace.median_ns,
        "partitions": len(done.program.delegates),
        "transposes": done.program.transposes,
        "inserted_transposes": done.program.inserted_transposes,
        "overhead": done.overhead,
        "notes": list(done.notes),
        "findings": [asdict(one) for one in done.findings],
    }
