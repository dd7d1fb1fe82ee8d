"""Ops that an engine has no kernel of, in words that it has: floats, between conversions where there are integers.

before                  after
  %y = GELU(%x)           %y = MUL(MUL(%x, const 0.5), ADD(TANH(...), const 1))
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Op, TensorType, Value, edit
from straightway.lower.elementwise import ERF, ERF_SATURATES
from straightway.quant.edges import FLOAT32
from straightway.remark import Remark
from straightway.tflite.rows import ROWS

STEP = "quant.substitutes"
# of x³ in the hyperbolic tangent that stands for erf ("Gaussian Error Linear Units", Hendrycks, Gimpel)
CUBIC = 0.044715


class _Writer:
    """Inserts ops before a node, under its name."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node
        self.stem = node.output.name
        self.kind = TensorType(dtype=FLOAT32, shape=node.output.known_type.shape)

    def op(self, name: str, *operands: Value | float, result: Value | None = None) -> Value:
        """Insert one op; numbers become constants."""
        made = result or Value(self.graph.fresh(f"{self.stem}/{name.lower()}"), self.kind)
        inputs = [
            v
            if isinstance(v, Value)
            else edit.constant(self.graph, np.array(v, np.float32), "number")
            for v in operands
        ]
        attrs: Mapping[str, Any] = {
            **ROWS[name].defaults,
            **({"dtype": made.dtype} if name == "QUANTIZE" else {}),
        }
        op = Op(dialect="tflite", name=name)
        node = Node(op, inputs, [made], dict(attrs), name=self.node.name, origins=self.node.origins)
        edit.insert(self.graph, node, self.node)
        return made


def _erf(w: _Writer, x: Value) -> Value:
    """As `lower.elementwise` has it."""
    near = w.op("MAXIMUM", w.op("MINIMUM", x, ERF_SATURATES), -ERF_SATURATES)
    square = w.op("MUL", near, near)
    total = w.op("ADD", w.op("MUL", square, ERF[-1]), ERF[-2])
    for factor in ERF[-3::-1]:
        total = w.op("ADD", w.op("MUL", total, square), factor)
    return w.op("TANH", w.op("MUL", total, near))


def _gelu(w: _Writer, x: Value) -> tuple[str, Value, Value]:
    if w.node.attrs.get("approximate"):
        cubed = w.op("ADD", w.op("MUL", w.op("MUL", x, x), CUBIC), 1.0)
        inside = w.op("MUL", w.op("MUL", x, math.sqrt(2 / math.pi)), cubed)
        gate = w.op("TANH", inside)
    else:
        gate = _erf(w, w.op("MUL", x, math.sqrt(0.5)))
    return "MUL", w.op("MUL", x, 0.5), w.op("ADD", gate, 1.0)


SUBSTITUTES: Mapping[str, Callable[[_Writer, Value], tuple[str, Value, Value]]] = {"GELU": _gelu}


def run(graph: Graph, lacks: frozenset[str], *, accelerated: bool = False) -> list[Remark]:
    """Replace what the engine `lacks`; of integers only where no accelerator computes with them."""
    remarks = []
    for node in list(graph.nodes):
        spared = accelerated and node.outputs and node.outputs[0].dtype != FLOAT32
        if node.op.name in SUBSTITUTES.keys() & lacks and not spared:
            _replace(graph, node)
            text = f"in its parts: the target's engine has no {node.op.name}"
            remarks.append(
                Remark(kind="done", step=STEP, node=node.name, op=node.op.name, text=text)
            )
    return remarks


def _replace(graph: Graph, node: Node) -> None:
    """Let the same value be computed by other ops."""
    w = _Writer(graph, node)
    (x,), result = node.operands(), node.output
    stored = x.dtype != FLOAT32
    real = w.op("DEQUANTIZE", x) if stored else x
    name, a, b = SUBSTITUTES[node.op.name](w, real)
    node.outputs = []
    result.producer = None
    if stored:
        w.kind = TensorType(dtype=FLOAT32, shape=result.known_type.shape)
        product = Value(graph.fresh(f"{result.name}/{name.lower()}"), w.kind)
        w.op("QUANTIZE", w.op(name, a, b, result=product), result=result)
    else:
        w.op(name, a, b, result=result)
    edit.remove(node)
