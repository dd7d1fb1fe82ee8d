"""The graph as text, one node a line: for people, logs and tests."""

import numpy as np

from straightway.ir.graph import Graph, Node, Value


def to_text(graph: Graph) -> str:
    """Print the graph, one line a node, in a stable form.

    graph g(%x: f32[1,3]) -> (%y)
      %y: f32[1,4] = Gemm@13(%x, const f32[3,4]) {alpha=1.0}  # 'fc'
    """
    inputs = ", ".join(repr(value) for value in graph.inputs)
    outputs = ", ".join(f"%{value.name}" for value in graph.outputs)
    lines = [f"graph {graph.name}({inputs}) -> ({outputs})"]
    lines += [f"  {node_text(node)}" for node in graph.nodes]
    return "\n".join(lines) + "\n"


def node_text(node: Node) -> str:
    """Print one node."""
    results = ", ".join(repr(value) for value in node.outputs)
    operands = ", ".join(_operand(value) for value in node.inputs)
    attrs = ", ".join(f"{key}={_attr(node.attrs[key])}" for key in sorted(node.attrs))
    text = f"{results} = {node.op}({operands})"
    text += f" {{{attrs}}}" if attrs else ""
    return text + (f"  # {node.name!r}" if node.name else "")


def _operand(value: Value | None) -> str:
    if value is None:
        return "none"
    if value.const is None:
        return f"%{value.name}"
    if value.const.ndim == 0:
        return f"const {value.type} {value.const}"
    return f"const {value.type}"


def _attr(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}" if value.size > 8 else str(value.tolist())
    if isinstance(value, Graph):
        return f"graph {value.name}"
    return repr(value)
