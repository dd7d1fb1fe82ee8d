"""What QUANTIZE and DEQUANTIZE say of integers becomes the scheme of the values themselves."""

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit
from straightway.quant.edges import FLOAT32, is_op
from straightway.quant.scheme import UINT8, Scheme, scheme_of
from straightway.tflite.rows import ROWS


def run(graph: Graph) -> None:
    """Give every value that is quantized its scale, in branches and bodies, too.

    The reading of one value by two schemes is kept: the second is computed from the first.
    """
    for node in list(graph.nodes):
        for inner in node.graphs():
            run(inner)
        if "scale" not in node.attrs:
            continue
        value = node.output if is_op(node, "QUANTIZE") else node.operands()[0]
        scheme = Scheme(
            dtype=value.dtype,
            scale=float(node.attrs["scale"]),
            zero_point=int(node.attrs["zero_point"]),
        )
        if value.quant is None:
            value.quant = scheme.quant
        elif scheme_of(value) != scheme:
            _read_anew(graph, node, scheme_of(value), scheme)
    for node in graph.nodes:
        if is_op(node, "QUANTIZE") and node.operands()[0].dtype != FLOAT32:
            _shifted(node.operands()[0], node.output)


def forget(graph: Graph) -> None:
    """Constants that stay floats are written as floats."""
    for value in graph.values():
        if value.dtype.kind == "f":
            value.quant = None
    for node in graph.nodes:
        for inner in node.graphs():
            forget(inner)


def _shifted(x: Value, y: Value) -> None:
    """An operand that has no scheme of its own differs from the result by its sign only.

    So does what it is picked from: a value that is only renamed has no tensor of its own.
    """
    if x.quant is not None:
        return
    own = scheme_of(y)
    shift = 128 if x.dtype == UINT8 else -128
    quant = Scheme(dtype=x.dtype, scale=own.scale, zero_point=own.zero_point + shift).quant
    pending = [x]
    while pending:
        value = pending.pop()
        value.quant = quant
        maker = value.producer
        if maker is not None and maker.op.name in ROWS and ROWS[maker.op.name].quant == "same":
            pending += [v for v in maker.operands() if v.dtype == x.dtype and v.quant is None]


def _read_anew(graph: Graph, node: Node, own: Scheme, scheme: Scheme) -> None:
    """(q - z₂)·s₂ of (q - z₁)·s₁."""
    old = node.output
    value = Value(graph.fresh(old.name), old.type)
    made = Node(node.op, node.inputs, [value], name=node.name, origins=node.origins)
    edit.insert(graph, made, node)
    factor = scheme.scale / own.scale
    offset = (own.zero_point - scheme.zero_point) * scheme.scale
    for name, number in (("MUL", factor), ("ADD", offset)):
        result = Value(graph.fresh(old.name), old.type)
        constant = edit.constant(graph, np.array(number, np.float32), f"{old.name}/const")
        attrs = {"activation": "NONE", **({"pot_scale": False} if name == "ADD" else {})}
        op = Op(dialect="tflite", name=name)
        step = Node(op, [value, constant], [result], attrs, name=node.name, origins=node.origins)
        edit.insert(graph, step, node)
        value = result
    edit.replace(node, [value])
