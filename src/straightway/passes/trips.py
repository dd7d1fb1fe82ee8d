"""How often a Loop will run, where that can be known: its control is computed turn by turn."""

from collections.abc import Iterable, Mapping

import numpy as np

from straightway.errors import InvalidModel
from straightway.ir import Graph, Node, TensorType, Value
from straightway.passes.arguments import is_onnx
from straightway.passes.evaluate import EVALUATORS, evaluate
from straightway.passes.evaluator import UnfoldableError
from straightway.passes.types import infer

Known = dict[Value, np.ndarray]


def trip_count(node: Node, most: int) -> int | None:
    """The number of turns of a Loop, None where it is not known, or more than `most`.

    Without a condition at the start, the body's own counts all the same: so does onnxruntime, though
    the specification says that it is ignored (onnx/docs/Operators.md, Loop).
    """
    trips, condition = (*node.inputs, None, None)[:2]
    if condition is not None and condition.const is None:
        return None
    if trips is not None and trips.const is None:
        return None
    limit = (
        None if trips is None or trips.const is None else max(int(trips.const.reshape(-1)[0]), 0)
    )
    if condition is not None and condition.const is not None and not condition.const.all():
        return 0
    count = _Control(node).turns(most + 1 if limit is None else min(limit, most + 1))
    return None if count is None or count > most else count


class _Control:
    """The part of a body on which its condition depends."""

    def __init__(self, node: Node) -> None:
        self.body: Graph = node.attrs["body"]
        self.opsets = self.body.opsets
        self.initial = dict(zip(self.body.inputs[2:], node.inputs[2:], strict=False))
        self.following = dict(zip(self.body.inputs[2:], self.body.outputs[1:], strict=False))
        self.needed = self.closure()
        condition = self.body.outputs[0]
        holds = condition.const is not None and bool(condition.const.all())
        self.depends = not holds and origin(condition) is not self.body.inputs[1]

    def closure(self) -> list[Value]:
        """Carried values that the condition depends on, through all turns."""
        found: dict[Value, None] = {}
        waiting = [self.body.outputs[0]]
        seen: set[Value] = set()
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self.following:
                found[value] = None
                waiting.append(self.following[value])
            if value.producer is not None and value.producer.graph is self.body:
                waiting += value.producer.operands()
        return list(found)

    def turns(self, most: int) -> int | None:
        """Count turns until the condition fails, at most so many; None where it is not known."""
        if not self.depends:
            return most
        state: Known = {}
        for value in self.needed:
            before = self.initial.get(value)
            if before is None or before.const is None:
                return None
            state[value] = before.const
        for turn in range(most):
            known = self.turn(turn, state)
            condition = known.get(self.body.outputs[0])
            if condition is None:
                return None
            if not condition.all():
                return turn + 1
            following = {v: known.get(self.following[v]) for v in self.needed}
            state = {v: array for v, array in following.items() if array is not None}
            if len(state) < len(self.needed):
                return None
        return most

    def turn(self, turn: int, state: Mapping[Value, np.ndarray]) -> Known:
        """What is known of the values of one turn."""
        counter, condition = self.body.inputs[:2]
        known: Known = {**state, counter: np.array(turn, np.int64), condition: np.array(True)}
        wanted = [self.body.outputs[0], *(self.following[v] for v in self.needed)]
        for node in self.slice(wanted):
            arrays = [known.get(v) if v.const is None else v.const for v in node.operands()]
            if all(array is not None for array in arrays):
                known |= self.computed(node, known)
        known |= {v: v.const for v in wanted if v.const is not None}
        return known

    def slice(self, wanted: Iterable[Value]) -> list[Node]:
        """The nodes of the body that make these values, in order."""
        needed: set[Node] = set()
        waiting = [v.producer for v in wanted]
        while waiting:
            node = waiting.pop()
            if node is not None and node.graph is self.body and node not in needed:
                needed.add(node)
                waiting += [v.producer for v in node.operands()]
        return [node for node in self.body.nodes if node in needed]

    def computed(self, node: Node, known: Known) -> Known:
        """What a node of known operands gives; nothing where it can't be said."""
        if node.op.dialect != "onnx" or node.op.name not in EVALUATORS:
            return {}
        inputs = [
            v if v is None or v.const is not None else _constant(v.name, known[v])
            for v in node.inputs
        ]
        outputs = [Value(v.name, None) for v in node.outputs]
        fixed = Node(node.op, inputs, outputs, node.attrs, name=node.name)
        try:
            arrays = evaluate(fixed, self.types(node, fixed))
        except (UnfoldableError, InvalidModel):
            return {}
        return dict(zip(node.outputs, arrays, strict=False))

    def types(self, node: Node, fixed: Node) -> list[TensorType | None]:
        """The types of results, inferred where they are not known."""
        kinds = [value.type for value in node.outputs]
        known = all(kind is not None and kind.is_static for kind in kinds)
        return kinds if known else infer(fixed, self.opsets)


def origin(value: Value) -> Value:
    """What a value is a mere copy of."""
    while value.producer is not None and is_onnx(value.producer, "Identity"):
        value = value.producer.operands()[0]
    return value


def _constant(name: str, array: np.ndarray) -> Value:
    return Value(name, TensorType(dtype=array.dtype, shape=array.shape), array)
