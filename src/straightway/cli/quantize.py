"""`straightway quantize`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from straightway.cli.app import (
    Dims,
    Json,
    Shapes,
    Target,
    app,
    errors,
    print_json,
    print_lines,
    remark_data,
)
from straightway.cli.calibration import Quantizing, bar
from straightway.cli.conversions import border_lines
from straightway.cli.groups import takes
from straightway.report.quantity import percent, plural, shortened

MOST_NODES = 10
NAMED = 4
CONSTANT = "every input is one and the same number in all calibration data: ranges and accuracy say nothing"
NOTHING = (
    "no value between operators is stored as integers: what was asked for leaves all in floats"
)


@app.command("quantize")
@takes(options=Quantizing)
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", show_default=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="QUANTIZED.onnx", show_default=False)
    ],
    *,
    options: Quantizing,
    target: Target = "litert",
    dim: Dims = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Make an 8-bit QDQ model in TFLite's scheme, which `convert` then maps one to one."""
    with errors(as_json=json), bar(f"quantizing {model.name}") as (step, advance):
        from straightway.flow.quantize import quantize  # noqa: PLC0415 - after --help

        request = options.request(dim, shape, target=target, step=step, advance=advance)
        done = quantize(model, output, request)
    if json:
        print_json(summary(done))
        return
    print_lines(*(shortened(line) for line in lines(done)))


def summary(done: Any) -> dict[str, Any]:
    """The result as plain data."""
    rows = {
        "outputs": done.accuracy.outputs,
        "nodes": done.accuracy.worst(len(done.accuracy.inside)),
    }
    return {
        "model": str(done.model),
        "output": str(done.path),
        "bytes": len(done.data),
        "calibration": done.calibration,
        "random": done.is_random,
        "constant": done.is_constant,
        "stored_values": done.stored,
        "compared_samples": done.accuracy.samples,
        "loss": done.accuracy.loss,
        "shares": done.accuracy.shares_note,
        **{key: [asdict(row) for row in found] for key, found in rows.items()},
        "inputs": dict(done.accuracy.inputs),
        "branches": [asdict(branch) for branch in done.accuracy.branches],
        "borders": [asdict(border) for border in done.borders],
        "floats": dict(done.floats),
        "int16": list(done.wide),
        "remarks": [remark_data(remark) for remark in done.remarks],
    }


def lines(done: Any) -> list[str]:
    """The result in a few lines: accuracy, where it is lost, what there is to say."""
    wide = f", {plural(len(done.wide), 'node')} with 16" if done.wide else ""
    whole = f"{len(done.data):,} bytes, {plural(done.stored, 'value')} in {done.bits} bits{wide}"
    text = [f"{done.path}: {whole}, observed on {done.calibration}"]
    if done.is_random:
        text.append(
            "the inputs are made up: ranges and accuracy say little (the file says so, too)"
        )
    if not done.stored:
        text.append(f"warning: {NOTHING}")
    if done.is_constant:
        text.append(f"warning: {CONSTANT}")
    text.append(f"against the float model, on {plural(done.accuracy.samples, 'sample')}:")
    text += [
        f"  '{row.name}': {row.sqnr_db:.1f} dB signal to error, off by up to {row.max_error:.4g}"
        for row in done.accuracy.outputs
    ]
    text += causes(done.accuracy)
    worst = done.accuracy.worst(MOST_NODES)
    if worst:
        text.append("least accurate inside, all errors before them carried on:")
        text += [f"  {row.sqnr_db:6.1f} dB  {row.op} '{row.node}'" for row in worst]
    return [*text, *border_lines(done.borders), *grouped(done.remarks)]


def causes(near: Any) -> list[str]:
    """The nodes that cause most of the end error, where that was measured."""
    found = near.causes(MOST_NODES)
    if not near.shares_note:
        return []
    text = ["share of the end error:"]
    ends = {f"input '{name}'": share for name, share in near.inputs.items()}
    told = {**{f"{row.op} '{row.node}'": row.share for row in found}, **ends}
    ranked = sorted(told.items(), key=lambda pair: -pair[1])[:MOST_NODES]
    text += [f"  {percent(share):>8}  {name}" for name, share in ranked]
    return [*text, f"  ({near.shares_note})"]


def grouped(remarks: Any) -> list[str]:
    """Remarks of one text together, by how many nodes they are said of."""
    by_text: dict[str, list[str]] = {}
    for remark in remarks:
        by_text.setdefault(remark.text, []).append(remark.node)
    text = []
    for said, nodes in by_text.items():
        names = [name for name in dict.fromkeys(nodes) if name]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        listed = f"{', '.join(names[:NAMED])}{more}: " if names else ""
        text.append(f"  {listed}{said}")
    return text
