"""How few partitions and layout changes a program can have, as long as it has the operators that it has.

Partitions: no delegate call may hold what comes before and behind an operator outside of it, so that there are
as many as stand behind each other on some way through the program. Layout changes: windows want channels last,
what runs outside of delegates and what names dimensions wants them first, the rest carries either; a value that
is turned is turned once for all that read it, and costs nothing where it is a row or a single number. The least
number is a minimum cut.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from straightway.domains.cut import FlowNetwork
from straightway.executorch.program import EdgeOp, ProgramMap
from straightway.trace.taxonomy import category

_IMAGE = 4
# Kernels of XNNPACK that run channels last alone (backends/xnnpack/_passes/channels_last_tagged_reshape_pass.py).
_LAST = {
    *("convolution", "max_pool2d", "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d"),
    *("upsample_bilinear2d", "mean", "prelu", "_native_batch_norm_legit_no_training"),
}
_CARRIED = {"cat", "constant_pad_nd", "slice", "clone"}
_FOREVER = 1 << 30
_FIRST_SIDE, _LAST_SIDE = 0, 1
_MOST_TOLD = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The least that a program's operators allow."""

    partitions: int
    layout_changes: int


def bound(program: ProgramMap) -> Bound:
    """Both bounds of a program whose operators are known."""
    return Bound(
        partitions=fewest_partitions(program.ops),
        layout_changes=fewest_layout_changes(
            program.ops, given_last=any(one.channels_last for one in program.inputs)
        ),
    )


def layout_changes(program: ProgramMap) -> int:
    """How many values a program turns that no operator of the model asked to turn."""
    return sum(
        _has_order(value.sizes)
        for delegate in program.delegates
        for node in delegate.nodes
        if node.is_layout and (value := delegate.value(node.inputs[0])) is not None
    )


def fewest_partitions(ops: Sequence[EdgeOp]) -> int:
    """The most delegated stretches on one way through the program."""
    behind: list[int] = []
    for op in ops:
        counts = [
            behind[k] + (op.partition is not None and ops[k].partition is None)
            for k in op.feeds_on
            if k < len(behind)
        ]
        behind.append(max([*counts, int(op.partition is not None)]))
    return max(behind, default=0)


def fewest_layout_changes(ops: Sequence[EdgeOp], *, given_last: bool = False) -> int:
    """The least number of values that are turned, by a minimum cut; source: channels first."""
    network = FlowNetwork()
    vertex = [network.add_node() for _ in ops]
    readers: dict[int, list[int]] = {}
    for place, op in enumerate(ops):
        side = _side(op)
        if side == _FIRST_SIDE:
            network.add_edge(0, vertex[place], _FOREVER)
        elif side == _LAST_SIDE:
            network.add_edge(vertex[place], 1, _FOREVER)
        for maker in op.feeds_on:
            readers.setdefault(maker, []).append(vertex[place])
        if op.is_result and not given_last:
            readers.setdefault(place, []).append(0)
    for place, reading in readers.items():
        if _is_image(ops[place]) and not ops[place].is_constant:
            _turned_once(network, vertex[place], reading)
    first = [vertex[k] for k, op in enumerate(ops) if not op.feeds_on and _reads_image(op)]
    _turned_once(network, 1 if given_last else 0, first)
    return network.minimum_cut()[0]


def _turned_once(network: FlowNetwork, maker: int, readers: Sequence[int]) -> None:
    """One unit where the maker stands with the source and a reader with the sink; or the other way."""
    there, back = network.add_node(), network.add_node()
    network.add_edge(maker, there, 1)
    network.add_edge(back, maker, 1)
    for reader in dict.fromkeys(readers):
        network.add_edge(there, reader, _FOREVER)
        network.add_edge(reader, back, _FOREVER)


def _side(op: EdgeOp) -> int | None:
    """The order that an operator's image has to have; None where it carries either."""
    if op.partition is None:
        return _FIRST_SIDE
    name = _name(op)
    if name in _LAST and _reads_image(op):
        return _LAST_SIDE
    if "quantize" in op.target or name in _CARRIED:
        return None
    ranks = {len(one.sizes) for one in (*op.inputs, *op.outputs)}
    return None if category(op.target) == "elementwise" and _IMAGE in ranks else _FIRST_SIDE


def _name(op: EdgeOp) -> str:
    parts = op.target.split(".")
    return (parts[1] if len(parts) > 2 else parts[0]).removesuffix("_copy")


def _is_image(op: EdgeOp) -> bool:
    return bool(op.outputs) and _has_order(op.outputs[0].sizes)


def _reads_image(op: EdgeOp) -> bool:
    return bool(op.inputs) and len(op.inputs[0].sizes) == _IMAGE


def _has_order(sizes: Sequence[int]) -> bool:
    """Whether it is an image in which to turn moves anything: of two dimensions that are not 1."""
    return len(sizes) == _IMAGE and sum(size != 1 for size in sizes) > 1


def left_outside(program: ProgramMap) -> Mapping[str, int]:
    """What runs outside of delegates, by name and line, the most frequent first."""
    names = Counter(
        f"{_name(op)} ({op.source.file.rpartition('/')[2]}:{op.source.line})"
        if op.source.file
        else _name(op)
        for op in program.ops
        if op.partition is None and not op.is_constant
    )
    return dict(names.most_common(_MOST_TOLD))
