"""Operators for programs from elsewhere, of which only the file is known."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from straightway.executorch.attribution import TFLITE_OF
from straightway.executorch.program import Delegate, EdgeOp, ProgramMap, Shape, XnnNode
from straightway.ir.source import Source

if TYPE_CHECKING:  # reading one takes torch
    from straightway.executorch.record import Record


def named(program: ProgramMap, record: "Record | None" = None) -> ProgramMap:
    """The program with its operators.

    Where they are unknown (a file made elsewhere), its kernels and the nodes of its delegates stand
    for them, with the lines that a record of its making tells.
    """
    if program.ops:
        return program
    ops: list[EdgeOp] = []
    delegates: dict[int, Delegate] = {}
    for step in program.instructions:
        if step.kind == "kernel":
            source = record.of_instruction(step.index, step.name) if record else None
            known = source or Source()
            ops.append(
                EdgeOp(
                    name=known.node,
                    target=step.name,
                    handle=-1,
                    partition=None,
                    instruction=step.index,
                    source=known,
                )
            )
        elif step.delegate is not None:
            delegate = program.delegates[step.delegate]
            # each node is an operator of its own: its place is its handle
            for node in delegate.nodes:
                made = _node_op(delegate, node, len(ops), step.index)
                source = record.of_handle(node.handle, made.target) if record else None
                if source is not None:
                    made = replace(made, name=source.node, source=source)
                ops.append(made)
            first = len(ops) - len(delegate.nodes)
            numbered = tuple(
                replace(node, handle=first + k) for k, node in enumerate(delegate.nodes)
            )
            delegates[delegate.number] = replace(delegate, nodes=numbered)
    return replace(
        program,
        ops=tuple(ops),
        delegates=tuple(delegates.get(one.number, one) for one in program.delegates),
    )


def _node_op(delegate: Delegate, node: XnnNode, handle: int, step: int) -> EdgeOp:
    def shapes(ids: Sequence[int]) -> tuple[Shape, ...]:
        values = [delegate.value(one) for one in ids]
        return tuple(Shape(sizes=v.sizes, dtype=v.dtype) for v in values if v is not None)

    return EdgeOp(
        name="",
        target=TFLITE_OF.get(node.kind, node.kind),
        handle=handle,
        partition=delegate.number,
        instruction=step,
        inputs=shapes(node.inputs),
        outputs=shapes([node.output]),
    )
