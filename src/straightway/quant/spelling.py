"""TFLite ops in ONNX's words: what `lower` does, backwards, one op at a time.

Each op of a lowered graph, whose tensors still have the model's dimension order, becomes one ONNX node,
or a few that are lowered to it again. So a scale can be given to every edge that the TFLite file will
have. An op that has no spelling here stays the ONNX node that it was made for.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from straightway.ir import Graph, Node, Op, Value, edit
from straightway.ir.source import kept_in_floats
from straightway.passes.arguments import onnx_op

OPSET = 20
# the first whose QuantizeLinear gives int16
INT16_OPSET = 21
FLOAT32 = np.dtype(np.float32)


def opset_for(dtypes: Collection[np.dtype]) -> int:
    """The opset of a model with integers of these types between ops."""
    return INT16_OPSET if set(dtypes) == {np.dtype(np.int16)} else OPSET


def rounding_op(name: str, dtype: np.dtype, dtypes: Collection[np.dtype]) -> Op:
    """QuantizeLinear or DequantizeLinear of one of the types of a model.

    int16 beside int8 is onnxruntime's own: from opset 21 on its optimiser fails at int8 behind products
    ("output_dtype INT8 does not match y_zero_point type UINT8", version 1.32).
    """
    if dtype == np.int16 and opset_for(dtypes) != INT16_OPSET:
        return Op(dialect="com.microsoft", name=name, version=1)
    return onnx_op(name, INT16_OPSET if dtype == np.int16 else OPSET)


class Writer:
    """Appends ONNX nodes of one lowered op to a graph.

    `rounds`: what weights are multiplied with is rounded by its range as the model runs. `in_floats`: the op
    stays in floats, even between roundings.
    """

    def __init__(self, graph: Graph, *, rounds: bool = False, in_floats: bool = False) -> None:
        self.graph = graph
        self.rounds = rounds
        self.in_floats = in_floats
        self.like: Node | None = None

    def node(self, name: str, inputs: Sequence[Value | None], count: int = 1, **attrs: Any) -> Any:
        """Append a node; returns its result, or the list where there are several."""
        like = self.like
        label = "" if like is None else like.name
        origins = frozenset() if like is None else like.origins
        origins = kept_in_floats(origins) if self.in_floats else origins
        results = [Value(self.graph.fresh(f"{label}/{name.lower()}"), None) for _ in range(count)]
        op = onnx_op(name, OPSET)
        edit.append(self.graph, Node(op, inputs, results, attrs, name=label, origins=origins))
        return results[0] if count == 1 else results

    def factor(self, x: Any) -> Any:
        """What weights are multiplied with."""
        if not self.rounds:
            return x
        found = self.node("DynamicQuantizeLinear", [x], 3)
        return self.node("DequantizeLinear", found)

    def const(self, array: Any, dtype: Any = np.int64) -> Value:
        """Make a constant."""
        return edit.constant(self.graph, np.asarray(array, dtype))


Spelling = Callable[[Writer, Node, list[Any]], Any]
SPELLINGS: dict[str, Spelling] = {}
AUTO_PAD = {"SAME": "SAME_UPPER", "VALID": "VALID"}
LIMITS = {"RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}
LARGE = 2**31 - 1


def spells(*names: str) -> Callable[[Spelling], Spelling]:
    """Register how an op is spelled."""

    def register(function: Spelling) -> Spelling:
        SPELLINGS.update(dict.fromkeys(names, function))
        return function

    return register


def fault(node: Node) -> str:
    """Why an op has no spelling, or ""."""
    if node.op.name not in SPELLINGS:
        return f"{node.op.name} has no spelling in ONNX"
    attrs = node.attrs
    if attrs.get("batch_dims") or attrs.get("beta", 1.0) != 1.0 or attrs.get("mode") == "SYMMETRIC":
        return f"these options of {node.op.name} have no spelling in ONNX"
    return ""


def spell(w: Writer, node: Node, inputs: list[Value | None]) -> list[Value]:
    """Append what an op is in ONNX, its fused activation after it; returns the results."""
    w.like = node
    found = SPELLINGS[node.op.name](w, node, list(inputs))
    results = list(found) if isinstance(found, (list, tuple)) else [found]
    fused = node.attrs.get("activation", "NONE")
    return results if fused == "NONE" else [_limited(w, fused, results[0])]


def _limited(w: Writer, name: str, x: Value) -> Any:
    if name in LIMITS:
        low, high = (w.const(v, FLOAT32) for v in LIMITS[name])
        return w.node("Clip", [x, low, high])
    return w.node("Relu" if name == "RELU" else "Tanh", [x])


PLAIN = {
    "ADD": "Add",
    "SUB": "Sub",
    "MUL": "Mul",
    "DIV": "Div",
    "POW": "Pow",
    "MAXIMUM": "Max",
    "MINIMUM": "Min",
    "EQUAL": "Equal",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "LOGICAL_NOT": "Not",
    "PRELU": "PRelu",
    "SELECT_V2": "Where",
    "ABS": "Abs",
    "NEG": "Neg",
    "EXP": "Exp",
    "LOG": "Log",
    "SQRT": "Sqrt",
    "SIN": "Sin",
    "COS": "Cos",
    "FLOOR": "Floor",
    "CEIL": "Ceil",
    "ROUND": "Round",
    "SIGN": "Sign",
    "LOGISTIC": "Sigmoid",
    "TANH": "Tanh",
    "RELU": "Relu",
    "ELU": "Elu",
    "HARD_SWISH": "HardSwish",
    "GATHER_ND": "GatherND",
}
for _name, _plain in PLAIN.items():
    SPELLINGS[_name] = lambda w, _, inputs, plain=_plain: w.node(plain, inputs)  # type: ignore[misc]
for _name in LIMITS:
    SPELLINGS[_name] = lambda w, node, inputs: _limited(w, node.op.name, inputs[0])
for _name, _plain in (
    ("MEAN", "ReduceMean"),
    ("SUM", "ReduceSum"),
    ("REDUCE_MAX", "ReduceMax"),
    ("REDUCE_MIN", "ReduceMin"),
    ("REDUCE_PROD", "ReduceProd"),
):
    SPELLINGS[_name] = lambda w, node, inputs, plain=_plain: w.node(  # type: ignore[misc]
        plain, [inputs[0], w.const(node.attrs["axes"])], keepdims=int(node.attrs["keep_dims"])
    )
for _name, _plain in (
    ("SOFTMAX", "Softmax"),
    ("LOG_SOFTMAX", "LogSoftmax"),
    ("L2_NORMALIZATION", "LpNormalization"),
    ("CONCATENATION", "Concat"),
    ("GATHER", "Gather"),
):
    SPELLINGS[_name] = lambda w, node, inputs, plain=_plain: w.node(  # type: ignore[misc]
        plain, inputs, axis=node.attrs["axis"]
    )


@spells("NOT_EQUAL")
def _not_equal(w: Writer, _: Node, inputs: list[Value]) -> Any:
    return w.node("Not", [w.node("Equal", inputs)])


@spells("SQUARE")
def _square(w: Writer, _: Node, inputs: list[Value]) -> Any:
    return w.node("Mul", [inputs[0], inputs[0]])


@spells("RSQRT")
def _inverse_root(w: Writer, _: Node, inputs: list[Value]) -> Any:
    return w.node("Reciprocal", [w.node("Sqrt", inputs)])


@spells("LEAKY_RELU")
def _leaky(w: Writer, node: Node, inputs: list[Value]) -> Any:
    return w.node("LeakyRelu", inputs, alpha=float(node.attrs["alpha"]))


@spells("GELU")
def _gelu(w: Writer, node: Node, inputs: list[Value]) -> Any:
    kind = "tanh" if node.attrs["approximate"] else "none"
    return w.node("Gelu", inputs, approximate=kind)


@spells("CAST")
def _cast(w: Writer, node: Node, inputs: list[Value]) -> Any:
    return w.node("Cast", inputs, to=_element(node.attrs["dtype"]))


def _element(dtype: np.dtype) -> int:
    numbers = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7}
    more = {"bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16}
    return {**numbers, **more}[np.dtype(dtype).name]


@spells("ARG_MAX", "ARG_MIN")
def _arg(w: Writer, node: Node, inputs: list[Value]) -> Any:
    name = {"ARG_MAX": "ArgMax", "ARG_MIN": "ArgMin"}[node.op.name]
    found: Value = w.node(name, inputs, axis=node.attrs["axis"], keepdims=0)
    if node.attrs["output_type"] == "INT64":
        return found
    return w.node("Cast", [found], to=_element(np.dtype(np.int32)))


@spells("TOPK_V2")
def _top(w: Writer, node: Node, inputs: list[Value]) -> list[Value]:
    values, places = w.node("TopK", [inputs[0], w.const([int(node.attrs["k"])])], 2)
    return [values, w.node("Cast", [places], to=_element(np.dtype(np.int32)))]


# -- windows


def _steps(node: Node) -> dict[str, Any]:
    found = {"strides": tuple(node.attrs["strides"]), "auto_pad": AUTO_PAD[node.attrs["padding"]]}
    if "dilations" in node.attrs:
        found["dilations"] = tuple(node.attrs["dilations"])
    return found


@spells("CONV_2D", "DEPTHWISE_CONV_2D")
def _convolution(w: Writer, node: Node, inputs: list[Value]) -> Any:
    x, weights = node.operands()[:2]
    steps = _steps(node)
    if steps["auto_pad"] == "SAME_UPPER" and max(steps["dilations"]) > 1:
        steps |= {"auto_pad": "NOTSET", "pads": _same(node)}
    inputs = [w.factor(inputs[0]), *inputs[1:]]
    return w.node("Conv", inputs, group=x.shape[1] // weights.shape[1], **steps)


def _same(node: Node) -> tuple[int, ...]:
    """SAME in numbers: onnxruntime takes no dilation beside it."""
    x, weights = node.operands()[:2]
    before, after = [], []
    for size, kernel, stride, dilation, out in zip(
        x.shape[2:],
        weights.shape[2:],
        node.attrs["strides"],
        node.attrs["dilations"],
        node.output.shape[2:],
        strict=True,
    ):
        surplus = max((out - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
        before.append(surplus // 2)
        after.append(surplus - before[-1])
    return (*before, *after)


@spells("TRANSPOSE_CONV")
def _transposed(w: Writer, node: Node, inputs: list[Value]) -> Any:
    x, weights = node.operands()[:2]
    strides = tuple(node.attrs["strides"])
    before, after, extra = [], [], []
    for size, kernel, stride, out in zip(
        x.shape[2:], weights.shape[2:], strides, node.output.shape[2:], strict=True
    ):
        surplus = (size - 1) * stride + kernel - out
        before.append(max(surplus, 0) // 2)
        after.append(max(surplus, 0) - before[-1])
        extra.append(max(-surplus, 0))
    pads, extra_out = (*before, *after), tuple(extra)
    return w.node("ConvTranspose", inputs, strides=strides, pads=pads, output_padding=extra_out)


@spells("AVERAGE_POOL_2D", "MAX_POOL_2D")
def _pool(w: Writer, node: Node, inputs: list[Value]) -> Any:
    name = {"AVERAGE_POOL_2D": "AveragePool", "MAX_POOL_2D": "MaxPool"}[node.op.name]
    return w.node(name, inputs, kernel_shape=tuple(node.attrs["filter"]), **_steps(node))


@spells("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR")
def _resize(w: Writer, node: Node, inputs: list[Value]) -> Any:
    modes = {"half_pixel_centers": "half_pixel", "align_corners": "align_corners"}
    mode = next((m for key, m in modes.items() if node.attrs[key]), "asymmetric")
    attrs: dict[str, Any] = {"coordinate_transformation_mode": mode, "mode": "linear"}
    if node.op.name == "RESIZE_NEAREST_NEIGHBOR":
        nearest = "floor" if mode == "asymmetric" else "round_prefer_ceil"
        attrs |= {"mode": "nearest", "nearest_mode": nearest}
    return w.node("Resize", [inputs[0], None, None, w.const(node.output.shape)], **attrs)


@spells("DEPTH_TO_SPACE", "SPACE_TO_DEPTH")
def _blocks(w: Writer, node: Node, inputs: list[Value]) -> Any:
    name = {"DEPTH_TO_SPACE": "DepthToSpace", "SPACE_TO_DEPTH": "SpaceToDepth"}[node.op.name]
    return w.node(name, inputs, blocksize=int(node.attrs["block_size"]))


# -- matrices


@spells("FULLY_CONNECTED")
def _linear(w: Writer, node: Node, inputs: list[Value]) -> Any:
    """Weights stand as [K, M]: see `weights_perm`."""
    x, weights, bias = [*inputs, None][:3]
    axis, rank = node.attrs["axis"], node.operands()[0].rank
    if rank == 2 and axis == 1 and bias is not None:
        return w.node("Gemm", [w.factor(x), weights, bias])
    order = (*(k for k in range(rank) if k != axis), axis)
    moved = x if axis == rank - 1 else w.node("Transpose", [x], perm=order)
    product = w.node("MatMul", [w.factor(moved), weights])
    if bias is not None:
        product = w.node("Add", [product, bias])
    if axis == rank - 1:
        return product
    back = tuple(order.index(k) for k in range(rank))
    return w.node("Transpose", [product], perm=back)


def weights_perm(node: Node) -> tuple[int, ...] | None:
    """In which order ONNX has the weights' dimensions, None where it is the same."""
    return (1, 0) if node.op.name == "FULLY_CONNECTED" else None


@spells("BATCH_MATMUL")
def _product(w: Writer, node: Node, inputs: list[Value]) -> Any:
    given = []
    for value, operand, turned in zip(
        inputs, node.operands(), (node.attrs["adj_x"], node.attrs["adj_y"]), strict=True
    ):
        order = [*range(operand.rank - 2), operand.rank - 1, operand.rank - 2]
        given.append(w.node("Transpose", [value], perm=tuple(order)) if turned else value)
    return w.node("MatMul", given)


# -- shapes


@spells("RESHAPE")
def _reshape(w: Writer, node: Node, inputs: list[Value]) -> Any:
    return w.node("Reshape", [inputs[0], w.const(node.output.shape)], allowzero=1)


@spells("BROADCAST_TO")
def _expand(w: Writer, node: Node, inputs: list[Value]) -> Any:
    return w.node("Expand", [inputs[0], w.const(node.output.shape)])


@spells("TRANSPOSE")
def _transpose(w: Writer, node: Node, inputs: list[Value]) -> Any:
    return w.node("Transpose", inputs[:1], perm=tuple(node.attrs["perm"]))


def _cut(w: Writer, x: Value, begin: Any, end: Any, strides: Any) -> Any:
    axes = w.const(list(range(len(begin))))
    return w.node("Slice", [x, w.const(begin), w.const(end), axes, w.const(strides)])


@spells("SLICE")
def _slice(w: Writer, node: Node, inputs: list[Value]) -> Any:
    begin, size = node.attrs["begin"], node.attrs["size"]
    end = [b + s for b, s in zip(begin, size, strict=True)]
    return _cut(w, inputs[0], begin, end, [1] * len(end))


@spells("STRIDED_SLICE")
def _strided(w: Writer, node: Node, inputs: list[Value]) -> Any:
    attrs = node.attrs
    mask = attrs.get("end_mask") or [0] * len(attrs["end"])
    end = [
        (LARGE if step > 0 else -LARGE) if open_ or (step < 0 and stop < 0) else stop
        for stop, step, open_ in zip(attrs["end"], attrs["strides"], mask, strict=True)
    ]
    return _cut(w, inputs[0], attrs["begin"], end, attrs["strides"])


@spells("REVERSE_V2")
def _reverse(w: Writer, node: Node, inputs: list[Value]) -> Any:
    axes = w.const(node.attrs["axes"])
    count = len(node.attrs["axes"])
    steps = [w.const([v] * count) for v in (-1, -LARGE)]
    return w.node("Slice", [inputs[0], steps[0], steps[1], axes, steps[0]])


@spells("PAD", "PADV2", "MIRROR_PAD")
def _pad(w: Writer, node: Node, inputs: list[Value]) -> Any:
    pairs = node.attrs["paddings"]
    pads = w.const([a for a, _ in pairs] + [b for _, b in pairs])
    mode = "reflect" if node.op.name == "MIRROR_PAD" else "constant"
    return w.node("Pad", [inputs[0], pads, *inputs[1:2]], mode=mode)


@spells("TILE")
def _tile(w: Writer, node: Node, inputs: list[Value]) -> Any:
    return w.node("Tile", [inputs[0], w.const(node.attrs["multiples"])])


@spells("PACK")
def _stack(w: Writer, node: Node, inputs: list[Value]) -> Any:
    axis = w.const([node.attrs["axis"]])
    rows = [w.node("Unsqueeze", [value, axis]) for value in inputs]
    return w.node("Concat", rows, axis=node.attrs["axis"])


def _parts(w: Writer, node: Node, x: Value, sizes: Any) -> list[Value]:
    found = w.node("Split", [x, w.const(sizes)], len(sizes), axis=node.attrs["axis"])
    return found if len(sizes) > 1 else [found]


@spells("UNPACK")
def _unstack(w: Writer, node: Node, inputs: list[Value]) -> list[Value]:
    axis = w.const([node.attrs["axis"]])
    parts = _parts(w, node, inputs[0], [1] * int(node.attrs["num"]))
    return [w.node("Squeeze", [one, axis]) for one in parts]


@spells("SPLIT", "SPLIT_V")
def _split(w: Writer, node: Node, inputs: list[Value]) -> list[Value]:
    return _parts(w, node, inputs[0], [v.shape[node.attrs["axis"]] for v in node.outputs])


@spells("CUMSUM")
def _running(w: Writer, node: Node, inputs: list[Value]) -> Any:
    flags = {key: int(node.attrs[key]) for key in ("exclusive", "reverse")}
    return w.node("CumSum", [inputs[0], w.const(node.attrs["axis"])], **flags)
