"""`straightway quantize`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from straightway.cli.app import (
    Dims,
    Json,
    Shapes,
    app,
    errors,
    print_json,
    print_lines,
    remark_data,
)
from straightway.cli.calibration import (
    Calibration,
    Channels,
    Floats,
    Mean,
    Method,
    Percentile,
    PerTensor,
    Random,
    Std,
    asked,
    bar,
)
from straightway.report.quantity import plural, shortened

MOST_NODES = 10
CONSTANT = "every input is one and the same number in all calibration data: ranges and accuracy say nothing"


@app.command("quantize")
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", show_default=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="QUANTIZED.onnx", show_default=False)
    ],
    calibration: Calibration = None,
    random: Random = 0,
    method: Method = "minmax",
    percentile: Percentile = 99.99,
    mean: Mean = None,
    std: Std = None,
    channels: Channels = "rgb",
    keep_float: Floats = None,
    per_tensor: PerTensor = False,
    dim: Dims = None,
    shape: Shapes = None,
    json: Json = False,
) -> None:
    """Make an 8-bit QDQ model in TFLite's scheme, which `convert` then maps one to one."""
    with errors(as_json=json), bar(f"quantizing {model.name}") as (step, advance):
        from straightway.flow.quantize import quantize  # noqa: PLC0415 - after --help

        request = asked(
            dim,
            shape,
            (mean, std, channels),
            calibration=calibration,
            random=random,
            method=method,
            percentile=percentile,
            keep_float=keep_float,
            per_tensor=per_tensor,
            step=step,
            advance=advance,
        )
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
        **{
            key: [
                {
                    "name": row.name,
                    "node": row.node,
                    "op": row.op,
                    "sqnr_db": row.sqnr_db,
                    "max_error": row.max_error,
                }
                for row in found
            ]
            for key, found in rows.items()
        },
        "remarks": [remark_data(remark) for remark in done.remarks],
    }


def lines(done: Any) -> list[str]:
    """The result in a few lines: accuracy, where it is lost, what there is to say."""
    size = f"{len(done.data):,} bytes, {plural(done.stored, 'value')} in 8 bits"
    text = [f"{done.path}: {size}, observed on {done.calibration}"]
    if done.is_random:
        text.append(
            "the inputs are made up: ranges and accuracy say little (the file says so, too)"
        )
    if done.is_constant:
        text.append(f"warning: {CONSTANT}")
    text.append(f"against the float model, on {plural(done.accuracy.samples, 'sample')}:")
    text += [
        f"  '{row.name}': {row.sqnr_db:.1f} dB signal to error, off by up to {row.max_error:.4g}"
        for row in done.accuracy.outputs
    ]
    worst = done.accuracy.worst(MOST_NODES)
    if worst:
        text.append("least accurate inside, all errors before them carried on:")
        text += [f"  {row.sqnr_db:6.1f} dB  {row.op} '{row.node}'" for row in worst]
    text += [
        f"  {remark.node}: {remark.text}" if remark.node else f"  {remark.text}"
        for remark in done.remarks
    ]
    return text
