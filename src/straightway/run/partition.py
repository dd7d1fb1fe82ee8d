"""Which ops a delegate replaced: the interpreter tells a partition's inputs and outputs, not its ops."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Wires:
    """The tensors that an op, or a partition as a whole, reads and writes; -1 is an absent one."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Op indices by partition, in execution order of both, and those that run outside."""

    partitions: tuple[tuple[int, ...], ...] = ()
    outside: tuple[int, ...] = ()


def placement(ops: Sequence[Wires], partitions: Sequence[Wires]) -> Placement:
    """Find the ops of each partition: what lies between its inputs and its outputs.

    First backward from the outputs; then what consumes or feeds values that never leave the
    partition (ops without a used result, such as the assignment of a variable). Exact, but for ops
    without any such value: they count as outside, where they would run in no time anyway.
    """
    members: list[set[int]] = []
    taken: set[int] = set()
    producer = {tensor: index for index, op in enumerate(ops) for tensor in op.outputs}
    for partition in partitions:
        found = _backward(ops, partition, producer) - taken
        taken |= found
        members.append(found)
    for found, partition in zip(members, partitions, strict=True):
        _absorb(ops, found, taken, frozenset(partition.outputs))
    return Placement(
        partitions=tuple(tuple(sorted(found)) for found in members),
        outside=tuple(index for index in range(len(ops)) if index not in taken),
    )


def _backward(ops: Sequence[Wires], partition: Wires, producer: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    stack = list(partition.outputs)
    stop = set(partition.inputs)
    while stack:
        index = producer.get(stack.pop())
        if index is not None and index not in found:
            found.add(index)
            stack += [tensor for tensor in ops[index].inputs if tensor not in stop]
    return found


def _absorb(
    ops: Sequence[Wires], found: set[int], taken: set[int], exported: frozenset[int]
) -> None:
    """Add ops that read a value which the partition does not hand out: they must be inside."""
    internal = {t for index in found for t in ops[index].outputs if t not in exported}
    for index, op in enumerate(ops):
        if index not in taken and not internal.isdisjoint(op.inputs):
            found.add(index)
            taken.add(index)
            internal |= {tensor for tensor in op.outputs if tensor not in exported}
