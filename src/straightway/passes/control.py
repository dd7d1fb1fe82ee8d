"""Nodes with graphs inside: If, Loop, Scan.

    before                                      after
      %y = If(const true) {then: Relu(%x),        %y = Relu(%x)
                           else: Neg(%x)}

Where the condition is not constant, both branches are typed; a branch that these types contradict could
only fail, and the other takes the place of the If. The body of a Loop or Scan is typed when its carried
values keep their types from one iteration to the next.
"""

from collections.abc import Callable, Mapping

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Graph, Node, TensorType, Value, edit
from straightway.onnx_io import guard
from straightway.passes.arguments import argument, is_onnx
from straightway.passes.outputs import put, stand_in
from straightway.passes.trips import trip_count
from straightway.passes.types import merged, subgraphs

# Counting more turns of a Loop takes seconds.
MOST_COUNTED = 2**12
# Before opset 9 a Scan goes over a batch as well.
BATCHED_UNTIL = 8
Sweep = Callable[[Graph], bool]
"""Types a graph inside a node; returns whether it can run with these types."""


def check(node: Node) -> None:
    """Raise InvalidModel where the graphs inside do not fit the node's operands and results."""
    given, results = len(node.inputs), len(node.outputs)
    try:
        guard.check_single_operands(node)
    except ValueError as error:
        raise InvalidModel(f"node '{node.name}' ({node.op}): {error}") from error
    if is_onnx(node, "If"):
        _check_graph(node, "then_branch", 0, results)
        _check_graph(node, "else_branch", 0, results)
    elif is_onnx(node, "Loop"):
        _check_graph(node, "body", max(given, 2), results + 1)
    elif is_onnx(node, "Scan"):
        _check_graph(node, "body", given - (node.op.version <= BATCHED_UNTIL), results)
        _check_scan(node)


def _check_graph(node: Node, name: str, inputs: int, outputs: int) -> None:
    graph = node.attrs.get(name)
    found = (len(graph.inputs), len(graph.outputs)) if isinstance(graph, Graph) else "none"
    if found != (inputs, outputs):
        raise InvalidModel(
            f"node '{node.name}' ({node.op}): its {name} has {inputs} inputs and {outputs} outputs; "
            f"got {found}"
        )


def _check_scan(node: Node) -> None:
    """Each operand that is scanned, and each result that is collected, has an axis and a direction."""
    scanned, given = int(argument(node, "num_scan_inputs")), len(node.inputs)
    if not 1 <= scanned <= given:
        raise InvalidModel(
            f"node '{node.name}' ({node.op}): num_scan_inputs lies in [1, {given}]; got {scanned}"
        )
    collected = len(node.outputs) - (given - scanned - (node.op.version <= BATCHED_UNTIL))
    counts = {"input": scanned, "output": collected}
    names = {
        f"scan_{end}_{what}": n for end, n in counts.items() for what in ("axes", "directions")
    }
    for name, count in {**names, "directions": scanned}.items():
        value = argument(node, name)
        if value is not None and len(value) != count:
            raise InvalidModel(
                f"node '{node.name}' ({node.op}): {name} has {count} entries; got {list(value)}"
            )


def constant_branch(node: Node) -> str:
    """The attribute that holds the branch which a constant condition takes, or ""."""
    condition = node.inputs[0] if node.inputs else None
    if not is_onnx(node, "If") or condition is None or condition.const is None:
        return ""
    return "then_branch" if condition.const.reshape(-1)[0] else "else_branch"


def inline(graph: Graph, node: Node, branch: Graph) -> None:
    """Put a branch in the place of its If."""
    copies = copy_nodes(branch, graph, node)
    values = []
    for old, inner in zip(node.outputs, branch.outputs, strict=True):
        value = copies.get(inner, inner)
        values.append(stand_in(graph, node, old, value))
    put(graph, node, values)
    release(node)


def copy_nodes(
    source: Graph, target: Graph, before: Node | None, given: Mapping[Value, Value] | None = None
) -> dict[Value, Value]:
    """Copy the nodes of a graph into another; returns new values by old ones, `given` among them."""
    copies = dict(given or {})
    for node in source.nodes:
        _copy_node(node, target, before, copies)
    return copies


def _copy_node(node: Node, target: Graph, before: Node | None, copies: dict[Value, Value]) -> None:
    outputs = []
    for value in node.outputs:
        made = Value(target.fresh(value.name), value.type)
        copies[value] = made
        outputs.append(made)
    inputs = [None if v is None else copies.get(v, v) for v in node.inputs]
    attrs = {key: copy_attribute(value, copies) for key, value in node.attrs.items()}
    copy = Node(node.op, inputs, outputs, attrs, name=node.name, origins=node.origins)
    edit.insert(target, copy, before)


def copy_attribute(value: object, copies: dict[Value, Value]) -> object:
    """Copy graphs that an attribute holds; what they read of the graph around is taken from `copies`."""
    if isinstance(value, tuple):
        return tuple(copy_attribute(inner, copies) for inner in value)
    return copy_graph(value, copies) if isinstance(value, Graph) else value


def copy_graph(graph: Graph, outer: dict[Value, Value] | None = None) -> Graph:
    """Copy a graph; constants and what it reads of the graph around it are shared."""
    copies = dict(outer or {})
    result = Graph(name=graph.name, opsets=graph.opsets)
    for value in graph.inputs:
        made = Value(value.name, value.type)
        copies[value] = made
        edit.add_input(result, made)
    for node in graph.nodes:
        _copy_node(node, result, None, copies)
    edit.set_outputs(result, [copies.get(v, v) for v in graph.outputs])
    return result


def release(node: Node) -> None:
    """Let go of what the graphs inside a removed node used."""
    for graph in subgraphs(node):
        _drop(graph)


def _drop(graph: Graph) -> None:
    """Take a graph apart, last node first."""
    edit.set_outputs(graph, [])
    last = graph.last
    while last is not None:
        previous = last.previous
        edit.remove(last)
        release(last)
        last = previous


def infer_types(node: Node, sweep: Sweep) -> str:
    """Type the results of a node with graphs inside, and the graphs themselves.

    Returns the attribute that holds the only branch of an If which these types allow, or "".
    """
    if is_onnx(node, "If"):
        return _infer_branches(node, sweep)
    if is_onnx(node, "Loop"):
        _infer_loop(node, sweep)
    elif is_onnx(node, "Scan") and node.op.version > BATCHED_UNTIL:
        _infer_scan(node, sweep)
    return ""


def _infer_branches(node: Node, sweep: Sweep) -> str:
    names = ("then_branch", "else_branch")
    possible = [name for name in names if sweep(node.attrs[name])]
    outputs = (node.attrs[name].outputs for name in names)
    for value, first, second in zip(node.outputs, *outputs, strict=True):
        value.type = _either(first.type, second.type)
    return possible[0] if len(possible) == 1 else ""


def _either(first: TensorType | None, second: TensorType | None) -> TensorType | None:
    """What holds for both: a size only where they agree."""
    if first is None or second is None or first.dtype != second.dtype:
        return None
    if first.rank != second.rank:
        return None
    pairs = zip(first.shape, second.shape, strict=True)
    return TensorType(dtype=first.dtype, shape=tuple(a if a == b else "" for a, b in pairs))


def _infer_loop(node: Node, sweep: Sweep) -> None:
    given = [
        TensorType(dtype=np.dtype(np.int64), shape=()),
        TensorType(dtype=np.dtype(np.bool_), shape=()),
        *(None if v is None else v.type for v in node.inputs[2:]),
    ]
    count = len(given) - 2
    body = _typed_body(node, given, [(k + 2, k + 1) for k in range(count)], sweep)
    if body is None:
        return
    turns = trip_count(node, MOST_COUNTED)
    rows = "" if turns is None else turns
    for k, (value, inner) in enumerate(zip(node.outputs, body.outputs[1:], strict=True)):
        value.type = inner.type if k < count else merged(value.type, _stacked(inner.type, rows, 0))


def _infer_scan(node: Node, sweep: Sweep) -> None:
    scanned = int(argument(node, "num_scan_inputs"))
    states = len(node.inputs) - scanned
    given = [v.type if v is not None else None for v in node.inputs]
    lengths: set[int | str] = set()
    for index, axis in enumerate(argument(node, "scan_input_axes") or (0,) * scanned, states):
        kind = given[index]
        if kind is None:
            return
        shape = list(kind.shape)
        if not -kind.rank <= axis < kind.rank:
            raise InvalidModel(
                f"node '{node.name}' ({node.op}): {kind} has no axis {axis} to be scanned"
            )
        lengths.add(shape.pop(axis))
        given[index] = TensorType(dtype=kind.dtype, shape=tuple(shape))
    body = _typed_body(node, given, [(k, k) for k in range(states)], sweep)
    if body is None:
        return
    for value, inner in zip(node.outputs, body.outputs, strict=True):
        value.type = inner.type
    length = lengths.pop() if len(lengths) == 1 else ""
    stacks = argument(node, "scan_output_axes") or (0,) * (len(node.outputs) - states)
    for value, axis in zip(node.outputs[states:], stacks, strict=True):
        value.type = _stacked(value.type, length, axis)


def _stacked(kind: TensorType | None, length: int | str, axis: int) -> TensorType | None:
    """One more dimension: an element for each iteration."""
    if kind is None:
        return None
    place = axis if axis >= 0 else axis + kind.rank + 1
    shape = (*kind.shape[:place], length, *kind.shape[place:])
    return TensorType(dtype=kind.dtype, shape=shape)


def _typed_body(
    node: Node,
    given: list[TensorType | None],
    carried: list[tuple[int, int]],
    sweep: Sweep,
) -> Graph | None:
    """Type a body for the first iteration; it holds for all if each carried value keeps its type.

    `carried` pairs the body's inputs with the outputs that become them. Where one changes its type,
    the body stays as the file has it, and None is returned.
    """
    body: Graph = node.attrs["body"]
    as_before = copy_graph(body)
    for value, kind in zip(body.inputs, given, strict=True):
        value.type = kind
    sweep(body)
    kinds = [(body.inputs[i].type, body.outputs[o].type) for i, o in carried]
    if all(before is not None and before == after for before, after in kinds):
        _drop(as_before)
        return body
    _drop(body)
    node.attrs["body"] = as_before
    return None
