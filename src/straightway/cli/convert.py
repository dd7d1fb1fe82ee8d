"""`straightway convert`."""

from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from straightway.cli.app import (
    Block,
    Dims,
    InputOutput,
    InputOutputType,
    Inputs,
    Json,
    Shapes,
    Target,
    Weights,
    app,
    errors,
    print_json,
    print_lines,
    progress,
    remark_data,
    request,
)
from straightway.cli.conversions import border_lines
from straightway.report.quantity import plural, shortened

# of the remarks, what became of inputs and outputs is told at once
STEPS = (
    "quant.weights_only",
    "flow.stored_weights",
    "domains.images",
    "quant.ends",
    "quant.asymmetric",
    "quant.narrowing",
    "flow.kernels",
)
# and why nothing was compared
LIMITS = "flow.limits"
# and which dimensions are no longer apart, or open
OPEN = "flow.open.sizes"
ENGINES = ("litert", "onnxruntime")


@app.command("convert")
def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL.onnx", show_default=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="MODEL.tflite", show_default=False)
    ],
    dim: Dims = None,
    shape: Shapes = None,
    io: InputOutput = "keep",
    io_type: InputOutputType = "",
    target: Target = "",
    weights: Weights = "float32",
    block: Block = 0,
    inputs: Inputs = None,
    verify: Annotated[
        bool | None,
        typer.Option(
            help="Run both files and compare the numbers; the default up to 2 GB of weights.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Convert an ONNX model directly to a TFLite file, and prove that it computes the same."""
    with ExitStack() as stack:
        stack.enter_context(errors(as_json=json))
        step = stack.enter_context(progress(f"converting {model.name}"))
        from straightway.run.process import Child  # noqa: PLC0415 - after --help

        # started before the rest is imported: its engines load meanwhile
        child = stack.enter_context(Child(engines=ENGINES)) if verify is not False else None
        from straightway.flow.convert import convert  # noqa: PLC0415

        asked = request(
            dim,
            shape,
            io=io.lower(),
            io_type=io_type.lower(),
            target=target,
            weights=weights.lower(),
            block=block,
            inputs=inputs,
            step=step,
        )
        conversion = convert(model, output, verify=verify, request=asked, child=child)
    if json:
        print_json(summary(conversion))
        return
    print_lines(*lines(conversion))


def summary(conversion: Any) -> dict[str, Any]:
    """The result as plain data."""
    found, plan = conversion.verification, conversion.translation.layout.plan
    return {
        "model": str(conversion.model),
        "output": str(conversion.path),
        "bytes": conversion.size_bytes,
        "ops": len(conversion.translation.written.operators),
        "partitions": len(found.ran.placement.partitions) if found is not None else None,
        "open": list(conversion.sizes),
        "verified": None if found is None else found.equal,
        "worst_error": None if found is None else float(found.worst.max_error),
        "bound": None if found is None else float(found.worst.bound),
        "note": "" if found is None else found.note,
        "layout": {
            "conversions": [str(c) for c in plan.conversions],
            "minimal": plan.minimal,
            "cost_bytes": plan.cost_bytes,
            "bound_bytes": plan.bound_bytes,
        },
        "borders": [asdict(border) for border in conversion.borders],
        "remarks": [remark_data(remark) for remark in conversion.remarks],
        "cpu_seconds": conversion.translation.steps_s,
    }


def lines(conversion: Any) -> list[str]:
    """The result in a few lines."""
    found, translation = conversion.verification, conversion.translation
    ops = len(translation.written.operators)
    size = f"{conversion.size_bytes:,} bytes, {ops} ops from {translation.node_count} nodes"
    text = [f"{conversion.path}: {size}"]
    if found is None:
        reasons = [remark.text for remark in conversion.remarks if remark.step == LIMITS]
        text.append(f"not verified: {', '.join(reasons) or '--no-verify'}")
    else:
        worst = found.worst
        text.append(
            f"equal to onnxruntime: {plural(len(found.outputs) // found.seeds, 'output')} on "
            f"{plural(found.seeds, 'set')} of inputs, "
            f"{plural(len(found.interior), 'interior value')}; nearest to its bound: "
            f"'{worst.name}', "
            f"{worst.max_error:.3g} of {worst.bound:.3g}"
        )
        if conversion.sizes:
            text.append(f"{', '.join(conversion.sizes)} stay open: each set has other sizes")
            text += [r.text for r in conversion.remarks if r.step == OPEN]
        if found.note:
            text.append(found.note)
        partitions, outside = found.ran.placement.partitions, found.ran.placement.outside
        where = "on this machine " if translation.form.device else ""
        text.append(
            f"{where}XNNPACK takes {plural(sum(map(len, partitions)), 'op')} in "
            f"{plural(len(partitions), 'partition')}; {len(outside)} outside"
        )
    text.append(translation.layout.plan.verdict())
    text += [f"  {c}" for c in translation.layout.plan.conversions]
    text += [shortened(line) for line in border_lines(conversion.borders)]
    text += [remark.text for remark in conversion.remarks if remark.step in STEPS]
    return text
