"""What is asked of a diagnosis, checked before torch is imported, which takes seconds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from straightway.diagnosis.rules.catalogue import named
from straightway.errors import InvalidRequest
from straightway.executorch.given import check as check_model
from straightway.flow import export_request
from straightway.flow.export_request import ExportRequest

RUNS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnoseRequest:
    """What is asked of a diagnosis.

    `trace` is one that `profile` wrote, `etdump` one of ExecuTorch's, made elsewhere; without either
    the program is run here. `rules` are names, none for all. `export` says how a model is exported.
    """

    trace: Path | None = None
    etdump: Path | None = None
    inputs: Path | None = None
    runs: int = RUNS
    threads: int = 1
    rules: Sequence[str] = ()
    export: ExportRequest = field(default_factory=ExportRequest)


def is_program(model: str) -> bool:
    """Whether it is lowered already, by its name."""
    return Path(model).suffix.lower() == ".pte"


def check(model: str, asked: DiagnoseRequest) -> None:
    """Refuse what contradicts itself, and files that are not there; raises InvalidRequest."""
    named(asked.rules)
    if asked.trace is not None and asked.etdump is not None:
        raise InvalidRequest("give one trace: --trace or --etdump")
    traces = [one for one in (asked.trace, asked.etdump) if one is not None]
    given = [one for one in (*traces, asked.inputs) if one is not None]
    if not is_program(model):
        check_model(model)
        export_request.check(asked.export)
        if traces:
            raise InvalidRequest(f"{model}: a trace belongs to a file; give the .pte that it is of")
    else:
        given.append(Path(model))
    for file in given:
        if not file.is_file():
            raise InvalidRequest(f"{file}: there is no such file")
