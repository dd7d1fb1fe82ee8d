"""Patterns of nodes: a pattern is a function that builds what it looks for.

    @pattern
    def gelu(p, x):
        return p.Mul(p.Mul(x, p.Add(p.Erf(p.Div(x, p.const(2**0.5))), p.const(1.0))), p.const(0.5))

    found = gelu.match(node)      # a Match, or a Failure that says why
    found.values["x"]

Commutative operations match both ways round. A part that stands twice in a pattern must be the same
value both times. What a pattern computes on the way must be used nowhere else.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Literal

import ml_dtypes
import numpy as np

from straightway.ir.graph import Node, Value
from straightway.ir.source import Origins, merge

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "And", "Or", "Xor", "Equal"})
# Exporters print constants with six or seven digits: 1/6 as 0.166667, the square root of 2 as 1.41421.
RELATIVE_TOLERANCE = 1e-5
# What a constant loses when it is stored in half the bits.
ROUNDING = {np.dtype(np.float16): 2.0**-11, np.dtype(ml_dtypes.bfloat16): 2.0**-8}


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """Any value; the same one wherever it stands in the pattern."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A constant, all of whose elements have this value."""

    value: float


@dataclass(frozen=True, slots=True, eq=False)
class Either:
    """One of several parts."""

    options: "tuple[Part, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A node: its operation, the parts that are its operands, and what else must hold.

    `where` takes the node and returns why it does not fit, or "". With `where`, operands after the
    named ones may be present; without, they must be absent.
    """

    name: str
    operands: "tuple[Part, ...]"
    where: Callable[[Node], str] | None = None
    label: str = ""


Part = Variable | Constant | Either | Call


class Builder:
    """What a pattern function builds with: `p.Mul(a, b)`, `p.const(0.5)`, `p.either(a, b)`."""

    def __getattr__(self, name: str) -> Callable[..., Call]:
        return partial(self.op, name)

    def op(
        self,
        name: str,
        *operands: Part,
        where: Callable[[Node], str] | None = None,
        label: str = "",
    ) -> Call:
        """Look for a node; under `label` it stands in `Match.labels`."""
        return Call(name, operands, where, label)

    def const(self, value: float) -> Constant:
        """Look for a constant that is this number everywhere, and that widens no shape."""
        return Constant(value)

    def either(self, *options: Part) -> Either:
        """Look for one part or another, the first that fits."""
        return Either(options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What was found: values by variable, nodes by label, and all nodes, the root first."""

    values: Mapping[str, Value]
    labels: Mapping[str, Node]
    nodes: tuple[Node, ...]

    @property
    def root(self) -> Node:
        """The node at which the pattern ends."""
        return self.nodes[0]

    @property
    def origins(self) -> Origins:
        """All that the matched nodes stand for."""
        return merge(*(node.origins for node in self.nodes))


@dataclass(frozen=True, slots=True)
class Failure:
    """No match, and why: the reason of the attempt that came furthest. It counts as false.

    `complete` says that all parts were there, but a result inside is also used outside.
    """

    reason: str
    complete: bool = False

    def __bool__(self) -> Literal[False]:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern, ready to be tried at nodes whose operation is one of `roots`."""

    name: str
    part: Call | Either
    roots: frozenset[str]

    def match(self, node: Node) -> Match | Failure:
        """Try the pattern with `node` as its end."""
        if len(node.outputs) != 1:
            return Failure(f"{node} has {len(node.outputs)} results; a match ends in one")
        attempt = _Attempt(root=node)
        return attempt.run(self.part)


def pattern(function: Callable[..., Part]) -> Pattern:
    """Make a pattern of a function of a Builder and of variables, named as its parameters are."""
    names = list(inspect.signature(function).parameters)[1:]
    part = function(Builder(), *(Variable(name) for name in names))
    roots = frozenset(_root_names(part))
    if not isinstance(part, (Call, Either)) or "" in roots:
        raise TypeError(f"pattern '{function.__name__}' must end in a node")
    return Pattern(name=function.__name__, part=part, roots=roots)


def _root_names(part: Part) -> list[str]:
    if isinstance(part, Either):
        return [name for option in part.options for name in _root_names(option)]
    return [part.name if isinstance(part, Call) else ""]


# What is left to match: part, value, and the rest; None at the end.
Goals = tuple[Part, Value | None, Any] | None


@dataclass(slots=True, kw_only=True)
class _Attempt:
    root: Node
    bound: dict[Part, Value] = field(default_factory=dict)
    reason: tuple[object, ...] = ()
    reached: int = -1
    complete: bool = False

    def run(self, part: Call | Either) -> Match | Failure:
        if not self.solve((part, self.root.output, None)):
            return Failure("".join(map(str, self.reason)), self.complete)
        calls = [(p, v.producer) for p, v in self.bound.items() if isinstance(p, Call)]
        return Match(
            values={p.name: v for p, v in self.bound.items() if isinstance(p, Variable)},
            labels={p.label: node for p, node in calls if node is not None and p.label},
            nodes=tuple(dict.fromkeys(node for _, node in calls if node is not None)),
        )

    def fail(self, *reason: object) -> bool:
        """Keep the reason, in pieces, of the attempt that bound most."""
        if len(self.bound) > self.reached:
            self.reached, self.reason = len(self.bound), reason
        return False

    def solve(self, goals: Goals) -> bool:
        """Match all goals; on success the bindings stay, on failure they are as before."""
        if goals is None:
            return self.closed()
        part, value, rest = goals
        if value is None:
            return self.fail("an operand is absent")
        if isinstance(part, Either):
            options = [option for option in part.options if _may_be(option, value)]
            if not options:
                return self.fail(value, " is none of the choices")
            return any(self.solve((option, value, rest)) for option in options)
        if part in self.bound:
            same = self.bound[part] is value
            return self.solve(rest) if same else self.fail(value, " is another value")
        if isinstance(part, Constant):
            wrong = _constant_fault(part, value)
            return self.fail(wrong) if wrong else self.solve(rest)
        if isinstance(part, Variable):
            return self.bind(part, value, rest)
        return self.call(part, value, rest)

    def bind(self, part: Part, value: Value, rest: Goals) -> bool:
        self.bound[part] = value
        if self.solve(rest):
            return True
        del self.bound[part]
        return False

    def call(self, part: Call, value: Value, rest: Goals) -> bool:
        node = value.producer
        wrong = _node_fault(part, value, node)
        if wrong or node is None:
            return self.fail(wrong)
        for inputs in _orders(part, node):
            pairs = [(part.operands[index], inputs[index]) for index in _sequence(part)]
            if not all(v is not None and _may_be(operand, v) for operand, v in pairs):
                self.fail("the operands of ", node, " are made by others")
            elif _widens(part, inputs, value):
                self.fail("a constant widens ", value)
            else:
                goals = rest
                for operand, given in pairs:
                    goals = (operand, given, goals)
                if self.bind(part, value, goals):
                    return True
        return False

    def closed(self) -> bool:
        """Whether no one outside the match uses a result from inside it."""
        inside = {v.producer for p, v in self.bound.items() if isinstance(p, Call)}
        for part, value in self.bound.items():
            if not isinstance(part, Call) or value.producer is self.root:
                continue
            for user, _ in value.uses:
                if user not in inside:
                    self.complete = True
                    return self.fail(value, " is also used by ", user)
        return True


def _constant_fault(part: Constant, value: Value) -> str:
    """Why `value` is not the number sought, or ""."""
    array = value.const
    if array is None:
        return f"'{value.name}' is not a constant"
    if array.size == 0 or array.dtype.kind not in "iufV":
        return f"'{value.name}' holds no number"
    limit = max(RELATIVE_TOLERANCE, ROUNDING.get(array.dtype, 0.0)) * abs(part.value)
    first = array.reshape(-1)[:1].astype(np.float64)
    # the first element decides most cases: weights are not read to the end
    if not abs(first[0] - part.value) <= limit:
        return f"'{value.name}' is {first[0]:g}, not {part.value:g}"
    if array.size > 1 and not np.all(np.abs(array.astype(np.float64) - part.value) <= limit):
        return f"'{value.name}' is not {part.value:g} everywhere"
    return ""


def _node_fault(part: Call, value: Value, node: Node | None) -> str:
    """Why the node that makes `value` is not the one sought, or ""."""
    if node is None:
        return f"'{value.name}' is made by no {part.name}"
    if node.op.name != part.name:
        return f"'{value.name}' is made by {node.op.name}, not {part.name}"
    if node.outputs[0] is not value or any(other.uses for other in node.outputs[1:]):
        return f"{node} has other results in use"
    if len(node.inputs) < len(part.operands):
        return f"{node} has {len(node.inputs)} operands, not {len(part.operands)}"
    if part.where is None and any(v is not None for v in node.inputs[len(part.operands) :]):
        return f"{node} has more than {len(part.operands)} operands"
    return part.where(node) if part.where is not None else ""


def _orders(part: Call, node: Node) -> Iterator[list[Value | None]]:
    """The ways in which the node's operands can stand for the pattern's."""
    inputs = node.inputs[: len(part.operands)]
    yield inputs
    if part.name in COMMUTATIVE and len(inputs) == 2:
        yield inputs[::-1]


@cache
def _sequence(part: Call) -> tuple[int, ...]:
    """In which order operands are pushed: constants last, and so tried first: they fail soonest."""
    order = range(len(part.operands))[::-1]
    return tuple(sorted(order, key=lambda index: _is_constant(part.operands[index])))


@cache
def _is_constant(part: Part) -> bool:
    if isinstance(part, Either):
        return all(_is_constant(option) for option in part.options)
    return isinstance(part, Constant)


@cache
def _makers(part: Part) -> frozenset[str] | None:
    """The operations that may make the part; None for any, or none at all."""
    if isinstance(part, Call):
        return frozenset({part.name})
    if isinstance(part, Either):
        options = [_makers(option) for option in part.options]
        known = [names for names in options if names is not None]
        return frozenset().union(*known) if len(known) == len(options) else None
    return None


def _may_be(part: Part, value: Value) -> bool:
    """A cheap look at whether the value can be the part."""
    names = _makers(part)
    if names is not None:
        return value.producer is not None and value.producer.op.name in names
    return value.const is not None or not _is_constant(part)


@cache
def _constant_places(part: Call) -> tuple[int, ...]:
    return tuple(index for index, operand in enumerate(part.operands) if _is_constant(operand))


def _widens(part: Call, inputs: list[Value | None], result: Value) -> bool:
    """Whether a constant operand gives the result a shape that the other operands do not have."""
    places = _constant_places(part)
    constants = [value for value in (inputs[index] for index in places) if value is not None]
    if all(value.const is not None and value.const.ndim == 0 for value in constants):
        return False
    if result.type is None or not result.type.is_static:
        return True
    others = [v for index, v in enumerate(inputs) if index not in places and v is not None]
    return result.type.shape not in [v.type.shape for v in others if v.type is not None]
