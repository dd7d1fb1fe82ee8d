"""`straightway fix`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

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
from straightway.cli.export import Exporting, noted
from straightway.cli.groups import takes
from straightway.report.quantity import duration, plural, printable


@app.command("fix")
@takes(options=Exporting)
def command(
    model: Annotated[str, typer.Argument(metavar="MODULE:FACTORY", show_default=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="MODEL.pte", show_default=False)
    ],
    rule: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only these rewrites; else all.")
    ] = None,
    *,
    options: Exporting,
    advise: Annotated[
        bool, typer.Option("--advise", help="Print the changes to make in the model's source, too.")
    ] = False,
    json: Json = False,
) -> None:
    """Rewrite a PyTorch model for XNNPACK; keep what helps, as measured in turns, and verified."""
    with errors(as_json=json), progress(f"fixing {model}") as step:
        from straightway.executorch.given import check  # noqa: PLC0415 - after --help
        from straightway.executorch.installed import require  # noqa: PLC0415 - after --help
        from straightway.executorch.rewrites import order  # noqa: PLC0415 - after --help
        from straightway.flow import export_request  # noqa: PLC0415 - after --help

        check(model)
        order.check(rule or ())
        asked = options.request(step=step)
        export_request.check(asked, output)
        require()
        from straightway.flow.fix import fix  # noqa: PLC0415 - after torch

        done = fix(model, output, asked, rules=tuple(rule or ()))
    if json:
        print_json(summary(done))
        return
    if done.applied:
        result_console().print(table_of(done))
    print_lines(*lines(done), *noted(done.after.notes))
    if advise:
        print_lines(*advice(done))


def table_of(done: Any) -> Table:
    """Each rewrite: its promise, and its result."""
    table = Table(
        "rewrite", "places", "promised", "time: with all rewrites, over with all but this", "kept"
    )
    for one in done.applied:
        table.add_row(
            one.rewrite.title,
            str(len(one.changes)),
            f"up to {duration(one.promise_ns)}",
            str(one.result),
            "yes" if one.kept else "no",
        )
    return table


def lines(done: Any) -> list[str]:
    """Before and after."""
    from straightway.flow.fix import moved_share, transpose_ns  # noqa: PLC0415

    text = []
    helped = any(one.kept for one in done.applied)
    sides = [("as it is", done.before, done.before_trace)]
    if helped:
        sides.append(("fixed", done.after, done.after_trace))
    for name, exported, trace in sides:
        program = exported.lowered.map
        text.append(
            f"{name}: {duration(trace.median_ns)}, {plural(len(program.delegates), 'partition')}, "
            f"{plural(program.transposes, 'transpose')} of {duration(transpose_ns(trace))}, "
            f"data movement {moved_share(trace):.1%}"
        )
    text += remaining(done.after.lowered.map)
    if not helped:
        near = f"{done.numbers.model_db:.1f} dB signal to error against the model"
        return [*text, f"no rewrite helps beyond noise: {done.path} is as exported; {near}"]
    result = (
        f"{done.path}: {done.ratio} of the time, in {plural(done.ratio.pairs, 'pair')} of runs; "
        f"{done.numbers.model_db:.1f} dB signal to error against the model"
    )
    return [*text, result]


def remaining(program: Any) -> list[str]:
    """How near a program is to what its operators allow, and what stands in the way."""
    from straightway.flow.bound import bound, layout_changes, left_outside  # noqa: PLC0415

    least, outside = bound(program), left_outside(program)
    partitions = plural(least.partitions, "partition")
    changes = plural(least.layout_changes, "layout change")
    parts, turned = len(program.delegates), layout_changes(program)
    text = [
        f"as its operators stand: {parts} of at least {partitions}, {turned} of at least {changes}"
    ]
    if outside:
        told = [f"{name}{f' ×{count}' if count > 1 else ''}" for name, count in outside.items()]
        text.append(f"left outside of the delegate: {', '.join(map(printable, told))}")
    return text


def advice(done: Any) -> list[str]:
    """The change to make in the model's own source, place by place."""
    text = []
    for one in done.applied:
        if not one.kept:
            continue
        text.append(f"{one.rewrite.title}: {one.rewrite.advice}")
        seen = dict.fromkeys(
            printable(place_of(change.source, done.before.model.parts)) for change in one.changes
        )
        text += [f"  {place}" for place in seen if place]
    return text or ["nothing to change in the model's source"]


def place_of(source: Any, parts: Mapping[str, str]) -> str:
    """The line that calls it, the module that it belongs to, and the line that makes that."""
    line = f"{source.file}:{source.line} {source.code}".strip() if source.file else ""
    # a module that is called more than once has a number for each call
    path = source.module.partition("@")[0]
    part = parts.get(path, path) if path else ""
    return f"{line} ({part})" if line and part else line or part


def summary(done: Any) -> dict[str, Any]:
    """The result as plain data."""
    from straightway.flow.bound import bound, layout_changes, left_outside  # noqa: PLC0415
    from straightway.flow.fix import moved_share, transpose_ns  # noqa: PLC0415

    def side(exported: Any, trace: Any) -> dict[str, Any]:
        program = exported.lowered.map
        least = bound(program)
        return {
            "median_ns": trace.median_ns,
            "partitions": len(program.delegates),
            "transposes": program.transposes,
            "transpose_ns": transpose_ns(trace),
            "moved_share": moved_share(trace),
            "least_partitions": least.partitions,
            "layout_changes": layout_changes(program),
            "least_layout_changes": least.layout_changes,
            "outside": dict(left_outside(program)),
        }

    return {
        "model": done.model,
        "output": str(done.path),
        "before": side(done.before, done.before_trace),
        "after": side(done.after, done.after_trace),
        "ratio": {
            "median": done.ratio.median,
            "low": done.ratio.low,
            "high": done.ratio.high,
            "pairs": done.ratio.pairs,
        },
        "model_db": done.numbers.model_db,
        "notes": list(done.after.notes),
        "fixes": [
            {
                "name": one.rewrite.name,
                "title": one.rewrite.title,
                "advice": one.rewrite.advice,
                "safety": one.rewrite.safety,
                "places": [
                    place_of(change.source, done.before.model.parts) for change in one.changes
                ],
                "promise_ns": one.promise_ns,
                "ratio": one.result.median,
                "low": one.result.low,
                "high": one.result.high,
                "kept": one.kept,
            }
            for one in done.applied
        ],
    }
