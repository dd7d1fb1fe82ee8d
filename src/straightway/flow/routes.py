"""One PyTorch model on two ways to one CPU: ExecuTorch, and ONNX to TFLite on LiteRT."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from straightway.errors import Mismatch, ToolFailed
from straightway.executorch.model import Model, load
from straightway.executorch.onnx_route import write_onnx
from straightway.executorch.tensors import array_of
from straightway.flow.convert import Conversion, convert, stored_inputs
from straightway.flow.export import export
from straightway.flow.export_request import ExportRequest
from straightway.flow.meeting import Meeting
from straightway.flow.program import TraceRequest, settings_of, trace as trace_program
from straightway.flow.progress import Step, quiet
from straightway.flow.tally import nearness
from straightway.flow.turns import in_turns
from straightway.run import litert
from straightway.run.process import Child
from straightway.run.race import Entrant
from straightway.trace.difference import Difference, difference
from straightway.trace.schema import Trace
from straightway.trace.statistics import Ratio

TRACED_RUNS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Both results of one model: traces of one schema, and how they compare.

    `ratio` is LiteRT's whole time over ExecuTorch's, measured in turns; `apart_db` how near their
    outputs are to each other.
    """

    model: str
    executorch: Trace
    litert: Trace
    ratio: Ratio
    difference: Difference
    apart_db: float


def routes(model: str | Model, *, fixes: bool = False, step: Step = quiet) -> Routes:
    """Export, convert, verify both against the model, trace both, and race them.

    Raises what `export` and `convert` raise, ToolFailed where the ONNX exporter is missing or fails.
    """
    given = load(model) if isinstance(model, str) else model
    with tempfile.TemporaryDirectory(prefix="straightway-") as name:
        folder = Path(name)
        program, onnx, file = (folder / f"model.{kind}" for kind in ("pte", "onnx", "tflite"))
        step("to ExecuTorch")
        done = export(given, program, ExportRequest(fixes=fixes))
        step("to ONNX")
        write_onnx(given, onnx)
        step("to TFLite")
        conversion = convert(onnx, file)
        step("tracing both")
        first = trace_program(program, TraceRequest(runs=TRACED_RUNS))
        stored = stored_inputs(conversion.translation, conversion.arrays)
        with Child(measure=True) as child:
            second = litert.measure(child, file, list(stored.values()), runs=TRACED_RUNS)
        known = done.exported.lowered.map
        meeting = Meeting(known.ops, conversion.translation.written.operators)
        second = meeting.placed(second)
        step("racing both")
        arrays = {str(k): array_of(one) for k, one in enumerate(given.inputs)}
        last = settings_of(known).channels_last
        entrants = [
            Entrant(
                engine="executorch",
                path=program,
                inputs=arrays,
                options={"channels_last": list(last)},
            ),
            Entrant(engine="litert", path=file, inputs=_fed(conversion, list(arrays.values()))),
        ]

        ratio = in_turns(entrants[1], entrants[0])
        apart_db = _apart(program, file, list(arrays.values()), conversion)
    return Routes(
        model=given.name,
        executorch=first,
        litert=second,
        ratio=ratio,
        difference=difference(first, second, places=meeting.key()),
        apart_db=apart_db,
    )


def _fed(conversion: Conversion, arrays: list[np.ndarray]) -> Mapping[str, np.ndarray]:
    """The model's example inputs as the file takes them; ONNX keeps their order."""
    names = list(conversion.arrays)
    if len(names) != len(arrays):
        raise ToolFailed(
            f"the ONNX model has {len(names)} inputs, the PyTorch model {len(arrays)}: an input that "
            "does not matter is dropped by one of the exporters"
        )
    return stored_inputs(conversion.translation, dict(zip(names, arrays, strict=True)))


def _apart(program: Path, file: Path, arrays: list[np.ndarray], conversion: Conversion) -> float:
    from straightway.executorch import runner  # noqa: PLC0415 - beside its only use

    with Child() as child:
        ours = child.call(runner.run(program, arrays))
        fed = _fed(conversion, arrays)
        theirs = child.call(litert.run(file, list(fed.values()))).outputs
    # one exporter may drop an output that is an input, or that occurs twice
    pairs = list(zip(ours, theirs, strict=False))
    odd = next(((a.shape, b.shape) for a, b in pairs if a.shape != b.shape), None)
    if odd is not None:
        raise Mismatch(f"the two ways' outputs are of shapes {odd[0]} and {odd[1]}")
    return min((nearness(a, b) for a, b in pairs), default=-np.inf)
