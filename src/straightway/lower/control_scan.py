"""The attributes of a Scan, for any opset."""

from dataclasses import dataclass

from straightway.ir import Node
from straightway.passes.arguments import argument
from straightway.passes.control import BATCHED_UNTIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanning:
    """Axes and directions of the operands that are scanned, and of the results that are collected.

    `states`: how many operands, and as many results, come before them.
    """

    states: int
    axes: tuple[int, ...]
    backwards: tuple[bool, ...]
    result_axes: tuple[int, ...]
    result_backwards: tuple[bool, ...]


def read(node: Node) -> Scanning:
    """Read a Scan; of one over a batch, what holds for each item."""
    scanned = int(argument(node, "num_scan_inputs"))
    states = len(node.inputs) - scanned
    results = len(node.outputs) - states
    directions = "scan_input_directions"
    if node.op.version <= BATCHED_UNTIL:  # the first operand is the lengths
        states, results, directions = states - 1, results + 1, "directions"
    back = argument(node, directions) or (0,) * scanned
    result_back = argument(node, "scan_output_directions") or (0,) * results
    return Scanning(
        states=states,
        axes=tuple(argument(node, "scan_input_axes") or (0,) * scanned),
        backwards=tuple(bool(b) for b in back),
        result_axes=tuple(argument(node, "scan_output_axes") or (0,) * results),
        result_backwards=tuple(bool(b) for b in result_back),
    )
