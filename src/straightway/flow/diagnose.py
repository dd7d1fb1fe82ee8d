"""`diagnose`: what of a program's time computes nothing, which line causes it, and what to do."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from straightway.diagnosis.case import Case
from straightway.diagnosis.engine import diagnose as search
from straightway.diagnosis.finding import Finding
from straightway.diagnosis.rule import Rule
from straightway.diagnosis.rules.catalogue import RULES, named
from straightway.executorch.program import ProgramMap
from straightway.flow.diagnose_request import DiagnoseRequest, check, is_program
from straightway.flow.export import export
from straightway.flow.program import TraceRequest, program_map, trace
from straightway.trace.schema import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Findings of a program, those first that may save most, and what they rest on."""

    model: str
    program: ProgramMap
    trace: Trace
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def overhead(self) -> float:
        """The share of the run that all findings together may save, at most."""
        saved_ns = sum(one.saves.median for one in self.findings)
        return saved_ns / self.trace.median_ns if self.trace.median_ns > 0 else 0.0


def diagnose(model: str | Path, request: DiagnoseRequest | None = None) -> Diagnosis:
    """Diagnose a .pte file, or a PyTorch model (MODULE:FACTORY, .pt2), which is exported first.

    The map that `export` writes beside a file joins it to the model's lines; a file without one is
    told by its kernels. Raises what `export` and `profile` raise, and InvalidModel for a trace of
    another program.
    """
    asked = request or DiagnoseRequest()
    check(str(model), asked)
    rules = named(asked.rules) if asked.rules else RULES
    if is_program(str(model)):
        return _of(Path(model), str(model), asked, rules)
    with tempfile.TemporaryDirectory(prefix="straightway-") as folder:
        path = Path(folder) / "model.pte"
        done = export(str(model), path, asked.export)
        asked.export.step("tracing")
        found = _of(path, str(model), asked, rules)
        return replace(found, notes=done.exported.notes)


def _of(path: Path, name: str, asked: DiagnoseRequest, rules: Sequence[Rule]) -> Diagnosis:
    known = program_map(path)
    found = _trace(path, asked)
    case = Case(known, found)
    return Diagnosis(model=name, program=case.program, trace=found, findings=search(case, rules))


def _trace(path: Path, asked: DiagnoseRequest) -> Trace:
    if asked.trace is None:
        return trace(
            path,
            TraceRequest(
                runs=asked.runs, threads=asked.threads, inputs=asked.inputs, etdump=asked.etdump
            ),
        )
    return Trace.from_json(asked.trace.read_text(encoding="utf-8"))
