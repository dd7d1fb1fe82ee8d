"""Ops that an engine has no kernel of, in words that it has: floats, between conversions where there are integers.

before                  after
  %y = GELU(%x)           %y = MUL(MUL(%x, const 0.5), ADD(TANH(...), const 1))
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit
from straightway.lower.elementwise import ERF, ERF_SATURATES
from straightway.quant.edges import FLOAT32
from straightway.quant.scheme import scheme_of
from straightway.remark import Remark
from straightway.targets.engine import Engine
from straightway.tflite.rows import ROWS

STEP = "quant.substitutes"
# of x³ in the hyperbolic tangent that stands for erf ("Gaussian Error Linear Units", Hendrycks, Gimpel)
CUBIC = 0.044715
SCALED = ("int8", "int16", "uint8")
# the last op, and its operands
Parts = tuple[str, Value, Value]


class _Writer:
    """Inserts ops before a node, under its name."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node
        self.stem = node.output.name

    def op(
        self, name: str, *operands: Value | float, result: Value | None = None, **attrs: Any
    ) -> Value:
        """Insert one op; numbers become constants of the first operand's type."""
        dtype = next(v.dtype for v in operands if isinstance(v, Value))
        inputs: list[Value | None] = [
            v if isinstance(v, Value) else self.number(v, dtype) for v in operands
        ]
        op = Op(dialect="tflite", name=name)
        given = {**ROWS[name].defaults, **attrs}
        node = Node(op, inputs, [], given, name=self.node.name, origins=self.node.origins)
        made = result
        if made is None:
            (kind,) = ROWS[name].infer(node)
            made = Value(self.graph.fresh(f"{self.stem}/{name.lower()}"), kind)
        node.outputs = [made]
        edit.insert(self.graph, node, self.node)
        return made

    def number(self, value: float, dtype: np.dtype) -> Value:
        """Make a constant."""
        return edit.constant(self.graph, np.array(value, dtype), "number")


def _erf(w: _Writer, x: Value) -> Value:
    """As `lower.elementwise` has it."""
    near = w.op("MAXIMUM", w.op("MINIMUM", x, ERF_SATURATES), -ERF_SATURATES)
    square = w.op("MUL", near, near)
    total = w.op("ADD", w.op("MUL", square, ERF[-1]), ERF[-2])
    for factor in ERF[-3::-1]:
        total = w.op("ADD", w.op("MUL", total, square), factor)
    return w.op("TANH", w.op("MUL", total, near))


def _gelu(w: _Writer, x: Value) -> Parts:
    if w.node.attrs.get("approximate"):
        cubed = w.op("ADD", w.op("MUL", w.op("MUL", x, x), CUBIC), 1.0)
        inside = w.op("MUL", w.op("MUL", x, math.sqrt(2 / math.pi)), cubed)
        gate = w.op("TANH", inside)
    else:
        gate = _erf(w, w.op("MUL", x, math.sqrt(0.5)))
    return "MUL", w.op("MUL", x, 0.5), w.op("ADD", gate, 1.0)


def _floor_mod(w: _Writer, x: Value, sizes: Value) -> Parts:
    """What division towards zero leaves, and once more the divisor where that is below zero."""
    left = w.op("SUB", x, w.op("MUL", w.op("DIV", x, sizes), sizes))
    negative = w.op("CAST", w.op("LESS", left, 0), dtype=left.dtype)
    return "ADD", left, w.op("MUL", negative, sizes)


def _select(w: _Writer, condition: Value, x: Value, y: Value) -> Parts:
    """One of two whole numbers: the other, and the difference once or not at all."""
    chosen = w.op("CAST", condition, dtype=x.dtype)
    return "ADD", y, w.op("MUL", chosen, w.op("SUB", x, y))


def _negated(w: _Writer, x: Value) -> Parts:
    return "MUL", x, w.number(-1, x.dtype)


def _truth(w: _Writer, x: Value) -> Parts:
    return "NOT_EQUAL", x, w.number(0, x.dtype)


def _magnitude(w: _Writer, x: Value) -> Parts:
    return "MAXIMUM", x, w.op("MUL", x, -1)


SUBSTITUTES: Mapping[str, Callable[..., Parts]] = {
    "GELU": _gelu,
    "FLOOR_MOD": _floor_mod,
    "SELECT_V2": _select,
    "NEG": _negated,
    "ABS": _magnitude,
    "CAST": _truth,
    "RELU_N1_TO_1": lambda w, x: ("MAXIMUM", w.op("MINIMUM", x, 1), w.number(-1, x.dtype)),
    "RELU_0_TO_1": lambda w, x: ("MAXIMUM", w.op("MINIMUM", x, 1), w.number(0, x.dtype)),
}
WHOLE = ("FLOOR_MOD", "SELECT_V2", "NEG", "ABS")
# of floats, or to truth values
OTHERS = ("GELU", "RELU_N1_TO_1", "RELU_0_TO_1", "CAST")


def run(graph: Graph, engine: Engine, *, accelerated: bool = False) -> list[Remark]:
    """Replace what the engine has no kernel for; of integers only where no accelerator computes with them."""
    remarks = []
    for node in list(graph.nodes):
        why = "" if is_spared(node, accelerated=accelerated) else engine.fault(node, written=False)
        how = _replaced(graph, node, engine) if why else ""
        if how:
            remarks.append(
                Remark(
                    kind="done", step=STEP, node=node.name, op=node.op.name, text=f"{how}: {why}"
                )
            )
    return remarks


def is_spared(node: Node, *, accelerated: bool) -> bool:
    """Whether an accelerator computes a node: those of integers with a scale are its own."""
    values = (*node.operands()[:1], *node.outputs)
    return accelerated and any(v.quant is not None and v.dtype != FLOAT32 for v in values)


def _replaced(graph: Graph, node: Node, engine: Engine) -> str:
    """Let the same values be computed by other ops; returns how, or ""."""
    if _has_parts(node):
        _in_parts(graph, node)
        return "in its parts"
    kernel = engine.kernels.get(node.op.name)
    if kernel is not None and FLOAT32 in kernel.types and _moves_truths(node):
        _in_numbers(graph, node)
        return "with floats, 0 and 1"
    real = node.op.name in OTHERS or (kernel is not None and FLOAT32 in kernel.types)
    if not real or not _has_scales(node):
        return ""
    made = _in_floats(graph, node)
    if _has_parts(made):
        _in_parts(graph, made)
    return "with floats, between conversions"


def _has_parts(node: Node) -> bool:
    """Whether there are other words for it."""
    if node.op.name == "CAST":
        return node.output.dtype == np.bool_
    if node.op.name in OTHERS:
        return node.output.dtype == FLOAT32
    return node.op.name in WHOLE and _is_whole(node)


def _moves_truths(node: Node) -> bool:
    """Whether a node only moves truth values."""
    moved = [v for v in node.operands() if v.dtype == np.bool_]
    return ROWS[node.op.name].moves and len(moved) == 1 and node.output.dtype == np.bool_


def _in_numbers(graph: Graph, node: Node) -> None:
    """Let truth values be moved as floats."""
    w = _Writer(graph, node)
    inputs = [
        w.op("CAST", v, dtype=FLOAT32) if v is not None and v.dtype == np.bool_ else v
        for v in node.inputs
    ]
    result = node.output
    moved = Value(graph.fresh(f"{result.name}/float"), replace(result.known_type, dtype=FLOAT32))
    made = Node(node.op, inputs, [moved], node.attrs, name=node.name, origins=node.origins)
    edit.insert(graph, made, node)
    node.outputs = []
    result.producer = None
    w.op("NOT_EQUAL", moved, 0, result=result)
    edit.remove(node)


def _is_whole(node: Node) -> bool:
    """Whether a node computes whole numbers that are no scaled integers, by no number that may be zero or less."""
    if node.output.dtype != np.int32 or node.output.quant is not None:
        return False
    divisor = node.operands()[1].const if node.op.name == "FLOOR_MOD" else None
    return node.op.name != "FLOOR_MOD" or (divisor is not None and bool((divisor > 0).all()))


def _has_scales(node: Node) -> bool:
    """Whether what is computed is integers with one scale each, which are not weights.

    A CAST reads the numbers stored, not those that they stand for.
    """
    if node.op.name == "CAST":
        return False
    scaled = [v for v in (*node.operands(), *node.outputs) if v.dtype.name in SCALED]
    known = all(v.quant is not None and v.quant.axis is None for v in scaled)
    return bool(scaled) and known and ROWS[node.op.name].quant != "weights"


def _in_floats(graph: Graph, node: Node) -> Node:
    """Let the same op compute with floats, between conversions."""
    w = _Writer(graph, node)
    real = {v: _floats(w, v) for v in dict.fromkeys(node.operands()) if _is_scaled(v)}
    results = [
        Value(graph.fresh(f"{v.name}/float"), replace(v.known_type, dtype=FLOAT32))
        if _is_scaled(v)
        else Value(graph.fresh(v.name), v.type)
        for v in node.outputs
    ]
    inputs = [v if v is None else real.get(v, v) for v in node.inputs]
    made = Node(node.op, inputs, results, node.attrs, name=node.name, origins=node.origins)
    edit.insert(graph, made, node)
    olds, node.outputs = node.outputs, []
    for old, new in zip(olds, results, strict=True):
        old.producer = None
        if _is_scaled(old):
            w.op("QUANTIZE", new, result=old, dtype=old.dtype)
        else:
            edit.replace_uses(old, new)
    edit.remove(node)
    return made


def _floats(w: _Writer, value: Value) -> Value:
    """What integers stand for; constants are floats in the file."""
    if value.const is None:
        return w.op("DEQUANTIZE", value)
    real = scheme_of(value).real(np.asarray(value.const))
    return edit.constant(w.graph, real, f"{value.name}/float")


def _is_scaled(value: Value) -> bool:
    return value.dtype.name in SCALED and value.quant is not None


def _in_parts(graph: Graph, node: Node) -> None:
    """Let the same value be computed by other ops."""
    w = _Writer(graph, node)
    name, a, b = SUBSTITUTES[node.op.name](w, *node.operands())
    result = node.output
    node.outputs = []
    result.producer = None
    w.op(name, a, b, result=result)
    edit.remove(node)
