"""Nodes whose results nobody uses are removed.

    before                    after
      %a = Relu(%x)             %b = Neg(%x)
      %b = Neg(%x)              return %b
      return %b

What a graph inside a node uses counts as used; when such a node goes, what was used only there goes too.
"""

from straightway.ir import Graph, edit
from straightway.passes.control import release
from straightway.passes.types import subgraphs
from straightway.remark import Remark

STEP = "passes.dead"


def run(graph: Graph) -> list[Remark]:
    """Remove unused nodes, from the last to the first."""
    removed = _sweep(graph)
    if not removed:
        return []
    text = f"removed {removed} nodes whose results nobody uses"
    return [Remark(kind="done", step=STEP, text=text, numbers={"nodes": removed})]


def _sweep(graph: Graph) -> int:
    removed = 0
    node = graph.last
    while node is not None:
        previous = node.previous
        if any(value.uses for value in node.outputs):
            removed += sum(_sweep(inner) for inner in subgraphs(node))
        else:
            edit.remove(node)
            release(node)
            removed += 1
        node = previous
    return removed
