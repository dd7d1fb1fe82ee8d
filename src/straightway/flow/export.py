"""`export`: a PyTorch model as an ExecuTorch program, verified against the model itself."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from straightway.errors import (
    InvalidModel,
    InvalidRequest,
    KernelFailed,
    Mismatch,
    ToolFailed,
    Unsupported,
)
from straightway.executorch import record, runner
from straightway.executorch.exported import (
    Eager,
    Exported,
    Recipe,
    export as lower_model,
    typed_for,
)
from straightway.executorch.given import Precision
from straightway.executorch.lowering import CONFIGURATIONS, drawn
from straightway.executorch.model import Model, load
from straightway.executorch.rewrites.catalogue import INTERFACE, REWRITES
from straightway.executorch.rewrites.scene import Rewrite, keeps_state
from straightway.executorch.samples import variants
from straightway.executorch.tensors import array_of, tensor_of
from straightway.flow import files
from straightway.flow.calibration import Samples, open_data
from straightway.flow.export_request import ExportRequest, check
from straightway.flow.program import map_path, settings_of
from straightway.flow.tally import MOST_DB, nearness
from straightway.flow.tolerance import Check, compare
from straightway.ir import Graph, TensorType, Value
from straightway.remark import Remark
from straightway.run.process import Child
from straightway.run.wire import Array

STEP = "flow.export"
VARIANTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """How near a program is to its model: checks of outputs, and signal to error in dB.

    `lowering_db` is against the program before it was lowered, `model_db` against the model in
    floats. Both are the least over all outputs and inputs tried, `MOST_DB` where they are equal.
    """

    checks: tuple[Check, ...]
    lowering_db: float
    model_db: float
    inputs: int

    @property
    def equal(self) -> bool:
        """Whether all outputs are within their bounds."""
        return all(check.equal for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A written program, what it holds, how near it is, and what there is to say."""

    model: str
    path: Path
    exported: Exported
    precision: Precision
    numbers: Numbers | None
    calibration: str = ""
    is_random: bool = False
    remarks: tuple[Remark, ...] = field(default=())

    @property
    def data(self) -> bytes:
        """The .pte file."""
        return self.exported.lowered.data


def export(model: str | Model, output: str | Path, request: ExportRequest | None = None) -> Export:
    """Write `output` (.pte) and its map (.pte.json), which joins traces to the model's lines.

    Raises Unsupported where it can't be exported or lowered, Mismatch where the program computes
    other numbers than the model; it is kept as NAME.mismatch.pte then.
    """
    asked, path = request or ExportRequest(), Path(output)
    check(asked, path)
    check_configurations(asked.without)
    given = load(model) if isinstance(model, str) else model
    samples = calibration_of(given, asked)
    asked.step("exporting")
    exported = lower_model(
        given,
        Recipe(
            precision=asked.precision,
            rewrites=wanted(REWRITES if asked.fixes else (), asked),
            without=asked.without,
            samples=tensors_of(samples),
            etrecord=asked.etrecord is not None,
        ),
    )
    numbers = None
    if asked.verify:
        asked.step("comparing with the model")
        with Child() as child, located(exported):
            numbers = compared(child, exported, asked.precision)
    done = Export(
        model=given.name,
        path=path,
        exported=exported,
        precision=asked.precision,
        numbers=numbers,
        calibration="" if samples is None else samples.description,
        is_random=samples is not None and samples.is_random,
        remarks=tuple(_remarks(exported)),
    )
    _keep(done)
    if asked.etrecord is not None:
        record.write(exported.lowered, asked.etrecord)
    return done


def wanted(rewrites: Sequence[Rewrite], asked: ExportRequest) -> tuple[Rewrite, ...]:
    """These rewrites, and those of the interface that are asked for."""
    more = [one for one in INTERFACE if one not in rewrites] if asked.channels_last else []
    return (*rewrites, *more)


def check_configurations(names: Sequence[str]) -> None:
    """Raise InvalidRequest for what is no configuration of XNNPACK's partitioner."""
    for name in names:
        if name not in CONFIGURATIONS:
            raise InvalidRequest(
                f"--without {name}: the partitioner has {', '.join(CONFIGURATIONS)}"
            )


def _keep(done: Export) -> None:
    if done.numbers is not None and not done.numbers.equal:
        kept = done.path.with_suffix(".mismatch.pte")
        files.write(kept, done.data)
        wrong = next(check for check in done.numbers.checks if not check.equal)
        _check_random(done)
        raise Mismatch(
            f"{done.model}: the program computes other numbers than the model: '{wrong.name}' at "
            f"{list(wrong.place)} is {wrong.found}, should be {wrong.expected}; {wrong.reason}; "
            f"kept as {kept}",
            done.remarks,
        )
    files.write(done.path, done.data)
    files.write(map_path(done.path), done.exported.lowered.map.to_json().encode())


def _check_random(done: Export) -> None:
    """Raise Unsupported where numbers are drawn at random: no two runs are equal."""
    op = drawn(done.exported.lowered.map.ops)
    if op is not None:
        raise Unsupported(
            f"{done.model}: draws random numbers ({op.target}) at {op.source}: no two runs are equal, so "
            "nothing proves the program; give the noise as an input, or leave it out (--no-verify writes "
            "the program all the same)"
        )


@contextmanager
def located(exported: Exported) -> Iterator[None]:
    """A kernel that fails, or is not there, is told with the model's line."""
    ops = [op for op in exported.lowered.map.ops if op.partition is None]
    try:
        yield
    except KernelFailed as error:
        at = next((op for op in ops if op.instruction == error.step), None)
        if at is None:
            raise
        raise Unsupported(
            f"{exported.model.name}: ExecuTorch's kernel {error.kernel} fails at {at.source}: "
            f"{error.why}\n  what usually helps: {_helps(error.why)}"
        ) from error
    except InvalidModel as error:
        places = [f"{op.target} at {op.source}" for op in ops if op.target in str(error)]
        if not places:
            raise
        raise InvalidModel(f"{error} ({', '.join(dict.fromkeys(places))})") from error


_REMEDIES = (
    ("dtype", "convert to float32 or int32 before the program, or before this line"),
    (
        "dim order",
        "keep sizes that do not depend on data: a mask in place of indices (torch.where)",
    ),
)


def _helps(why: str) -> str:
    found = (remedy for sign, remedy in _REMEDIES if sign in why)
    return next(found, "write it in other operators, or leave it to the caller")


def calibration_of(model: Model, asked: ExportRequest) -> Samples | None:
    """The calibration data, where the precision needs any; by the names of forward's parameters."""
    if asked.precision != "int8":
        return None
    return open_data(
        asked.calibration, input_graph(model), pictures=asked.pictures, random=asked.random
    )


def input_graph(model: Model) -> Graph:
    """The model's inputs by name, as calibration data is read for."""
    graph = Graph(name=model.name)
    for name, one in zip(model.input_names, model.inputs, strict=True):
        array = array_of(one)
        graph.inputs.append(Value(name, TensorType(dtype=array.dtype, shape=array.shape)))
    return graph


def tensors_of(samples: Samples | None) -> Iterator[list[Any]]:
    """The samples as forward's arguments."""
    for sample in samples or ():
        yield [tensor_of(array) for array in sample.inputs.values()]


def compared(child: Child, exported: Exported, precision: Precision) -> Numbers:
    """Run the program, and the model in eager mode, on the example inputs and on others.

    A float program must be equal by the table of tolerances; one in half floats, to the model in
    floats, or where it overflows or is more sensitive, to itself in eager mode. An integer one is compared with the
    quantized program in eager mode: what lowering adds must not exceed what quantizing took.
    """
    checks: list[Check] = []
    lowering_db = model_db = MOST_DB
    count = 0
    tried = variants(exported.program, VARIANTS)
    settings = settings_of(exported.lowered.map)
    written = exported.lowered.written
    program, reference = Eager(exported.program, written), Eager(exported.reference, written)
    is_stateful = keeps_state(exported.program)
    with files.scratch("program.pte", exported.lowered.data) as path:
        for inputs in tried:
            arrays = [array_of(one) for one in inputs]
            try:
                model = _arrays(reference(typed_for(exported.reference, inputs)))
            except (IndexError, RuntimeError):
                if inputs is tried[0]:
                    raise
                continue  # shuffled ids of two tables may leave the smaller one
            count += 1
            found = child.call(runner.run(path, arrays, settings))
            if len(found) != len(model):
                raise ToolFailed(
                    f"{exported.model.name}: the program has {len(found)} outputs, the model {len(model)}"
                )
            want = _rounded(model, found)
            if precision != "fp16" or is_stateful or not _all_equal(found, want):
                want = _arrays(program(inputs))  # half floats take torch long on a CPU
            for k, (got, near, far) in enumerate(zip(found, want, model, strict=True)):
                checks.append(_check(f"output {k}", got, near, far, precision))
                lowering_db = min(lowering_db, nearness(near, got))
                model_db = min(model_db, nearness(far, got))
    return Numbers(
        checks=tuple(checks),
        lowering_db=float(lowering_db),
        model_db=float(model_db),
        inputs=count,
    )


def _arrays(tensors: Sequence[Any]) -> list[Array]:
    return [array_of(one) for one in tensors]


def _rounded(model: Sequence[Array], found: Sequence[Array]) -> list[Array]:
    """What the model computes, in the types of what was found."""
    with np.errstate(all="ignore"):
        return [far.astype(got.dtype) for got, far in zip(found, model, strict=True)]


def _all_equal(found: Sequence[Array], want: Sequence[Array]) -> bool:
    return all(compare("", far, got).equal for got, far in zip(found, want, strict=True))


def _check(name: str, got: Array, near: Array, far: Array, precision: Precision) -> Check:
    """An integer output's error and bound are root mean squares against the model in floats.

    What lowering adds may be as much as quantizing took, and is independent of it: √2 of that in all.
    """
    found = compare(name, near, got)
    if precision == "fp16":
        return found
    if precision == "fp32" or near.dtype.kind != "f" or found.got_type:
        return compare(name, far, got)
    error, bound = _rms(far, got), math.sqrt(2) * _rms(far, near)
    if found.equal or error <= bound:
        return replace(found, max_error=error, bound=max(error, bound), reason="")
    reason = f"is off by {error:.4g} (root mean square); quantizing alone allows {bound:.4g}"
    return replace(found, max_error=error, bound=bound, reason=reason)


def _rms(want: Array, got: Array) -> float:
    apart = want.astype(np.float64) - got.astype(np.float64)
    return float(np.sqrt(np.mean(apart**2))) if apart.size else 0.0


def _remarks(exported: Exported) -> Iterator[Remark]:
    for note in exported.model.notes:
        yield Remark(kind="done", step="executorch.model", text=note)
    for change in exported.changes:
        yield Remark(
            kind="done",
            step=f"executorch.rewrites.{change.rewrite}",
            node=change.node,
            text=change.text,
            source=str(change.source),
        )
    for op in exported.lowered.map.ops:
        if op.partition is None:
            yield Remark(
                kind="missed",
                step="executorch.lowering",
                node=op.name,
                op=op.target,
                text=op.reason,
                source=str(op.source),
            )


def undelegated(exported: Exported) -> Sequence[Any]:
    """The operators that run outside of delegates."""
    return [op for op in exported.lowered.map.ops if op.partition is None]
