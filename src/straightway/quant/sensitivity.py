"""A model whose roundings can be switched on and off one by one, so that the error of each is measured.

    before                                   after
      y = DequantizeLinear(QuantizeLinear(x))   y = If(switches[k]) x rounded, else x
      w = DequantizeLinear(integers)            w = If(switches[k]) the integers' reals, else the weights

An op that rounds its operand as it runs has one switch for that and its weights. One session then answers for every set of roundings; what is off costs a copy.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from straightway.ir import Graph, Node, TensorType, Value, edit
from straightway.passes.arguments import onnx_op
from straightway.quant.assignment import Assignment
from straightway.quant.integer import picks
from straightway.quant.rounded_model import Model
from straightway.quant.spelling import OPSET

SWITCHES = "straightway/switches"
BOOL = np.dtype(np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """What one switch rounds: a value of the lowered graph, or all constants of the ops of a node.

    With those goes what the node rounds as it runs. A value may be rounded to two types, for different readers.
    """

    value: Value | None = None
    dtype: np.dtype | None = None
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """The graph, whose last input has a truth value for each rounding, in order."""

    graph: Graph
    roundings: tuple[Rounding, ...]


def is_silent(rounding: Rounding, assignment: Assignment) -> bool:
    """Whether a rounding repeats those before it: what picks elements keeps their scale."""
    value = rounding.value
    if value is None or value.producer is None or not picks(value.producer):
        return False
    if rounding.dtype != assignment.schemes[value].dtype:
        return False
    before = [v for v in value.producer.operands() if v.const is None and v.dtype == value.dtype]
    schemes = assignment.schemes
    return all(v in schemes and schemes[v] == schemes.get(value) for v in before)


def is_on(rounding: Rounding, assignment: Assignment) -> bool:
    """Whether a rounding is done where these ops compute with floats, some with int8 weights."""
    if rounding.value is not None:
        found = (some.get(rounding.value) for some in (assignment.schemes, assignment.others))
        return any(one is not None and one.dtype == rounding.dtype for one in found)
    own = [node for node in assignment.floats if node.name == rounding.node]
    return not own or any(node in assignment.hybrids for node in own)


def switched(model: Model) -> Switched:
    """Give each rounding of a rounded model a switch. The model's graph is changed in place."""
    graph = model.graph
    values = {name: value for value, name in model.names.items()}
    pairs = [node for node in graph.nodes if node.op.name == "DequantizeLinear"]
    places: dict[Rounding, int] = {}
    owners: list[tuple[Node, Rounding]] = []
    for node in pairs:
        x = node.operands()[0]
        if x.const is not None:
            owner = next(iter(node.output.users()), node)
            rounding = Rounding(node=owner.name)
        elif rounds_at_run_time(node):
            rounding = Rounding(node=node.name)
        else:
            zero_point = node.operands()[2].const
            dtype = None if zero_point is None else zero_point.dtype
            rounding = Rounding(value=_rounded(x, values), dtype=dtype)
        owners.append((node, rounding))
        places.setdefault(rounding, len(places))
    switches = Value(SWITCHES, TensorType(dtype=BOOL, shape=(len(places),)))
    edit.add_input(graph, switches)
    flags: dict[int, Value] = {}
    for node, rounding in owners:
        flag = _flag(graph, switches, places[rounding], flags)
        _switch(graph, node, flag, model.reals)
    return Switched(graph=graph, roundings=tuple(places))


def rounds_at_run_time(node: Node) -> bool:
    """Whether the scale of a DequantizeLinear is found as the model runs."""
    maker = node.operands()[0].producer
    return maker is not None and maker.op.name == "DynamicQuantizeLinear"


def _rounded(x: Value, values: Mapping[str, Value]) -> Value | None:
    """The value of the lowered graph that a pair rounds, through pairs before it."""
    while x.name not in values and x.producer is not None:
        x = x.producer.operands()[0]
    return values.get(x.name)


def _flag(graph: Graph, switches: Value, place: int, flags: dict[int, Value]) -> Value:
    """One truth value of all."""
    if place not in flags:
        index = edit.constant(graph, np.array(place, np.int64), "switch")
        made = Value(graph.fresh(f"{SWITCHES}/{place}"), TensorType(dtype=BOOL, shape=()))
        node = Node(onnx_op("Gather", OPSET), [switches, index], [made], {"axis": 0})
        node.name = made.name
        edit.insert(graph, node, graph.first)
        flags[place] = made
    return flags[place]


def _switch(graph: Graph, node: Node, flag: Value, reals: Mapping[Value, np.ndarray]) -> None:
    """Put what a DequantizeLinear gives, and the QuantizeLinear before it, into a branch."""
    quantize = node.operands()[0].producer
    real: Value | None
    if quantize is None:
        real = edit.constant(graph, reals[node.output], f"{node.name}/real")
        inside = [node]
    else:
        real = quantize.operands()[0]
        inside = [quantize, node]
    kind = (
        TensorType(dtype=np.dtype(np.float32), shape=real.known_type.shape) if real.type else None
    )
    result = Value(graph.fresh(f"{node.output.name}/switched"), kind)
    branches = {
        "then_branch": _branch(graph, inside, kind),
        "else_branch": _plain(graph, real, kind),
    }
    made = Node(onnx_op("If", OPSET), [flag], [result], branches, name=f"{node.name}/switched")
    edit.insert(graph, made, node)
    name, result.name = result.name, node.output.name
    edit.replace_uses(node.output, result)
    node.output.name = name
    for one in reversed(inside):
        edit.remove(one)


def _branch(graph: Graph, nodes: list[Node], kind: TensorType | None) -> Graph:
    """A graph of copies of these nodes, whose last one gives the result."""
    inner = Graph(name=graph.fresh("rounded"))
    copies: dict[Value, Value] = {}
    for node in nodes:
        inputs = [copies.get(value, value) for value in node.operands()]
        results = [Value(graph.fresh(f"{value.name}/inside"), None) for value in node.outputs]
        copies |= dict(zip(node.outputs, results, strict=True))
        edit.append(inner, Node(node.op, inputs, results, dict(node.attrs), name=results[0].name))
    return _returning(inner, copies[nodes[-1].output], kind)


def _plain(graph: Graph, real: Value, kind: TensorType | None) -> Graph:
    """A graph that gives a value as it is."""
    inner = Graph(name=graph.fresh("plain"))
    made = Value(graph.fresh(f"{real.name}/plain"), None)
    edit.append(inner, Node(onnx_op("Identity", OPSET), [real], [made], name=made.name))
    return _returning(inner, made, kind)


def _returning(inner: Graph, value: Value, kind: TensorType | None) -> Graph:
    value.type = kind
    edit.set_outputs(inner, [value])
    inner.output_names = [value.name]
    return inner
