"""ETRecords: what ExecuTorch's tools keep of a program when it is made, to tell its lines by later."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from executorch.devtools.etrecord import parse_etrecord

from straightway.errors import InvalidModel, InvalidRequest
from straightway.executorch.lowering import Lowered
from straightway.executorch.model import first_line
from straightway.executorch.origins import source_of
from straightway.ir.source import Source
from straightway.trace.taxonomy import category

_METHOD = "forward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The operators of a program by their debug handles, and the handles of its instructions."""

    operators: Mapping[int, Sequence[Source]]
    handles: Mapping[int, Sequence[int]]

    def of_handle(self, handle: int, kind: str) -> Source | None:
        """The operator of a handle; where several share it, one that does work of a kind."""
        found = self.operators.get(handle, ())
        same = [one for one in found if kind in one.op]
        like = [one for one in found if category(one.op) == category(kind)]
        return next(iter((*same, *like, *found)), None)

    def of_instruction(self, instruction: int, kernel: str) -> Source | None:
        """The operator that a step of the chain computes."""
        kind = kernel.split(".")[-2] if "." in kernel else kernel
        found = [self.of_handle(handle, kind) for handle in self.handles.get(instruction, ())]
        return next((one for one in found if one is not None), None)


def read(path: Path) -> Record:
    """Decode an ETRecord; tensors in it are read without running code.

    Raises InvalidRequest where there is none, InvalidModel for a damaged one or one without a graph.
    """
    if not path.is_file():
        raise InvalidRequest(f"{path}: there is no such file")
    try:
        found = parse_etrecord(str(path))
    except Exception as error:  # the reader fails in whatever way the damage leads to
        raise InvalidModel(f"{path}: is no ETRecord, or damaged: {first_line(error)}") from error
    program = found.edge_dialect_program
    if isinstance(program, dict):
        program = program.get(_METHOD)
    if program is None:
        raise InvalidModel(f"{path}: the ETRecord holds no graph")
    operators: dict[int, list[Source]] = defaultdict(list)
    for node in program.graph.nodes:
        handle = node.meta.get("debug_handle")
        if node.op == "call_function" and isinstance(handle, int) and not _is_part(node):
            operators[handle].append(source_of(node))
    handles = (found._debug_handle_map or {}).get(_METHOD, {})  # noqa: SLF001 - no other way
    return Record(
        operators=dict(operators),
        handles={int(step): _numbers(given) for step, given in handles.items()},
    )


def write(lowered: Lowered, path: Path) -> None:
    """Write the ETRecord of a program that was lowered with one."""
    lowered.manager.get_etrecord().save(str(path))


def _is_part(node: torch.fx.Node) -> bool:
    """Whether it only picks one result of another."""
    return "getitem" in str(node.target)


def _numbers(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)
