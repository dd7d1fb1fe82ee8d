"""What ONNX's shape functions do not look at, or do not survive.

Found by calling each of them on damaged nodes (onnx 1.23): reads past the end of a vector, failed
assertions of the C++ library and loops over a trillion dimensions end the process, or never end.
"""

import re

from straightway.ir import Node, TensorType, Value

# More dimensions than any tensor has; an operand of shapes has one element a dimension.
MOST_DIMENSIONS = 64
# Operators whose operand at this place says the shape of the result.
SHAPE_OPERANDS = {
    "CenterCropPad": 1,
    "ConstantOfShape": 0,
    "Expand": 1,
    "Pad": 1,
    "Reshape": 1,
    "Tile": 1,
    "Upsample": 1,
}
# Operators' operands that are one number, in a tensor of any rank.
SINGLE_OPERANDS = {
    "BlackmanWindow": (0,),
    "Clip": (1, 2),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "If": (0,),
    "Loop": (0, 1),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (2, 3, 4),
    "OneHot": (1,),
    "Pad": (2,),
    "Range": (0, 1, 2),
    "STFT": (1, 3),
    "TopK": (1,),
    "Trilu": (1,),
}
# Operators that look up dimension `axis` of their first operand before they check it.
UNCHECKED_AXIS = frozenset({"LayerNormalization", "RMSNormalization", "Split"})
# Attributes that are 0 or 1; runtimes take other numbers for one or the other.
FLAGS = frozenset({
    "align_corners", "allowzero", "antialias", "broadcast", "ceil_mode", "center_point_box",
    "count_include_pad", "detect_negative", "detect_positive", "exclude_outside", "exclusive",
    "fmod", "interleaved", "inverse", "is_causal", "is_test", "keepdims", "largest", "layout",
    "linear_before_reset", "new_axis", "noop_with_empty_axes", "onesided", "periodic", "reverse",
    "select_last_index", "sorted", "spatial", "storage_order", "training_mode", "transA", "transB",
    "upper",
})  # fmt: skip
# Those of com.microsoft alone.
OWN_FLAGS = frozenset({
    "do_rotary", "is_packed_batching", "past_present_share_buffer", "rotary_interleaved", "unidirectional",
})  # fmt: skip
# Attributes whose words the operator's text lists; others have checks of their own.
WORDS = {
    ("ScatterElements", "reduction"): {"none", "add", "mul", "max", "min"},
    ("ScatterND", "reduction"): {"none", "add", "mul", "max", "min"},
    ("BitShift", "direction"): {"LEFT", "RIGHT"},
}
# Of other words, Einsum's shape function may find no end.
EQUATION = re.compile(r"[A-Za-z.,\s]*(->[A-Za-z.\s]*)?\Z")
# Numbers of steps: a larger one can't be meant, and TFLite has 32 bits for it.
STEPS = frozenset({"kernel_shape", "strides", "dilations", "pads", "output_padding"})
MOST_STEPS = 2**31 - 1
# Before opset 7 the second operand of these was broadcast to the first, at `axis`.
LEGACY = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"}
)
NUMPY_SINCE = 7


def check(node: Node) -> None:
    """Raise ValueError for a node that ONNX's shape function may not be asked about."""
    check_attributes(node)
    for value in node.operands():
        _check_sizes(value.name, value.type)
    _check_shape_operand(node)
    check_single_operands(node)
    first = _operand(node, 0)
    if first is None or first.type is None:
        return
    if node.op.name in UNCHECKED_AXIS:
        axis = node.attrs.get("axis", -1 if node.op.name != "Split" else 0)
        if isinstance(axis, int) and not -first.type.rank <= axis < first.type.rank:
            raise ValueError(f"axis {axis} is out of range for {first.type}")
    if node.op.name == "Split" and node.attrs.get("num_outputs") not in (None, len(node.outputs)):
        raise ValueError(
            f"{len(node.outputs)} outputs, but num_outputs={node.attrs['num_outputs']}"
        )
    if node.op.name == "GatherND":
        _check_gather_nd(node, first.type)
    second = _operand(node, 1)
    if second is not None and second.type is not None:
        if node.op.name in LEGACY and node.op.version < NUMPY_SINCE:
            _check_spread(second.type, first.type, node.attrs.get("axis"))
        if node.op.name == "PRelu" and node.op.version >= NUMPY_SINCE:
            _check_spread(second.type, first.type, None)


def check_attributes(node: Node) -> None:
    """Raise ValueError for numbers and words that no attribute of this name has."""
    for name in (FLAGS | OWN_FLAGS) & node.attrs.keys():
        if node.attrs[name] not in (0, 1):
            raise ValueError(f"{name} is 0 or 1; got {node.attrs[name]!r}")
    for name in STEPS & node.attrs.keys():
        numbers = node.attrs[name]
        if isinstance(numbers, tuple) and any(abs(n) > MOST_STEPS for n in numbers):
            raise ValueError(f"{name} has numbers of 32 bits; got {list(numbers)}")
    for (op, name), words in WORDS.items():
        if node.op.name == op and node.attrs.get(name, min(words)) not in words:
            raise ValueError(f"{name} is one of {sorted(words)}; got {node.attrs[name]!r}")
    equation = node.attrs.get("equation", "")
    if node.op.name == "Einsum" and not (isinstance(equation, str) and EQUATION.match(equation)):
        raise ValueError(f"equation has letters, commas, '...' and '->'; got {equation!r}")


def _check_spread(small: TensorType, whole: TensorType, axis: object) -> None:
    """The second operand must fit into the first, from dimension `axis` on, or at its end."""
    start = whole.rank - small.rank
    if isinstance(axis, int) and -whole.rank <= axis < whole.rank:
        start = axis % whole.rank
    part = whole.shape[start : start + small.rank]
    fits = start >= 0 and len(part) == small.rank
    if not fits or not all(
        isinstance(s, str) or s in (1, w) for s, w in zip(small.shape, part, strict=True)
    ):
        raise ValueError(f"{small} can't be broadcast to {whole}")


def _check_sizes(name: str, kind: TensorType | None) -> None:
    """Raise ValueError for a type with a size below zero."""
    if kind is not None and any(isinstance(size, int) and size < 0 for size in kind.shape):
        raise ValueError(
            f"'{name}' is {kind}; is a count below zero, or a window, pad or slice larger than what it is of?"
        )


def _operand(node: Node, position: int) -> Value | None:
    return node.inputs[position] if position < len(node.inputs) else None


def _check_shape_operand(node: Node) -> None:
    value = _operand(node, SHAPE_OPERANDS.get(node.op.name, len(node.inputs)))
    if value is None or value.type is None or not value.type.shape:
        return
    count = value.type.shape[0]
    if isinstance(count, int) and count > MOST_DIMENSIONS:
        raise ValueError(f"'{value.name}' says {count:,} dimensions; at most {MOST_DIMENSIONS} are")


def check_single_operands(node: Node) -> None:
    """Raise ValueError where an operand that is one number has none, or several."""
    for position in SINGLE_OPERANDS.get(node.op.name, ()):
        value = _operand(node, position)
        if value is None or value.type is None:
            continue
        if any(isinstance(size, int) and size != 1 for size in value.type.shape):
            raise ValueError(f"operand {position} is one number; got '{value.name}', {value.type}")


def _check_gather_nd(node: Node, data: TensorType) -> None:
    indices = _operand(node, 1)
    batch = node.attrs.get("batch_dims", 0)
    if indices is None or indices.type is None or not isinstance(batch, int):
        return
    if not 0 <= batch < max(min(data.rank, indices.type.rank), 1):
        raise ValueError(f"batch_dims {batch} is out of range for {data} and {indices.type}")
    depth = indices.type.shape[-1] if indices.type.shape else 1
    if isinstance(depth, int) and not 1 <= depth <= data.rank - batch:
        raise ValueError(
            f"{indices.type} indexes {depth} dimensions of {data}, {batch} of them batch"
        )
