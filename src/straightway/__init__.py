"""straightway: from a trained model to the fastest instructions on a device.

The functions here are what the commands of the same names do. Engines and readers are imported when
a function is called: `import straightway` alone stays light.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from straightway.errors import (
    Bug,
    Impossible,
    InvalidModel,
    InvalidRequest,
    Mismatch,
    NotYet,
    StraightwayError,
    ToolFailed,
    Unsupported,
)
from straightway.remark import Remark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from straightway.flow.compare import Comparison
    from straightway.flow.convert import Conversion
    from straightway.flow.deploy import Deployment
    from straightway.flow.diagnose import Diagnosis
    from straightway.flow.export import Export
    from straightway.flow.fix import Fix
    from straightway.flow.quantize import Quantization
    from straightway.flow.verify import Verification
    from straightway.trace.difference import Difference
    from straightway.trace.schema import Trace

__version__ = "0.1.0"

__all__ = [
    "Bug",
    "Impossible",
    "InvalidModel",
    "InvalidRequest",
    "Mismatch",
    "NotYet",
    "Remark",
    "StraightwayError",
    "ToolFailed",
    "Unsupported",
    "compare",
    "convert",
    "deploy",
    "diagnose",
    "export",
    "fix",
    "profile",
    "quantize",
    "verify",
]


def convert(
    model: str | Path,
    output: str | Path | None = None,
    *,
    verify: bool | None = None,
    **options: Any,
) -> "Conversion":
    """Convert an ONNX model to a TFLite file and prove that it computes the same numbers.

    `options`: `dims` {symbol: size}, `shapes` {input: sizes}, `io` "keep" or "nhwc", `inputs` (an
    .npz to compare on), `seeds`, `target` (of `straightway targets`), `io_type` "float", "integer",
    "int8", "uint8" or "int16". Without `output` the file is only in the result's `data`.

    Raises Unsupported (attribute `refused`; `.remarks` lists each node, its reason, its source and
    what would work), InvalidModel, Mismatch, ToolFailed, InvalidRequest.
    """
    from straightway.flow.convert import convert as run  # noqa: PLC0415

    return run(model, output, verify=verify, **options)


def deploy(
    model: str | Path,
    output: str | Path,
    *,
    int8: "Mapping[str, object] | None" = None,
    **options: Any,
) -> "Deployment":
    """Convert, verify, measure operator by operator, and write `output`/report.html.

    `options` as for `convert`; `int8` has those of `quantize`, which then comes first. Raises what
    `convert` raises.
    """
    from straightway.flow.convert import request_of  # noqa: PLC0415
    from straightway.flow.deploy import deploy as run  # noqa: PLC0415

    request = request_of(options)
    if int8 is None:
        return run(model, output, request=request)
    from straightway.flow import quantize_request  # noqa: PLC0415

    shared: dict[str, object] = {"dims": request.dims, "shapes": request.shapes}
    if request.target:
        shared["target"] = request.target
    asked = quantize_request.request_of({**shared, **int8})
    return run(model, output, request=request, quantization=asked)


def quantize(model: str | Path, output: str | Path | None = None, **options: Any) -> "Quantization":
    """Make an 8-bit QDQ model in TFLite's scheme, which `convert` then maps one to one.

    `options`: `calibration` (a folder, an .npz, "module:function" or a function that yields inputs),
    `random` (so many made-up inputs instead), `method` "minmax", "percentile", "mse" or "entropy",
    `keep_float`, `int16` (names of nodes), `max_loss` (the greatest error of an output over the output, each its
    root mean square; what loses too much stays in floats), `sensitivity` (on so many samples the share
    of each node in the end error is measured), `per_channel`, `target` (of `straightway targets`),
    `activations` "int8" or "int16", `dims`, `shapes`. Raises what `convert` raises.
    """
    from straightway.flow.quantize import quantize as run  # noqa: PLC0415
    from straightway.flow.quantize_request import request_of  # noqa: PLC0415

    return run(model, output, request_of(options))


def compare(a: str | Path, b: str | Path, **options: Any) -> "Comparison | Difference":
    """Say which of two quantizations is nearer to the float model, or how two traces differ.

    `a`, `b`: ONNX or TFLite files, or two traces of `profile` (no options). `options`: `reference` (the float ONNX model), `calibration` or
    `random` as for `quantize`, `samples`, `max_drop_db`, `dims`, `shapes`.
    """
    from straightway.flow.compare import compare as run, request_of  # noqa: PLC0415

    return run(a, b, request_of(options))


def verify(reference: str | Path, candidate: str | Path, **options: Any) -> "Verification":
    """Compare a TFLite file with the ONNX model that it should compute.

    `options` as for `convert`. The result says what was compared, what differs, and where first.
    """
    from straightway.flow.convert import request_of  # noqa: PLC0415
    from straightway.flow.pair import verify_pair  # noqa: PLC0415

    return verify_pair(Path(reference), Path(candidate), request_of(options))


def profile(model: str | Path, *, runs: int = 30, threads: int = 1, **options: Any) -> "Trace":
    """Measure a .tflite or .onnx file operator by operator on this machine.

    `options` as for `convert`: they say which shapes and inputs to run it on.
    """
    from straightway.flow.convert import request_of  # noqa: PLC0415
    from straightway.flow.profile import profile as run  # noqa: PLC0415

    return run(Path(model), request_of(options), runs=runs, threads=threads)


def export(model: str, output: str | Path, **options: Any) -> "Export":
    """Export a PyTorch model (MODULE:FACTORY or a .pt2) as an ExecuTorch program, verified.

    `options`: `precision` "fp32", "fp16", "int8", "int8-dynamic" or "int4"; `calibration` or `random`
    for "int8", as for `quantize`; `fixes` (all rewrites), `without` (configurations of XNNPACK's
    partitioner), `verify`.

    Raises Unsupported where torch or ExecuTorch can't, Mismatch, InvalidRequest, and ToolFailed
    without the extra.
    """
    from straightway.executorch.installed import require  # noqa: PLC0415

    require()
    from straightway.flow.export import export as run  # noqa: PLC0415
    from straightway.flow.export_request import ExportRequest  # noqa: PLC0415

    return run(model, output, ExportRequest(**options))


def diagnose(model: str | Path, **options: Any) -> "Diagnosis":
    """Find what computes nothing in an ExecuTorch program, and the line of the model that causes it.

    `model` is a .pte file or what `export` takes; `options` are the fields of
    `flow.diagnose.DiagnoseRequest`: `trace`, `etdump`, `runs`, `rules` and others. Raises what
    `export` and `profile` raise.
    """
    from straightway.executorch.installed import require  # noqa: PLC0415 - after the base import

    require()
    from straightway.flow.diagnose import diagnose as run  # noqa: PLC0415
    from straightway.flow.diagnose_request import DiagnoseRequest  # noqa: PLC0415

    return run(model, DiagnoseRequest(**options))


def fix(model: str, output: str | Path, *, rules: tuple[str, ...] = (), **options: Any) -> "Fix":
    """Rewrite a PyTorch model for XNNPACK, measure each rewrite, keep what helps, verified.

    `rules` names rewrites; else all are tried. `options` as for `export`.
    """
    from straightway.executorch.installed import require  # noqa: PLC0415

    require()
    from straightway.flow.export_request import ExportRequest  # noqa: PLC0415
    from straightway.flow.fix import fix as run  # noqa: PLC0415

    return run(model, output, ExportRequest(**options), rules=rules)
