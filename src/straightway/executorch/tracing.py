"""From an ETDump and the program's map to a `Trace`: each event once, joined to its operator."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from straightway.errors import InvalidModel
from straightway.executorch.attribution import TFLITE_OF, Owner, owners
from straightway.executorch.etdump import Dump, Mark
from straightway.executorch.foreign import named
from straightway.executorch.program import EdgeOp, ProgramMap, Shape
from straightway.run.device import local_run
from straightway.trace.align import align
from straightway.trace.schema import Event, Op, Run, Tensor, Trace, unaccounted
from straightway.trace.statistics import median
from straightway.trace.taxonomy import xnnpack_operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How a dump was made. `tick_ns` is the length of a tick; `plain_ns` are untraced runs."""

    clock: Mapping[str, float | str]
    tick_ns: float = 1.0
    versions: Mapping[str, str]
    warmup: int = 0
    threads: int = 1
    model: str = ""
    plain_ns: tuple[int, ...] = ()
    traced_ns: tuple[int, ...] = ()
    is_local: bool = True


def trace_of(program: ProgramMap, dump: Dump, measured: Measured) -> Trace:
    """Join a dump to the program that made it.

    The program's operators become the trace's ops; where the map has none (a file made elsewhere),
    the kernels and XNNPACK's nodes are the ops. Raises InvalidModel for a dump of another program.
    """
    known = named(program)
    runs = range(min(measured.warmup, len(dump.elapsed) - 1), len(dump.elapsed))
    events = _events(known, dump, runs, measured.tick_ns)
    total_ns = tuple(dump.total[run] * measured.tick_ns for run in runs)
    parts_ns = sum(event.median_ns for event in events)
    rest = unaccounted(len(events), median(total_ns), parts_ns)
    return Trace(
        run=_run(dump, measured, len(total_ns)),
        events=(*events, rest),
        total_ns=total_ns,
        ops=tuple(_op(index, op) for index, op in enumerate(known.ops)),
    )


def _run(dump: Dump, measured: Measured, runs: int) -> Run:
    notes = []
    if dump.skipped:
        notes.append(f"{dump.skipped} runs went another way through the program and are left out")
    cost = overhead(measured)
    if cost is not None:
        notes.append(f"tracing costs {cost:+.1%} of a run")
    run = local_run(
        runtime="ExecuTorch",
        clock=measured.clock,
        versions=measured.versions,
        counts={"warmup": measured.warmup, "runs": runs, "threads": measured.threads},
        model=measured.model,
        reason="; ".join(notes),
    )
    return run if measured.is_local else replace(run, device="unknown", cpu="")


def overhead(measured: Measured) -> float | None:
    """What tracing adds to a run, as a share of it; None where no run was untraced.

    Traced and untraced runs stand in turns: the median of the ratios of neighbours.
    """
    pairs = zip(measured.traced_ns, measured.plain_ns, strict=False)
    ratios = [traced / plain for traced, plain in pairs if plain > 0]
    return median(ratios) - 1 if ratios else None


def _op(index: int, op: EdgeOp) -> Op:
    def tensors(shapes: Sequence[Shape]) -> tuple[Tensor, ...]:
        return tuple(Tensor(shape=one.sizes, dtype=one.dtype) for one in shapes)

    return Op(
        index=index,
        kind=op.target,
        name=op.name,
        inputs=tensors(op.inputs),
        outputs=tensors(op.outputs),
        file=op.source.file,
        line=op.source.line,
        code=op.source.code,
        module=op.source.module,
    )


def _events(program: ProgramMap, dump: Dump, runs: range, tick_ns: float) -> tuple[Event, ...]:
    steps = {one.index: one for one in program.instructions}
    native = {op.instruction: k for k, op in enumerate(program.ops) if op.partition is None}
    joined = _delegated(program, dump.marks)
    found = []
    for column, mark in enumerate(dump.marks):
        step = steps.get(mark.instruction)
        if step is None:
            raise InvalidModel(
                f"the ETDump is of another program: it has an instruction {mark.instruction}, "
                f"the program {len(steps)}"
            )
        samples_ns = tuple(dump.elapsed[run][column] * tick_ns for run in runs)
        owner = joined.get(column, Owner(op=native.get(mark.instruction)))
        if mark.delegated and column not in joined:
            owner = Owner(op=None)
        starts_ns = [dump.starts[run][column] * tick_ns for run in runs]
        event = Event(
            id=column,
            name=mark.name,
            kind="" if owner.op is None else program.ops[owner.op].target,
            op_index=owner.op,
            partition=step.delegate,
            place="xnnpack" if mark.delegated else "executorch",
            kernel=xnnpack_operator(mark.name)[1] if mark.delegated else "",
            start_ns=median(starts_ns),
            samples_ns=samples_ns,
            cause=owner.cause,
            forced_by=owner.forced_by,
        )
        found.append(event)
    return tuple(found)


def _delegated(program: ProgramMap, marks: Sequence[Mark]) -> Mapping[int, Owner]:
    """By column: the owner of each event of a delegate. Both lists stand in order of execution."""
    known = owners(program)
    delegates = {one.number: one for one in program.delegates}
    steps = {one.index: one.delegate for one in program.instructions}
    columns: dict[int, list[int]] = defaultdict(list)
    for column, mark in enumerate(marks):
        if mark.delegated:
            columns[mark.instruction].append(column)
    found: dict[int, Owner] = {}
    for instruction, mine in columns.items():
        number = steps.get(instruction)
        if number is None:
            continue
        nodes = delegates[number].nodes
        places = align(
            [marks[column].name for column in mine],
            [TFLITE_OF.get(node.kind, node.kind) for node in nodes],
        )
        for column, place in zip(mine, places, strict=True):
            if place is not None:
                found[column] = known.get((number, nodes[place].index), Owner(op=None))
    return found
