"""What a written file asks of an engine's kernels that they do not compute."""

from collections.abc import Iterator

from straightway.ir import Graph, Node
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
        for node in _all(graph)
        if not is_spared(node, accelerated=accelerated)
        and (reason := engine.fault(node, written=True))
    ]


def _all(graph: Graph) -> Iterator[Node]:
    """The ops of a file, those in loops and branches as well."""
    for node in graph.nodes:
        yield node
        for inner in node.graphs():
            yield from _all(inner)
