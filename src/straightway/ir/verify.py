"""The verifier: what every graph must be, after every step."""

from straightway.errors import Bug
from straightway.ir.graph import Graph, Node, Value


def verify(graph: Graph, *, typed: bool = False) -> None:
    """Raise Bug unless edges, order and names of the graph agree; with `typed`, types as well.

    The graphs inside TFLite's nodes stand for themselves, so they are looked at too; those of a model
    read values of the graph around them.
    """
    faults = _faults(graph, typed=typed)
    if faults:
        raise Bug(f"graph '{graph.name}' is broken: " + "; ".join(faults[:5]))


def _faults(graph: Graph, *, typed: bool) -> list[str]:
    faults: list[str] = []
    defined: set[Value] = set(graph.inputs)
    previous: Node | None = None
    for node in graph.nodes:
        if node.previous is not previous or node.graph is not graph:
            faults.append(f"{node} is not linked where it stands")
        previous = node
        faults += _operand_faults(node, defined)
        for value in node.outputs:
            if value in defined or value.producer is not node:
                faults.append(f"{value} is made twice, or {node} is not its producer")
            if value.const is not None:
                faults.append(f"{value} is a constant and the result of {node}")
            defined.add(value)
        if node.op.dialect == "tflite":
            faults += [f for inner in node.graphs() for f in _faults(inner, typed=typed)]
    if graph.last is not previous:
        faults.append("the last node is not the last")
    faults += _operand_faults(graph.exit, defined)
    if typed:
        faults += [f"{value} has no type" for value in graph.values() if value.type is None]
    return faults


def _operand_faults(node: Node, defined: set[Value]) -> list[str]:
    faults = []
    for index, value in enumerate(node.inputs):
        if value is None:
            continue
        if (node, index) not in value.uses:
            faults.append(f"{value} does not know its use {index} by {node}")
        if value.const is None and value not in defined:
            faults.append(f"{node} uses {value} before it is made")
    return faults
