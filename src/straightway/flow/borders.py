"""The QUANTIZE and DEQUANTIZE ops that a TFLite file has, each with its cause."""

from collections.abc import Mapping
from dataclasses import dataclass

from straightway.flow.translate import Translation
from straightway.ir import Graph, Node, Value
from straightway.quant import integer, reasons
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.scheme import INT16, scheme_of

MOVERS = ("RESHAPE", "TRANSPOSE")
FLOAT_INPUT, FLOAT_OUTPUT = "the model's input '{}' is floats", "the model's output '{}' is floats"
INTEGER_OUTPUT = "the model's output '{}' has a scale of its own"
OTHER_TYPE = "{} computes with {}, {} with {}"
# kernels/quantize.cc (LiteRT v2.3.0): of int8 there is only int8 and uint8
BY_FLOATS = OTHER_TYPE + ": LiteRT's QUANTIZE makes int16 of floats alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """One conversion between floats and integers, or between two scales: where, how large, and why.

    `operator` is its index in the file, `moved_bytes` what it reads and writes.
    """

    op: str
    value: str
    operator: int
    moved_bytes: int
    between: str
    cause: str


def borders(made: Translation, floats: Mapping[str, str] | None = None) -> tuple[Border, ...]:
    """Every QUANTIZE and DEQUANTIZE of a written graph, in the file's order, but for those of constants.

    `floats` says of nodes why they compute with floats, where whoever rounded the model knows.
    """
    known = {(r.node, r.op): _reason(r.text) for r in made.remarks if r.step == integer.STEP}
    graph = made.layout.graph
    tell = _Teller(graph=graph, known=known, floats=floats or {})
    indices = made.written.operators
    found = [
        node
        for node in graph.nodes
        if is_op(node, "QUANTIZE", "DEQUANTIZE") and node.operands()[0].const is None
    ]
    return tuple(tell.border(node, indices.get(node, -1)) for node in found)


def _reason(text: str) -> str:
    return text.rpartition("stays in floats between conversions: ")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Teller:
    graph: Graph
    known: Mapping[tuple[str, str], str]
    floats: Mapping[str, str]

    def border(self, node: Node, operator: int) -> Border:
        """What one conversion is for."""
        (source,), result = node.operands(), node.output
        makers, users = _maker(source), _users(result)
        if is_op(makers, "DEQUANTIZE"):
            makers = _maker(makers.operands()[0])  # type: ignore[union-attr]
        return Border(
            op=node.op.name,
            value=result.name if is_op(node, "QUANTIZE") else source.name,
            operator=operator,
            moved_bytes=sum(value.known_type.size_bytes for value in (source, result)),
            between=f"{_told(makers, source)} and {self.readers(result, users)}",
            cause=self.cause(node, source, result, users),
        )

    def cause(self, node: Node, source: Value, result: Value, users: list[Node]) -> str:
        """Why it is needed."""
        if is_op(node, "DEQUANTIZE"):
            return "; ".join(dict.fromkeys(self.reader(user, result) for user in users))
        maker = _maker(source)
        if source.dtype != FLOAT32:
            return self.scales(maker, source, result, users)
        if is_op(maker, "DEQUANTIZE"):
            return self.types(BY_FLOATS, maker.operands()[0], result)  # type: ignore[union-attr]
        if maker is None:
            return FLOAT_INPUT.format(_end(source).name)
        return self.computes(maker)

    def types(self, text: str, source: Value, result: Value) -> str:
        """That integers have one type where they are made, and another where they are read."""
        readers = self.readers(result, _users(result))
        made = _told(_maker(source), source)
        return text.format(readers, result.dtype, made, source.dtype)

    def scales(self, maker: Node | None, source: Value, result: Value, users: list[Node]) -> str:
        """Why integers get another scale."""
        if INT16 in (source.dtype, result.dtype) and source.dtype != result.dtype:
            return self.types(OTHER_TYPE, source, result)
        if maker is not None and (maker.name, maker.op.name) in self.known:
            return self.known[maker.name, maker.op.name]
        cut = _cut(source, result)
        if cut:
            return cut
        if users and users[0] is self.graph.exit:
            return INTEGER_OUTPUT.format(result.name)
        return (
            f"{self.readers(result, users)} needs another scale than {_told(maker, result)} gives"
        )

    def computes(self, node: Node) -> str:
        """Why an op computes with floats."""
        own = self.floats.get(named(node)) or self.known.get((node.name, node.op.name), "")
        why = own or reasons.own(node) or "its operands are floats"
        return f"{node.op.name} '{named(node)}' computes with floats: {why}"

    def reader(self, node: Node, value: Value) -> str:
        """Why one user wants floats."""
        if node is self.graph.exit:
            return FLOAT_OUTPUT.format(self.output_name(value))
        if is_op(node, "QUANTIZE"):
            source = _end(value).producer.operands()[0]  # type: ignore[union-attr]
            return self.types(BY_FLOATS, source, node.output)
        return self.computes(node)

    def readers(self, value: Value, users: list[Node]) -> str:
        """The users by name."""
        beyond = [
            one
            for user in users
            for one in (_users(user.output) if is_op(user, "QUANTIZE") else [user])
        ]
        names = [
            f"output '{self.output_name(value)}'" if user is self.graph.exit else _told(user, value)
            for user in beyond
        ]
        return ", ".join(dict.fromkeys(names)) or "nothing"

    def output_name(self, value: Value) -> str:
        """What the model calls an output that is this value, or moves its elements."""
        for place, output in enumerate(self.graph.exit.inputs):
            if output is not None and value in (output, _end(output)):
                return self.graph.output_names[place] if self.graph.output_names else output.name
        return value.name


def _cut(source: Value, result: Value) -> str:
    """What a QUANTIZE of one scale to another zero point does: it saturates where the model clips."""
    if source.dtype != result.dtype or None in (source.quant, result.quant):
        return ""
    own, other = scheme_of(source), scheme_of(result)
    if own.scale != other.scale or own.zero_point == other.zero_point:
        return ""
    (low, high), shift = own.limits, other.zero_point - own.zero_point
    low, high = (low + shift, high) if shift > 0 else (low, high + shift)
    return f"the model clips these integers to {low} and {high}, which TFLite's rounding does not"


def _end(value: Value) -> Value:
    """The value before those that only move its elements."""
    while value.producer is not None and is_op(value.producer, *MOVERS):
        value = value.producer.operands()[0]
    return value


def _maker(value: Value) -> Node | None:
    return _end(value).producer


def _users(value: Value) -> list[Node]:
    """Who reads a value, behind those that only move its elements."""
    found: list[Node] = []
    for user in value.users():
        found += _users(user.output) if is_op(user, *MOVERS) else [user]
    return list(dict.fromkeys(found))


def _told(node: Node | None, value: Value) -> str:
    return f"input '{_end(value).name}'" if node is None else f"{node.op.name} '{named(node)}'"


def named(node: Node) -> str:
    """The name in the user's model: a number behind it tells nodes of a rounded model apart."""
    stem, _, number = node.name.rpartition("/")
    return stem if stem and number.isdecimal() else node.name
