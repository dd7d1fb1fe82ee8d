"""What a written file asks of an engine's kernels that they do not compute."""

from straightway.ir import Graph
from straightway.passes.types import nested
from straightway.quant.substitutes import is_spared
from straightway.remark import Remark
from straightway.targets.engine import Engine

STEP = "flow.kernels"


def untaken(graph: Graph, engine: Engine, *, accelerated: bool) -> list[Remark]:
    """Every op that the engine can't run, with its reason; an accelerator's are its own."""
    return [
        Remark(
            kind="missed",
            step=STEP,
            node=node.name,
            op=node.op.name,
            text=f"'{node.name}' can't run on the target: {reason}",
        )
        for inner in nested(graph)
        for node in inner.nodes
        if not is_spared(node, accelerated=accelerated)
        and (reason := engine.fault(node, written=True))
    ]
