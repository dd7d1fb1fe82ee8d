"""Inputs and outputs as the integers that the graph stores, without conversions at its ends.

before                          after
  input %x f32                    input %q int8
  %q = QUANTIZE(%x)               ...
  ...                             output %r int8
  output DEQUANTIZE(%r)

As uint8 they are the same numbers plus 128, which one QUANTIZE shifts: weights with a scale for each
channel are multiplied with int8 only.
"""

from dataclasses import replace

import numpy as np

from straightway.errors import InvalidRequest
from straightway.ir import Graph, Node, Op, TensorType, Value, edit
from straightway.quant.edges import FLOAT32, is_op, rounds
from straightway.quant.scheme import INT8, INT16, UINT8, scheme_of
from straightway.remark import Remark

STEP = "quant.ends"
SIGN = 128
# what a caller may ask for, and the type that it needs inside
IO_TYPES = {"float": None, "integer": None, "int8": INT8, "uint8": INT8, "int16": INT16}


def check(io_type: str) -> None:
    """Raise InvalidRequest for what is no type of inputs and outputs."""
    if io_type not in IO_TYPES:
        raise InvalidRequest(
            f"types of inputs and outputs are {', '.join(IO_TYPES)}; got {io_type!r}"
        )


def run(graph: Graph, io_type: str) -> list[Remark]:
    """Let the graph take and give integers where all that happens to floats is one rounding.

    "integer" takes those that the graph stores; the others insist on a type, and raise
    InvalidRequest where no input and no output is stored so.
    """
    if io_type == "float":
        return []
    wanted = IO_TYPES[io_type]
    taken = [v for v in graph.inputs if v.dtype == FLOAT32]
    given = [(k, v) for k, v in enumerate(graph.outputs) if v.dtype == FLOAT32]
    left = [_stays("input", v) for v in taken if not _take(v, wanted, io_type)]
    left += [_stays("output", v) for k, v in given if not _give(graph, k, wanted, io_type)]
    ends = (*graph.inputs, *graph.outputs)
    if wanted is not None and left and not any(v.quant is not None for v in ends):
        raise InvalidRequest(
            f"the model rounds no input and no output to {wanted}, so none can be {io_type}: "
            "quantize it first"
        )
    return left


def _stays(what: str, value: Value) -> Remark:
    text = f"{what} '{value.name}' stays a float: it is not rounded to one kind of integers"
    return Remark(kind="missed", step=STEP, text=text)


def _take(value: Value, wanted: np.dtype | None, io_type: str) -> bool:
    """Let an input be the integers that all its users round it to."""
    users = value.users()
    if not users or not all(rounds(user) for user in users):
        return False
    first, *others = [user.output for user in users]
    scheme = scheme_of(first)
    if any(scheme_of(other) != scheme for other in others) or scheme.dtype != (
        wanted or scheme.dtype
    ):
        return False
    kind = TensorType(
        dtype=UINT8 if io_type == "uint8" else scheme.dtype, shape=value.known_type.shape
    )
    value.type = kind
    value.quant = scheme.quant
    if kind.dtype == UINT8:  # each QUANTIZE stays, and shifts
        value.quant = replace(scheme, dtype=UINT8, zero_point=scheme.zero_point + SIGN).quant
        return True
    for user in users:
        edit.replace(user, [value])
    return True


def _give(graph: Graph, place: int, wanted: np.dtype | None, io_type: str) -> bool:
    """Let an output be the integers behind it."""
    value = graph.outputs[place]
    node = value.producer
    if node is None or not is_op(node, "DEQUANTIZE"):
        return False
    (source,) = node.operands()
    scheme = scheme_of(source)
    if scheme.dtype != (wanted or scheme.dtype):
        return False
    if io_type == "uint8":
        source = _shifted(graph, source, node)
    outputs = list(graph.outputs)
    outputs[place] = source
    edit.set_outputs(graph, outputs)
    if not value.users():
        edit.remove(node)
    return True


def _shifted(graph: Graph, source: Value, node: Node) -> Value:
    scheme = scheme_of(source)
    shifted = replace(scheme, dtype=UINT8, zero_point=scheme.zero_point + SIGN)
    made = Value(
        graph.fresh(f"{source.name}/uint8"),
        TensorType(dtype=UINT8, shape=source.known_type.shape),
    )
    made.quant = shifted.quant
    op = Op(dialect="tflite", name="QUANTIZE")
    attrs = {"dtype": UINT8}
    edit.insert(
        graph, Node(op, [source], [made], attrs, name=node.name, origins=node.origins), node
    )
    return made
