"""`straightway export`."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from straightway.cli.app import (
    Json,
    add_named,
    app,
    errors,
    print_json,
    print_lines,
    progress,
    remark_data,
    result_console,
    table_for,
)
from straightway.cli.calibration import Data
from straightway.cli.groups import takes
from straightway.errors import InvalidRequest
from straightway.report.quantity import plural, printable

_MOST_NAMED = 3
_SHORT = ("int8", "int8-dynamic", "int4")
Dtype = Annotated[str, typer.Option(help="fp32 or fp16.")]
Int8 = Annotated[bool, typer.Option("--int8", help="8-bit weights and activations.")]
Int8Dynamic = Annotated[
    bool, typer.Option("--int8-dynamic", help="8-bit weights; activations quantized as they come.")
]
Int4 = Annotated[bool, typer.Option("--int4", help="4-bit weights of linear layers.")]
ChannelsLast = Annotated[
    bool,
    typer.Option("--channels-last", help="Have images given in NHWC: changes the interface."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporting(Data):
    """What a program is asked for with."""

    dtype: Dtype = "fp32"
    int8: Int8 = False
    int8_dynamic: Int8Dynamic = False
    int4: Int4 = False
    channels_last: ChannelsLast = False

    def request(self, **more: Any) -> Any:
        """What these options ask for; raises InvalidRequest."""
        from straightway.flow.export_request import ExportRequest  # noqa: PLC0415 - after --help

        return ExportRequest(
            precision=precision_of(self.dtype, (self.int8, self.int8_dynamic, self.int4)),
            calibration=self.calibration,
            random=self.random,
            pictures=self.pictures(),
            channels_last=self.channels_last,
            **more,
        )


@app.command("export")
@takes(options=Exporting)
def command(
    model: Annotated[str, typer.Argument(metavar="MODULE:FACTORY", show_default=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="MODEL.pte", show_default=False)
    ],
    *,
    options: Exporting,
    fixes: Annotated[bool, typer.Option("--fixes", help="Apply all rewrites (see `fix`).")] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONFIG", help="Leave out a rule of XNNPACK's partitioner: BatchNormConfig."
        ),
    ] = None,
    etrecord: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write ExecuTorch's own record of the program, too."),
    ] = None,
    verify: Annotated[bool, typer.Option(help="Run it and compare with the model.")] = True,
    json: Json = False,
) -> None:
    """Export a PyTorch model (MODULE:FACTORY, FILE.py:FACTORY or a .pt2) as an ExecuTorch program."""
    with errors(as_json=json), progress(f"exporting {model}") as step:
        from straightway.executorch.given import check  # noqa: PLC0415 - after --help
        from straightway.executorch.installed import require  # noqa: PLC0415 - after --help
        from straightway.flow import export_request  # noqa: PLC0415 - after --help

        check(model)
        asked = options.request(
            fixes=fixes,
            without=tuple(without or ()),
            etrecord=etrecord,
            verify=verify,
            step=step,
        )
        export_request.check(asked, output)
        require()
        from straightway.flow.export import export  # noqa: PLC0415 - after torch

        done = export(model, output, asked)
    if json:
        print_json(summary(done))
        return
    print_lines(*lines(done))
    if table := outside(done):
        result_console().print(table)


def precision_of(dtype: str, flags: tuple[bool, bool, bool]) -> Any:
    """The precision that the options name; raises InvalidRequest for more than one."""
    chosen = [name for name, flag in zip(_SHORT, flags, strict=True) if flag]
    if len(chosen) > 1 or (chosen and dtype != "fp32"):
        raise InvalidRequest("one of --dtype fp16, --int8, --int8-dynamic, --int4 at a time")
    if dtype.lower() not in {"fp32", "fp16"}:
        raise InvalidRequest(f"--dtype is fp32 or fp16; got {dtype}")
    return chosen[0] if chosen else dtype.lower()


def summary(done: Any) -> dict[str, Any]:
    """The result as plain data."""
    program, numbers = done.exported.lowered.map, done.numbers
    return {
        "model": done.model,
        "output": str(done.path),
        "bytes": len(done.data),
        "precision": done.precision,
        "partitions": len(program.delegates),
        "operators": len(program.ops),
        "delegated": sum(op.partition is not None for op in program.ops),
        "transposes": program.transposes,
        "inserted_transposes": program.inserted_transposes,
        "verified": None if numbers is None else numbers.equal,
        "lowering_db": None if numbers is None else numbers.lowering_db,
        "model_db": None if numbers is None else numbers.model_db,
        "calibration": done.calibration,
        "random": done.is_random,
        "remarks": [remark_data(remark) for remark in done.remarks],
    }


def lines(done: Any) -> list[str]:
    """The result in a few lines."""
    program, numbers = done.exported.lowered.map, done.numbers
    inside = sum(op.partition is not None for op in program.ops)
    partitions = plural(len(program.delegates), "XNNPACK partition")
    first = (
        f"{done.path}: {len(done.data):,} bytes, {done.precision}; {inside} of "
        f"{plural(len(program.ops), 'operator')} in {partitions}, "
        f"{plural(program.transposes, 'transpose')} ({program.inserted_transposes} inserted for layout)"
    )
    text = [first]
    if done.calibration:
        brand = "; made up: accuracy says little" if done.is_random else ""
        text.append(f"observed on {done.calibration}{brand}")
    if numbers is not None:
        text.append(
            f"equal to the model on {plural(numbers.inputs, 'set')} of inputs: "
            f"{numbers.model_db:.1f} dB signal to error"
        )
    return [*text, *noted(done.exported.notes)]


def noted(notes: Iterable[str]) -> list[str]:
    """What was done unasked."""
    return [f"note: {printable(note)}" for note in notes]


def outside(done: Any) -> Table | None:
    """What runs outside of the delegate, and why; alike ones in one row."""
    rows: dict[tuple[str, str], list[Any]] = {}
    for op in done.exported.lowered.map.ops:
        if op.partition is None:
            rows.setdefault((op.target, op.reason), []).append(op.source)
    if not rows:
        return None
    columns = ("not delegated", "count", "why", "in the model", "line")
    table = table_for(result_console(), columns, ("in the model",))
    for (target, reason), sources in rows.items():
        lines = [f"{Path(one.file).name}:{one.line}" if one.file else "" for one in sources]
        row = (
            printable(target),
            str(len(sources)),
            printable(reason),
            _first(printable(one.module) for one in sources),
            _first(lines),
        )
        add_named(table, dict(zip(columns, row, strict=True)))
    return table


def _first(names: Iterable[str]) -> str:
    """Up to three, each once."""
    found = [name for name in dict.fromkeys(names) if name]
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return ", ".join(found[:_MOST_NAMED]) + more
