"""What turns only hand on is read from outside.

    before                                           after
      %y, %v = Loop(%n, %c, %x, %w) {                  %y = Loop(%n, %c, %x) {
        body: a, b → a · b, b }                          body: a → a · %w }

So constants are constants inside, and nothing is carried from turn to turn for nothing.
"""

from collections.abc import Sequence

from straightway.ir import Graph, Node, Value, edit
from straightway.lower.control_scan import read
from straightway.passes.arguments import is_onnx
from straightway.passes.control import BATCHED_UNTIL
from straightway.passes.outputs import put
from straightway.passes.trips import origin
from straightway.remark import Remark

STEP = "lower.control_invariant"


def run(graph: Graph) -> list[Remark]:
    """Let each Loop and Scan read what stays the same."""
    found = []
    for node in list(graph.nodes):
        count = _release(graph, node)
        if count:
            text = f"{count} values that turns only hand on are read from outside"
            found.append(Remark(kind="done", step=STEP, node=node.name, op=str(node.op), text=text))
    return found


def _release(graph: Graph, node: Node) -> int:
    """Take what stays the same out of the carried values; returns how many there are."""
    if is_onnx(node, "Loop"):
        carried, inputs, outputs = len(node.inputs) - 2, 2, 1
    elif is_onnx(node, "Scan") and node.op.version > BATCHED_UNTIL:
        carried, inputs, outputs = read(node).states, 0, 0
    else:
        return 0
    body: Graph = node.attrs["body"]
    same = [
        k
        for k in range(carried)
        if origin(body.outputs[outputs + k]) is body.inputs[inputs + k]
        and not graph.is_output(node.outputs[k])
        and node.inputs[inputs + k] is not None
    ]
    for k in same:
        outer = node.inputs[inputs + k]
        if outer is not None:
            edit.replace_uses(body.inputs[inputs + k], outer)
            edit.replace_uses(node.outputs[k], outer)
    if same:
        body.inputs = _without(body.inputs, [inputs + k for k in same])
        edit.set_outputs(body, _without(body.outputs, [outputs + k for k in same]))
        _rewrite(graph, node, [inputs + k for k in same], same)
    return len(same)


def _without(values: Sequence[Value], places: Sequence[int]) -> list[Value]:
    return [value for k, value in enumerate(values) if k not in places]


def _rewrite(graph: Graph, node: Node, inputs: Sequence[int], outputs: Sequence[int]) -> None:
    """Put a node with fewer operands and results in the place of another."""
    kept = {
        k: Value(graph.fresh(v.name), v.type)
        for k, v in enumerate(node.outputs)
        if k not in outputs
    }
    made = Node(
        node.op,
        [v for k, v in enumerate(node.inputs) if k not in inputs],
        list(kept.values()),
        node.attrs,
        name=node.name,
        origins=node.origins,
    )
    edit.insert(graph, made, before=node)
    put(graph, node, [kept.get(k, value) for k, value in enumerate(node.outputs)])
