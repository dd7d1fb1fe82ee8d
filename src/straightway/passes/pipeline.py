"""From a graph as ingested to one that is ready to be lowered: typed, folded, without detours.

    fold ─ ( implied ─ identity ─ broadcast ─ dedup ─ fake_quantize ─ composites ─ padding ─ affine ─ dead )*

What is spelled out is named before scales are folded into weights: the 1/6 of a HardSwish and the scale
of a rounding belong to these, not to the convolution after them.
"""

from straightway.ir import Graph
from straightway.passes import (
    affine,
    broadcast,
    composites,
    dead,
    dedup,
    fake_quantize,
    fold,
    identity,
    implied,
    padding,
)
from straightway.passes.types import Otherwise, unknown
from straightway.remark import Remark

PASSES = (implied, identity, broadcast, dedup, fake_quantize, composites, padding, affine, dead)
# Each round feeds on what the one before uncovered; models need two or three.
MOST_ROUNDS = 8


def prepare(graph: Graph, otherwise: Otherwise = unknown) -> list[Remark]:
    """Type the graph and simplify it until nothing changes.

    Every value that is left has a type, unless its operator is unknown to ONNX and to `otherwise`. Raises InvalidModel where
    operands contradict an operator.
    """
    remarks = fold.run(graph, otherwise=otherwise)
    said = set(map(_key, remarks))
    idle = 0
    for step in PASSES * MOST_ROUNDS:
        found = step.run(graph)
        remarks += [remark for remark in found if _key(remark) not in said]
        said |= set(map(_key, found))
        idle = 0 if any(remark.kind == "done" for remark in found) else idle + 1
        if idle == len(PASSES):
            break
    return remarks


def _key(remark: Remark) -> tuple[str, str, str]:
    """What tells remarks apart: a pass repeats in each round what it can't do."""
    return (remark.step, remark.node, remark.text)
