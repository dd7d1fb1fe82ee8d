"""Graph outputs keep their names, and a node that makes them, whatever takes their place."""

from collections.abc import Sequence

from straightway.ir import Graph, Node, Value, edit
from straightway.passes.arguments import is_onnx, onnx_op


def replace(graph: Graph, node: Node, value: Value) -> bool:
    """Let `value` take the place of the first result of `node`; returns whether anything changed."""
    old = node.outputs[0]
    if is_onnx(node, "Identity") and not _may_take(graph, old, value):
        return _bypass(graph, old, value)
    put(graph, node, [stand_in(graph, node, old, value), *node.outputs[1:]])
    return True


def put(graph: Graph, node: Node, values: Sequence[Value]) -> None:
    """Let values take the place of a node's results; one of the graph around keeps its own name."""
    kept = []
    for old, new in zip(node.outputs, values, strict=True):
        if new.producer is not None and new.producer.graph is not graph and new is not old:
            edit.replace_uses(old, new)
            kept.append(old)
        else:
            kept.append(new)
    edit.replace(node, kept)


def stand_in(graph: Graph, node: Node, old: Value, new: Value) -> Value:
    """Return what may take the place of `old`, a result of `node`: `new`, or its copy.

    Where `old` is a graph output and `new` may not take its name, an Identity before `node` makes a
    copy, which only the graph's outputs will read.
    """
    if _may_take(graph, old, new):
        return new
    _bypass(graph, old, new)
    result = Value(graph.fresh(old.name), new.type)
    copy = Node(onnx_op("Identity", 16), [new], [result], name=node.name, origins=node.origins)
    edit.insert(graph, copy, before=node)
    return result


def only_names_output(graph: Graph, node: Node) -> bool:
    """Whether a node only gives a value a name among the graph's outputs."""
    if not is_onnx(node, "Identity") or not node.output.uses:
        return False
    return all(user is graph.exit for user, _ in node.output.uses)


def _may_take(graph: Graph, old: Value, new: Value) -> bool:
    """Whether `new` has no name to keep: it is no input, constant, other output or outer value."""
    own = new.producer is not None and new.producer.graph is graph
    return not graph.is_output(old) or (own and not graph.is_output(new))


def _bypass(graph: Graph, old: Value, new: Value) -> bool:
    """Let all users of `old` but the graph's outputs read `new`; returns whether there were any."""
    users = [use for use in old.uses if use[0] is not graph.exit]
    for user, index in users:
        edit.set_input(user, index, new)
    return bool(users)
