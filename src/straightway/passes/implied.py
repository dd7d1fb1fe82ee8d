"""What the declared type of a result says about its operands, where the file says it nowhere else.

before                                                   after
  %r: ? = ReduceSum(%x, %axes)                             %r: f32[3,1] = ReduceSum(%x, %axes)
  %y: f32[3,1] = Sqrt(%r)                                  %y: f32[3,1] = Sqrt(%r)
  %z: f32[1,3,9,6] = Resize(%y, sizes=%runtime)            %z: f32[1,3,9,6] = Resize(%y, sizes=[1,3,9,6])
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from straightway.ir import Graph, Node, TensorType, Value, edit
from straightway.onnx_io.schema import element_dtype
from straightway.passes.arguments import RuntimeOperandError, argument, is_onnx, operand
from straightway.passes.types import nested
from straightway.remark import Remark

STEP = "passes.implied"
# their result has the shape of the only tensor, or of the first
SAME_SHAPE = (
    "Abs", "Cast", "CastLike", "Ceil", "Exp", "Floor", "Identity", "Log", "Neg", "Reciprocal",
    "Relu", "Round", "Sigmoid", "Sqrt", "Tanh",
)  # fmt: skip
# their result is of the first operand's elements
SAME_ELEMENTS = (*SAME_SHAPE, "Pad", "Slice", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceMean")
NEW_ELEMENTS = ("Cast", "CastLike")
MOST_BLOCKS = 10_000
# the operands that a result's shape may tell
TOLD = {
    "CenterCropPad": ("shape",),
    "Col2Im": ("image_shape", "block_shape"),
    "Resize": ("sizes",),
    "STFT": ("frame_step", "frame_length"),
}
# their result has the shape to which two operands broadcast
BROADCASTS = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "PRelu", "Mod")


def run(graph: Graph) -> list[Remark]:
    """Type what only later values tell, and make constants of sizes that results have."""
    done = 0
    for inner in nested(graph):
        for node in reversed([*inner.nodes]):
            done += _type_operand(node) + _type_broadcast(node)
        for node in [*inner.nodes]:
            done += _told(inner, node)
    if not done:
        return []
    text = f"{done} types and sizes are those that declared results have"
    return [Remark(kind="done", step=STEP, text=text, numbers={"values": done})]


def _type_operand(node: Node) -> bool:
    """Give the shape of a result to the operand that it was made of."""
    source = node.inputs[0] if node.inputs else None
    kind = node.outputs[0].type if node.outputs else None
    if source is None or source.producer is None or kind is None or not kind.is_static:
        return False
    if not is_onnx(node, *SAME_SHAPE) or (source.type is not None and source.type.is_static):
        return False
    dtype = _elements(source) if is_onnx(node, *NEW_ELEMENTS) else kind.dtype
    if dtype is None or (source.type is not None and source.type.rank != kind.rank):
        return False
    source.type = TensorType(dtype=dtype, shape=kind.shape)
    return True


def _type_broadcast(node: Node) -> bool:
    """Give an operand the only sizes with which it broadcasts to the result beside the other."""
    kind = node.outputs[0].type if node.outputs else None
    if not is_onnx(node, *BROADCASTS) or kind is None or not kind.is_static:
        return False
    types = [None if v is None else v.type for v in node.inputs]
    if len(types) != 2 or any(one is None or one.rank != kind.rank for one in types):
        return False
    done = False
    for value, other in zip(node.inputs, reversed(types), strict=True):
        if value is None or value.producer is None or other is None or value.known_type.is_static:
            continue
        shape = tuple(
            found if isinstance(found, int) else _size_beside(beside, size)
            for found, beside, size in zip(
                value.known_type.shape, other.shape, kind.dims, strict=True
            )
        )
        done |= shape != value.known_type.shape
        value.type = TensorType(dtype=value.dtype, shape=shape)
    return done


def _size_beside(other: int | str, result: int) -> int | str:
    """What broadcasts to a size beside another; "" where that may be 1 or the size."""
    return result if result == 1 or other == 1 else ""


def _elements(value: Value) -> np.dtype | None:
    """The element type, by what the value is made of."""
    while value.type is None:
        maker = value.producer
        first = maker.inputs[0] if maker is not None and maker.inputs else None
        if maker is None or first is None or not is_onnx(maker, *SAME_ELEMENTS):
            return None
        if is_onnx(maker, "Cast"):
            return element_dtype(int(argument(maker, "to")))
        if is_onnx(maker, "CastLike"):
            like = maker.inputs[1]
            return None if like is None or like.type is None else like.type.dtype
        value = first
    return value.type.dtype


def _told(graph: Graph, node: Node) -> bool:
    """Replace operands of which the result tells the only possible numbers."""
    told = sizes(node)
    for value, found in told:
        _replace(graph, node, value, found)
    return bool(told)


def sizes(node: Node) -> list[tuple[Value, np.ndarray]]:
    """The operands that come at run time and can only hold one thing, by the result's type; and what."""
    kind = node.outputs[0].type if node.outputs else None
    if kind is None or not kind.is_static:
        return []
    if not is_onnx(node, *TOLD):
        return []
    try:
        return TELLERS[node.op.name](node, kind)
    except RuntimeOperandError:
        return []


def _resized(node: Node, kind: TensorType) -> list[tuple[Value, np.ndarray]]:
    """Sizes are those of the result, where each dimension is stretched by itself."""
    value = operand(node, "sizes")
    if value is None or value.const is not None:
        return []
    if argument(node, "keep_aspect_ratio_policy", "stretch") not in ("stretch", b"stretch"):
        return []
    named = argument(node, "axes") or range(kind.rank)
    return [(value, np.array([kind.dims[axis] for axis in named], np.int64))]


def scales(node: Node) -> list[tuple[Value, np.ndarray]]:
    """Scales that come at run time, and numbers that give the result's sizes: others may, too."""
    asked = _asked(node, "scales", "Resize", "Upsample")
    if asked is None or 0 in asked[0].shape:
        return []
    x, value, kind = asked
    named = argument(node, "axes") or range(kind.rank)
    found = np.array([kind.dims[axis] / x.shape[axis] for axis in named], np.float32)
    return [(value, found)] if found.shape == value.shape else []


def limits(node: Node) -> list[tuple[Value, np.ndarray]]:
    """Sizes that come at run time and tell only one factor for all axes, and such as give the result's."""
    asked = _asked(node, "sizes", "Resize")
    policy = str(argument(node, "keep_aspect_ratio_policy", "stretch")) if asked else ""
    if asked is None or policy not in LIMITS or 0 in asked[0].shape:
        return []
    x, value, kind = asked
    named = list(argument(node, "axes") or range(kind.rank))
    before = np.array(x.known_type.dims, np.int64)[named]
    after = np.array(kind.dims, np.int64)[named]
    for factor in after / before:
        found = LIMITS[policy](before * factor).astype(np.int64)
        if np.array_equal(np.floor(before * factor + 0.5), after) and found.shape == value.shape:
            return [(value, found)]
    return []


def columns(node: Node) -> list[tuple[Value, np.ndarray]]:
    """A block's shape that comes at run time, and one that gives so many blocks: others may, too."""
    asked = _asked(node, "block_shape", "Col2Im")
    if asked is None:
        return []
    x, block, kind = asked
    first = itertools.islice(blocks(node, kind.dims, x.known_type.dims), 1)
    return [(block, np.array(found, np.int64)) for found in first]


def _asked(node: Node, name: str, *ops: str) -> tuple[Value, Value, TensorType] | None:
    """Data, an operand that comes at run time, and the result's type, of one of these ops and static."""
    if not is_onnx(node, *ops):
        return None
    x, value, kind = node.inputs[0], operand(node, name), node.outputs[0].type
    if value is None or value.type is None or value.const is not None:  # perhaps a Constant's
        return None
    if x is None or x.type is None or kind is None or not (x.type.is_static and kind.is_static):
        return None
    return x, value, kind


LIMITS = {"not_larger": np.ceil, "not_smaller": np.floor}


def places(node: Node) -> list[tuple[Value, np.ndarray]]:
    """What comes at run time of a Slice or a Pad, and numbers that give the result's sizes: others may, too."""
    if not is_onnx(node, "Slice", "Pad"):
        return []
    x, kind = node.inputs[0] if node.inputs else None, node.outputs[0].type
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if given is None or given.type is None:
        return []
    if x is None or x.type is None or kind is None or not (x.type.is_static and kind.is_static):
        return []
    slices, axes = is_onnx(node, "Slice"), operand(node, "axes")
    count = given.type.size if slices else given.type.size // 2
    changed = sorted(range(x.rank), key=lambda axis: x.shape[axis] == kind.dims[axis])
    known = None if axes is None else axes.const
    named = changed[:count] if axes is not None else [*range(x.rank)][:count]
    named = named if known is None else [int(axis) for axis in known.reshape(-1)]
    sizes_in, sizes_out = ([dims[k] for k in named] for dims in (x.shape, kind.dims))
    apart = np.array(sizes_in, np.int64) - np.array(sizes_out, np.int64)
    if slices:
        numbers = [apart, np.array(sizes_in), np.array(named), np.ones(count)]
    else:
        numbers = [np.concatenate([np.zeros(count), -apart])]
    pairs = [*zip(node.inputs[1:], numbers, strict=False)]
    pairs += [] if slices or axes is None else [(axes, np.array(named))]
    return [
        (value, array.astype(np.int64))
        for value, array in pairs
        if value is not None and value.type is not None
        if value.const is None and value.shape == array.shape
    ]


def _cropped(node: Node, kind: TensorType) -> list[tuple[Value, np.ndarray]]:
    """The shape is that of the result."""
    shape = operand(node, "shape")
    if shape is None or shape.const is not None:
        return []
    named = argument(node, "axes") or range(kind.rank)
    return [(shape, np.array([kind.dims[axis] for axis in named], shape.dtype))]


def _joined(node: Node, kind: TensorType) -> list[tuple[Value, np.ndarray]]:
    """The image's shape is the result's; of the block's, how many blocks there are may leave only one."""
    told = []
    image, block = operand(node, "image_shape"), operand(node, "block_shape")
    if image is not None and image.const is None:
        told.append((image, np.array(kind.dims[2:], np.int64)))
    x = node.inputs[0]
    if block is None or block.const is not None or x is None or x.type is None:
        return told
    if x.type.is_static:
        found = [*itertools.islice(blocks(node, kind.dims, x.type.dims), 2)]
        told += [(block, np.array(found[0], np.int64))] if len(found) == 1 else []
    return told


def _framed(node: Node, kind: TensorType) -> list[tuple[Value, np.ndarray]]:
    """The step and the length of frames, where one pair only gives so many frames of so many points."""
    step, length = operand(node, "frame_step"), operand(node, "frame_length")
    signal, window = node.inputs[0], operand(node, "window")
    unknown = [v for v in (step, length) if v is not None and v.const is None]
    if step is None or not unknown or signal is None or signal.type is None or kind.rank != 4:
        return []
    if any(value.type is None for value in unknown):  # made by Constant nodes, perhaps
        return []
    size, (frames, points) = signal.type.shape[1], kind.dims[1:3]
    if not isinstance(size, int):
        return []
    lengths: Sequence[int] = [points]
    if argument(node, "onesided"):
        lengths = [2 * (points - 1), 2 * points - 1]
    if length is not None and length.const is not None:
        lengths = [int(length.const.reshape(-1)[0])]
    elif length is None:
        known = window is not None and window.type is not None and window.type.is_static
        lengths = [window.shape[0]] if window is not None and known else []
    steps = range(1, size + 1)
    if step.const is not None:
        steps = range(int(step.const.reshape(-1)[0]), int(step.const.reshape(-1)[0]) + 1)
    pairs = ((n, s) for n in lengths for s in steps if n > 0 and s > 0)
    found = [pair for pair in pairs if (size - pair[0]) // pair[1] + 1 == frames <= size]
    if len(found) != 1:
        return []
    numbers = {length: found[0][0], step: found[0][1]}
    return [(v, np.full(v.shape, numbers[v], v.dtype)) for v in unknown]


def blocks(node: Node, out: tuple[int, ...], dims: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Shapes of blocks that give as many rows and columns as there are."""
    image = out[2:]
    count = len(image)
    strides = argument(node, "strides") or (1,) * count
    dilations = argument(node, "dilations") or (1,) * count
    pads = argument(node, "pads") or (0,) * 2 * count
    if not out[1] or dims[1] % out[1] or math.prod(image) > MOST_BLOCKS:
        return
    taps = dims[1] // out[1]
    sides = [[k for k in range(1, taps + 1) if taps % k == 0]] * count
    for block in itertools.product(*sides):
        fits = [
            (image[d] + pads[d] + pads[d + count] - (block[d] - 1) * dilations[d] - 1) // strides[d]
            + 1
            for d in range(count)
        ]
        if math.prod(block) == taps and min(fits) > 0 and math.prod(fits) == dims[2]:
            yield block


TELLERS = {"CenterCropPad": _cropped, "Col2Im": _joined, "Resize": _resized, "STFT": _framed}


def _replace(graph: Graph, node: Node, value: Value, found: np.ndarray) -> None:
    constant = edit.constant(graph, found, value.name)
    for index, given in enumerate(node.inputs):
        if given is value:
            edit.set_input(node, index, constant)
