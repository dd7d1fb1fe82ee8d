"""What moves data at the end of the file moves integers, not the floats that they stand for.

    before  %y = DEQUANTIZE(%q) ─ RESHAPE ─ output       after  RESHAPE(%q) ─ DEQUANTIZE ─ output

The layout is planned for numbers, whatever holds them; so a move may come to stand on the wrong side.
"""

from dataclasses import replace
from typing import TypeGuard

from straightway.ir import Graph, Node, Value, edit

MOVERS = ("RESHAPE", "TRANSPOSE")


def narrow(graph: Graph) -> None:
    """Move RESHAPE and TRANSPOSE of a written graph before the DEQUANTIZE that they follow."""
    for node in list(graph.nodes):
        border: Node | None = node
        while border is not None and border.op.name == "DEQUANTIZE":
            after = next(iter(border.output.users()), None)
            border = _swap(graph, border, after) if _moves(after) else None


def _moves(node: Node | None) -> TypeGuard[Node]:
    return node is not None and node.op.name in MOVERS


def _swap(graph: Graph, border: Node, mover: Node) -> Node | None:
    """Let a DEQUANTIZE and its only user change places, where one scale holds for all elements.

    Returns what dequantizes then; None where they stay.
    """
    integers, real, result = border.inputs[0], border.output, mover.output
    if integers is None or len(real.uses) != 1 or graph.is_output(real):
        return None
    if integers.quant is None or integers.quant.axis is not None:
        return None
    moved = _like(graph, integers, result, f"{integers.name}/moved")
    moved.quant = integers.quant
    made = _like(graph, real, result, result.name)
    _insert(graph, mover, [integers, *mover.inputs[1:]], moved, before=mover)
    late = _insert(graph, border, [moved], made, before=mover)
    edit.replace(mover, [made])
    edit.remove(border)
    return late


def _like(graph: Graph, holder: Value, result: Value, name: str) -> Value:
    """A tensor of the type of one and the shape of another."""
    made = Value(graph.fresh(name), replace(result.known_type, dtype=holder.dtype))
    if result in graph.signatures:
        graph.signatures[made] = graph.signatures[result]
    return made


def _insert(
    graph: Graph, like: Node, inputs: "list[Value | None]", result: Value, *, before: Node
) -> Node:
    node = Node(like.op, inputs, [result], dict(like.attrs), name=like.name, origins=like.origins)
    return edit.insert(graph, node, before)
