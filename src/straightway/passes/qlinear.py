"""Operators on quantized integers become floats between a DequantizeLinear and a QuantizeLinear.

    before                                             after
      %y = QLinearConv(%x, xs, xz, const, ws, wz,        %a = DequantizeLinear(%x, xs, xz)
                       ys, yz, const)                    %w = DequantizeLinear(const, ws, wz)
                                                         %b = DequantizeLinear(const, xs · ws)
                                                         %y = QuantizeLinear(Conv(%a, %w, %b), ys, yz)

      %q = QuantizeLinear(%x, s, z)                      %a = DequantizeLinear(%q, s, z)
      %y = MaxPool(%q)                                   %y = QuantizeLinear(MaxPool(%a), s, z)

      %q = QuantizeLinear(%x, s, 0)                      %q = QuantizeLinear(%x, s, -1)
      %y = Clip(%q, -127, 127)                           %a = DequantizeLinear(%q, s, -1)
                                                         %y = QuantizeLinear(%a, s, 0)

So there is one way to say where a model rounds. Only where scales and zero points are constants, one
for a tensor or one for each channel of weights. Operands as in onnxruntime's docs/ContribOperators.md.
What clips integers (Brevitas does so for narrow ranges and fewer bits) is said by zero points, by which
rounding saturates where the Clip would: XNNPACK has no integer minimum and maximum. A Clip that leaves
out one number of 256 (±127) is none: what it kept out is a quantum away from what it kept.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit
from straightway.passes.arguments import is_onnx, onnx_op
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.qlinear"
CONTRIB = "com.microsoft"
SINCE = 13
# scales of float16, integers of 16 bits
ROUNDING_SINCE = 21
# limits that leave nothing between them are the model's fault
MOST_CUT = 255
EIGHT_BITS = (np.dtype(np.int8), np.dtype(np.uint8))
# what picks elements of integers, and could as well pick those of the floats they stand for
PICKS = (
    "Concat",
    "DepthToSpace",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "MaxPool",
    "Reshape",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
# those that give means of integers, which are rounded again
MEANS = ("Resize",)
# those whose operands are all data
JOINS = ("Concat",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Integers, and how they are to be read: scale, zero point, the axis along which these vary."""

    value: Value | None
    scale: Value | None
    zero_point: Value | None
    axis: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """The operator on floats, what it takes (values of other types as they are), how its result is stored.

    `varies`: scales may be computed as the model runs. `contrib`: the operator is onnxruntime's own.
    """

    name: str
    operands: Sequence[Read | Value | None]
    result: Read
    attrs: dict[str, Any]
    varies: bool = False
    contrib: bool = False


def run(graph: Graph) -> list[Remark]:
    """Respell every operator on quantized integers in the graph and those inside it."""
    done: Counter[str] = Counter()
    for inner in nested(graph):
        for node in inner.nodes:
            if _respell(inner, node):
                done[node.op.name] += 1
    if not done:
        return []
    listed = ", ".join(f"{count} {name}" for name, count in done.most_common())
    total = done.total()
    text = f"{total} operators on integers became floats that are rounded: {listed}"
    return [Remark(kind="done", step=STEP, text=text, numbers={"nodes": total})]


def _respell(graph: Graph, node: Node) -> bool:
    if node.op.dialect == CONTRIB and node.op.name in ("QuantizeLinear", "DequantizeLinear"):
        node.op = onnx_op(node.op.name, ROUNDING_SINCE)
        return True
    if is_onnx(node, *PICKS, *MEANS):
        return _pick(graph, node)
    if is_onnx(node, "Clip"):
        return _clip(graph, node)
    read = SPELLINGS.get(node.op.name) if node.op.dialect in ("onnx", CONTRIB) else None
    spelling = None if read is None else read(graph, node)
    if spelling is None or not _is_constant(spelling):
        return False
    operands = [
        _dequantized(graph, node, one) if isinstance(one, Read) else one
        for one in spelling.operands
    ]
    made = Value(graph.fresh(f"{node.outputs[0].name}/float"), None)
    op = (
        Op(dialect=CONTRIB, name=spelling.name, version=1)
        if spelling.contrib
        else onnx_op(spelling.name, SINCE)
    )
    edit.insert(graph, Node(op, operands, [made], spelling.attrs, **_label(node)), node)
    if spelling.result.scale is None:
        edit.replace(node, [made])
        return True
    edit.replace(node, [_quantized(graph, node, made, spelling.result)])
    return True


def _pick(graph: Graph, node: Node) -> bool:
    """Floats around an op that picks elements of integers of one scheme, or takes means of them."""
    data = node.operands() if node.op.name in JOINS else node.operands()[:1]
    makers = [value.producer for value in data]
    if not makers or not all(m is not None and is_onnx(m, "QuantizeLinear") for m in makers):
        return False
    schemes = {_key(m) for m in makers if m is not None}
    first = makers[0]
    if len(schemes) != 1 or None in schemes or first is None:
        return False
    pair = [*first.inputs[1:], None][:2]
    inputs = [
        _dequantized(graph, node, Read(value=v, scale=pair[0], zero_point=pair[1]))
        if v in data
        else v
        for v in node.inputs
    ]
    results = [Value(graph.fresh(f"{v.name}/float"), None) for v in node.outputs]
    edit.insert(graph, Node(node.op, inputs, results, node.attrs, **_label(node)), node)
    stored = Read(value=None, scale=pair[0], zero_point=pair[1])
    edit.replace(node, [_quantized(graph, node, v, stored) for v in results])
    return True


def _clip(graph: Graph, node: Node) -> bool:
    """Integers within limits: rounded so that they saturate there, then brought to their zero point."""
    x, *bounds = [*node.inputs, None, None][:3]
    maker = None if x is None else x.producer
    if maker is None or not is_onnx(maker, "QuantizeLinear") or _key(maker) is None:
        return False
    if any(v is not None and (v.const is None or v.const.size != 1) for v in bounds):
        return False
    real, scale, zero = maker.operands()
    limits, own = np.iinfo(zero.dtype), int(np.asarray(zero.const).reshape(-1)[0])
    low, high = (
        None if v is None or v.const is None else int(v.const.reshape(-1)[0]) for v in bounds
    )
    above = 0 if low is None else max(low - int(limits.min), 0)
    below = 0 if high is None else max(int(limits.max) - high, 0)
    if above and real.producer is not None and is_onnx(real.producer, "Relu"):
        above = above if own < int(limits.min) + above else 0
    if above + below == 1 and own not in (low, high):  # one number more, a quantum beyond
        edit.replace(node, [maker.outputs[0]])
        return True
    points = [own + shift for shift in (-above, below) if shift]
    if above + below > MOST_CUT or not all(limits.min <= point <= limits.max for point in points):
        return False
    for point in points:
        shifted = edit.constant(graph, np.array(point, zero.dtype), zero.name)
        real = rounded(graph, node, real, scale, shifted)
    edit.replace(node, [_quantized(graph, node, real, _stored(maker, 1))])
    return True


def _key(node: Node) -> tuple[bytes, bytes, str] | None:
    """What tells schemes apart, None where they are not constant."""
    scale, zero_point = [*node.inputs[1:], None][:2]
    if scale is None or scale.const is None or scale.const.size != 1:
        return None
    if zero_point is None or zero_point.const is None or zero_point.dtype not in EIGHT_BITS:
        return None
    return scale.const.tobytes(), zero_point.const.tobytes(), str(zero_point.const.dtype)


def _is_constant(spelling: Spelling) -> bool:
    reads = [one for one in spelling.operands if isinstance(one, Read)] + [spelling.result]
    given = [v for one in reads for v in (one.scale, one.zero_point) if v is not None]
    scales = [one.scale.const for one in reads if one.scale is not None]
    if any(scale is not None and not np.isfinite(scale).all() for scale in scales):
        return False
    return spelling.varies or all(value.const is not None for value in given)


def _dequantized(graph: Graph, node: Node, read: Read) -> Value | None:
    return None if read.value is None else _floats(graph, node, read.value, read)


def _floats(graph: Graph, node: Node, value: Value, read: Read) -> Value:
    attrs = {} if read.axis is None else {"axis": read.axis}
    made = Value(graph.fresh(f"{value.name}/float"), None)
    op = onnx_op("DequantizeLinear", ROUNDING_SINCE)
    inputs = [value, read.scale, *([] if read.zero_point is None else [read.zero_point])]
    return edit.insert(graph, Node(op, inputs, [made], attrs, **_label(node)), node).output


def _quantized(graph: Graph, node: Node, value: Value, read: Read) -> Value:
    made = Value(graph.fresh(f"{value.name}/stored"), None)
    op = onnx_op("QuantizeLinear", ROUNDING_SINCE)
    inputs = [value, read.scale, *([] if read.zero_point is None else [read.zero_point])]
    return edit.insert(graph, Node(op, inputs, [made], **_label(node)), node).output


def rounded(graph: Graph, node: Node, real: Value, scale: Value, zero_point: Value) -> Value:
    """Round floats before a node, for which it is done: the floats that the integers stand for."""
    scheme = Read(value=None, scale=scale, zero_point=zero_point)
    integers = _quantized(graph, node, real, scheme)
    made = _floats(graph, node, integers, scheme)
    if real.type is not None:
        integers.type, made.type = replace(real.type, dtype=zero_point.dtype), real.type
    return made


def _label(node: Node) -> dict[str, Any]:
    return {"name": node.name, "origins": node.origins}


def _triple(node: Node, place: int, axis: int | None = None) -> Read:
    """Integers at a place of the operands, their scale and zero point after them."""
    value, scale, zero_point = [*node.inputs[place : place + 3], None, None, None][:3]
    varies = scale is not None and scale.const is not None and scale.const.size > 1
    return Read(value=value, scale=scale, zero_point=zero_point, axis=axis if varies else None)


def _stored(node: Node, place: int) -> Read:
    """How the result is stored: its scale and zero point at a place of the operands."""
    scale, zero_point = [*node.inputs[place : place + 2], None, None][:2]
    return Read(value=None, scale=scale, zero_point=zero_point)


def _bias(graph: Graph, node: Node, place: int, x: Read, w: Read) -> Read | None:
    """An int32 bias, whose scale is the product of the others', and of QGemm's factor of that product."""
    value = node.inputs[place] if place < len(node.inputs) else None
    if value is None:
        return None
    if x.scale is None or w.scale is None or x.scale.const is None or w.scale.const is None:
        return Read(value=value, scale=x.scale, zero_point=None)
    alpha = float(node.attrs.get("alpha", 1.0))
    product = (alpha * x.scale.const.reshape(-1)[0] * w.scale.const).astype(np.float32)
    scale = edit.constant(graph, product.reshape(-1) if product.size > 1 else product.reshape(()))
    rank = 1 if value.type is None else max(value.type.rank, 1)
    axis = rank - 1 if product.size > 1 else None
    return Read(value=value, scale=scale, zero_point=None, axis=axis)


def _convolution(graph: Graph, node: Node) -> Spelling:
    x, w = _triple(node, 0), _triple(node, 3, axis=0)
    operands = [x, w, _bias(graph, node, 8, x, w)]
    return Spelling(name="Conv", operands=operands, result=_stored(node, 6), attrs=node.attrs)


def _matrix_product(_: Graph, node: Node) -> Spelling | None:
    a, b = _triple(node, 0), _triple(node, 3)
    if a.scale is None or a.scale.const is None or a.scale.const.size != 1 or b.value is None:
        return None
    if b.value.type is None:
        return None
    b = _triple(node, 3, axis=b.value.type.rank - 1)
    return Spelling(name="MatMul", operands=[a, b], result=_stored(node, 6), attrs=node.attrs)


def _general_product(graph: Graph, node: Node) -> Spelling:
    axis = 0 if node.attrs.get("transB", 0) else 1
    a, b = _triple(node, 0), _triple(node, 3, axis=axis)
    operands = [a, b, _bias(graph, node, 6, a, b)]
    return Spelling(name="Gemm", operands=operands, result=_stored(node, 7), attrs=node.attrs)


def _pairwise(name: str) -> Callable[[Graph, Node], Spelling]:
    def read(_: Graph, node: Node) -> Spelling:
        operands = [_triple(node, 0), _triple(node, 3)]
        return Spelling(name=name, operands=operands, result=_stored(node, 6), attrs=node.attrs)

    return read


def _single(name: str, *dropped: str) -> Callable[[Graph, Node], Spelling | None]:
    def read(_: Graph, node: Node) -> Spelling | None:
        if node.attrs.get("channels_last", 0):
            return None
        attrs = {key: v for key, v in node.attrs.items() if key not in dropped}
        return Spelling(
            name=name, operands=[_triple(node, 0)], result=_stored(node, 3), attrs=attrs
        )

    return read


def _joined(_: Graph, node: Node) -> Spelling:
    operands = [_triple(node, place) for place in range(2, len(node.inputs), 3)]
    return Spelling(name="Concat", operands=operands, result=_stored(node, 0), attrs=node.attrs)


def _attention(_: Graph, node: Node) -> Spelling | None:
    """Of QAttention the first product alone is of integers; its result is floats."""
    x, weights, bias, x_scale, scale, mask, x_zero, zero, past = [*node.inputs, *[None] * 9][:9]
    if len(node.outputs) > 1 or scale is None or scale.const is None:
        return None
    axis = 1 if scale.const.size > 1 else None
    operands = [
        Read(value=x, scale=x_scale, zero_point=x_zero),
        Read(value=weights, scale=scale, zero_point=zero, axis=axis),
        bias,
        mask,
        past,
    ]
    result = Read(value=None, scale=None, zero_point=None)
    attrs = {key: v for key, v in node.attrs.items() if key != "past_present_share_buffer"}
    return Spelling(
        name="Attention", operands=operands, result=result, attrs=attrs, varies=True, contrib=True
    )


def _chosen(_: Graph, node: Node) -> Spelling:
    operands = [node.inputs[0], _triple(node, 1), _triple(node, 4)]
    return Spelling(name="Where", operands=operands, result=_stored(node, 7), attrs=node.attrs)


SPELLINGS: dict[str, Callable[[Graph, Node], Spelling | None]] = {
    "QLinearConv": _convolution,
    "QLinearMatMul": _matrix_product,
    "QGemm": _general_product,
    "QAttention": _attention,
    "QLinearAdd": _pairwise("Add"),
    "QLinearMul": _pairwise("Mul"),
    "QLinearConcat": _joined,
    "QLinearWhere": _chosen,
    "QLinearSigmoid": _single("Sigmoid"),
    "QLinearLeakyRelu": _single("LeakyRelu"),
    "QLinearSoftmax": _single("Softmax", "opset"),
    "QLinearAveragePool": _single("AveragePool", "channels_last"),
    "QLinearGlobalAveragePool": _single("GlobalAveragePool", "channels_last"),
    "QLinearReduceMean": _single("ReduceMean"),
}
