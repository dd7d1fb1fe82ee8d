"""Operators without a declaration that ONNX defines by simpler ones become these.

y = HannWindow(n)      becomes      the Range, Cos, Mul … of ONNX's own definition
"""

from straightway.errors import InvalidModel, Unsupported
from straightway.ingest.onnx import ingest_body
from straightway.ir import Graph, Node, edit
from straightway.lower import families
from straightway.lower.bind import bind, check
from straightway.lower.declare import LOWERINGS
from straightway.onnx_io.functions import body
from straightway.remark import Remark

families.load()


def run(graph: Graph) -> list[Remark]:
    """Replace every node that has a body, and that nothing lowers or that computes a constant."""
    done: dict[str, int] = {}
    for node in list(graph.nodes):
        constant = _is_constant(node) and graph.kept.isdisjoint(v.name for v in node.outputs)
        if (not _is_lowered(node) or constant) and _replace(graph, node):
            done[node.op.name] = done.get(node.op.name, 0) + 1
    return [
        Remark(
            kind="done",
            step="lower.inline",
            op=name,
            text=f"{count} {name} became the operators that ONNX defines it by",
        )
        for name, count in done.items()
    ]


def _is_lowered(node: Node) -> bool:
    return (node.op.dialect, node.op.name) in LOWERINGS


def _is_constant(node: Node) -> bool:
    """Whether it computes a constant that nothing folded: its parts may be folded."""
    known = bool(node.inputs) and all(v.const is not None for v in node.operands())
    typed = all(v.type is not None and v.type.is_static for v in node.outputs)
    return known and typed and not _is_refused(node)  # needs are of known types


def _is_refused(node: Node) -> bool:
    """Whether its declaration has a need that does not hold: its parts may compute something else."""
    lowering = LOWERINGS.get((node.op.dialect, node.op.name))
    if lowering is None:
        return False
    try:
        check(lowering.needs, bind(lowering, node, list(node.inputs)))
    except Unsupported:
        return True
    return False


def _replace(graph: Graph, node: Node) -> bool:
    try:
        found = body(node, graph.opsets)
    except (ValueError, RuntimeError, TypeError) as error:
        raise InvalidModel(f"node '{node.name}' ({node.op}): {error}") from error
    if found is None:
        return False
    values = ingest_body(graph, node, found)
    edit.replace(node, values)
    return True
