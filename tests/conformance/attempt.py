"""Converts one case of the suite, runs the file, and says how that ended."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from conformance.suite import SuiteCase
from straightway.errors import InvalidModel, StraightwayError, Unsupported
from straightway.flow.convert import convert
from straightway.run import litert
from straightway.run.process import Child
from straightway.tflite.read import read

ENGINES = ("litert", "onnxruntime")
Status = Literal["pass", "refused", "wrong", "crash"]
# relative and absolute; other types are compared exactly
TOLERANCES = {
    "float64": (1e-3, 1e-4),
    "float32": (1e-3, 1e-4),
    "float16": (1e-2, 1e-3),
    "bfloat16": (5e-2, 1e-2),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one case ended; `reason` is the first line of what stands against it."""

    status: Status
    reason: str = ""


class Wrong(Exception):
    """A file came out that is not the model that was asked for."""


def attempt(case: SuiteCase, child: Child, folder: Path, *, verify: bool) -> Outcome:
    """Convert, run, compare. Where it is verification that stops a file, the case is wrong."""
    source, target = folder / "case.onnx", folder / "case.tflite"
    target.unlink(missing_ok=True)
    onnx.save(case.model, source)
    try:
        convert(source, target, verify=verify, child=child if verify else None)
        _run(case, child, target)
    except (Unsupported, InvalidModel) as error:
        return Outcome(status="refused", reason=_reason(error, source))
    except (Wrong, StraightwayError) as error:
        return Outcome(status="wrong", reason=f"{type(error).__name__}: {_lines(error, source)}")
    except Exception as error:  # noqa: BLE001 - whatever happens, the other cases count
        return Outcome(status="crash", reason=f"{type(error).__name__}: {_lines(error, source)}")
    return Outcome(status="pass")


def _reason(error: Unsupported | InvalidModel, source: Path) -> str:
    if isinstance(error, Unsupported) and error.remarks:
        return error.remarks[0].text
    return " ".join(str(error).replace(f"{source}: ", "").split())


def _lines(error: Exception, source: Path) -> str:
    return " ".join(str(error).replace(str(source.parent), "").split())[:300]


def _run(case: SuiteCase, child: Child, target: Path) -> None:
    """Compare what the file gives on every data set; raises Wrong."""
    main = read(target).main
    outputs = [value.name for value in case.model.graph.output]
    for kind, places, names in (("in", main.inputs, case.inputs), ("out", main.outputs, outputs)):
        found = [main.tensors[place].name for place in places]
        if found != names:
            raise Wrong(f"{kind}puts are {found}, not {names}")
    for given, wanted in case.sets:
        found = child.call(litert.run(target, given)).outputs
        for name, want, got in zip(outputs, wanted, found, strict=True):
            check(name, want, got)


def check(name: str, want: np.ndarray, got: np.ndarray) -> None:
    """Compare one output; raises Wrong."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        raise Wrong(f"'{name}' is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}")
    relative, absolute = TOLERANCES.get(want.dtype.name, (0.0, 0.0))
    if want.dtype.name in TOLERANCES:
        want, got = want.astype(float), got.astype(float)
        bad = ~np.isclose(got, want, relative, absolute, equal_nan=True)
    else:
        bad = got != want
    if bad.any():
        error = np.nanmax(np.abs(want.astype(float) - got.astype(float)))
        raise Wrong(f"'{name}' differs by {error:.4g} in {bad.sum()} of {want.size} places")
