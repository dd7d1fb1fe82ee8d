"""The lowest version of an op that holds for a written node.

Source: GetBuiltinOperatorVersion, converter/tools/versioning/op_version.cc:56 of LiteRT v2.2.0. Its
rules stand from the highest version to the lowest; so `highest` of those that apply is the answer.
"""

from collections.abc import Callable

from straightway.ir import Node
from straightway.ir.types import SHORT_NAMES
from straightway.tflite.rows.conditions import per_tensor, present, scale_of

Version = Callable[[Node], int]


def highest(*rules: Version) -> Version:
    """The highest version that one of the rules asks for."""
    return lambda node: max(rule(node) for rule in rules)


def when(test: Callable[[Node], bool], version: int) -> Version:
    """A version that holds where the test does."""
    return lambda node: version if test(node) else 1


def type_of(node: Node, position: int) -> str:
    """Short name of an operand's element type, "" where the operand is absent."""
    value = present(node, position)
    return "" if value is None else SHORT_NAMES[value.dtype]


def by_type(table: str, operand: int = 0, otherwise: int = 1) -> Version:
    """Versions by the type of one operand: "i8:2 i16:3"."""
    versions = {name: int(version) for name, version in (e.split(":") for e in table.split())}
    return lambda node: versions.get(type_of(node, operand), otherwise)


def rank_above(rank: int, version: int) -> Version:
    """A version for a first operand of more dimensions."""
    return when(lambda node: node.operands()[0].rank > rank, version)


def has_option(name: str, version: int) -> Version:
    """A version where an option field is neither 0 nor absent."""
    return when(lambda node: node.attrs.get(name) not in (None, 0, False, "NONE"), version)


def quantized(node: Node, position: int) -> bool:
    """Whether an operand has a scale."""
    value = present(node, position)
    return value is not None and value.quant is not None


def per_channel(node: Node, position: int) -> bool:
    """Whether an operand has several scales."""
    return quantized(node, position) and not per_tensor(node.operands()[position])


def _spread(node: Node) -> bool:
    a, b = node.operands()[:2]
    return a.shape != b.shape and max(a.rank, b.rank) > 4


def _plain_int16(node: Node) -> bool:
    return type_of(node, 0) == "i16" and not quantized(node, 0)


def _scaled_int16(node: Node) -> bool:
    """Quantized int16 whose scales need not be powers of two: not the schema's default."""
    return type_of(node, 0) == "i16" and not node.attrs.get("potScaleInt16", True)


def _grows(node: Node) -> bool:
    a, b, y = (scale_of(v) for v in (*node.operands()[:2], node.output))
    return bool(a and b and y) and a * b / y >= 1.0


SPREAD = when(_spread, 3)
ADD = highest(when(_plain_int16, 5), when(_scaled_int16, 3), by_type("f16:6 i64:4 i8:2"))
SUB = highest(when(_scaled_int16, 5), SPREAD, by_type("i64:4 i8:2"))
MUL = highest(when(_plain_int16, 7), when(_grows, 3), by_type("f16:8 u32:7 i64:5 i16:4 i8:2"))
DIV = when(_spread, 2)
EXTREMUM = highest(SPREAD, by_type("i16:4 i8:2"))
ABS = highest(when(_plain_int16, 4), by_type("i32:5 i16:3 i8:2 u8:2"))
INT8 = by_type("i8:2")
INT8_INT16 = by_type("i8:2 i16:3")


def cast(node: Node) -> int:
    """CAST (:1197): the newest of its two types."""
    versions = {"bf16": 7, "f64": 5, "f16": 5, "u16": 4, "i8": 3, "u32": 2}
    names = (SHORT_NAMES[v.dtype] for v in (node.operands()[0], node.output))
    return max(versions.get(name, 1) for name in names)


def _hybrid(node: Node) -> bool:
    return type_of(node, 0) == "f32" and type_of(node, 1) == "i8"


def _blocks(node: Node) -> bool:
    weights = node.operands()[1]
    return weights.quant is not None and bool(weights.quant.block)


def _grouped(node: Node) -> bool:
    return node.operands()[0].shape[-1] != node.operands()[1].shape[-1]


# int16 with int8 weights is version 1: the rules for int16 ask for int16 weights
INT8_FILTER = by_type("i8:3")


def convolution(node: Node) -> int:
    """CONV_2D (:58)."""
    if _grouped(node):
        return 6
    if _hybrid(node):
        return 5 if per_channel(node, 1) else 2
    return INT8_FILTER(node)


def depthwise(node: Node) -> int:
    """DEPTHWISE_CONV_2D (:108)."""
    if _hybrid(node):
        return 6 if per_channel(node, 1) else 4
    return highest(INT8_FILTER, when(_dilated, 2))(node)


def _dilated(node: Node) -> bool:
    names = ("dilationHFactor", "dilationWFactor")
    return any(node.attrs.get(name, 1) != 1 for name in names)


# of int4 weights with a scale a block: the highest that register.cc knows, so that older readers refuse it
BLOCKS = 13


def fully_connected(node: Node) -> int:
    """FULLY_CONNECTED (:172)."""
    if _hybrid(node) and per_channel(node, 1):
        return 12
    if _blocks(node):
        return BLOCKS
    if type_of(node, 0) == "i16" and type_of(node, 1) == "i16":
        return 7
    if len(node.inputs) == 2:
        return 6
    if node.attrs.get("keepNumDims"):
        return 5
    if _hybrid(node):
        return 9 if node.attrs.get("asymmetricQuantizeInputs") else 3
    return by_type("i8:4")(node)
