"""Blocks of channels as blocks of pixels, and back."""

from straightway.errors import InvalidModel
from straightway.ir import Value
from straightway.lower.builder import Builder
from straightway.lower.declare import case, lower, need

KNOWN = need(
    lambda mode: mode in ("DCR", "CRD"),
    "mode must be DCR or CRD; got {mode}",
    kernel="onnx/docs/Operators.md#DepthToSpace",
)


@lower(
    "DepthToSpace",
    needs=[KNOWN],
    samples=[
        case(input=(2, 12, 3, 5), blocksize=2),
        case(input=(2, 18, 3, 5), blocksize=3, mode="CRD"),
        case(input=(2, 4, 3, 5), blocksize=2, mode="CRD"),
        case(input=(2, 4, 3, 5), blocksize=1),
    ],
    refuses=[case(input=(2, 4, 3, 5), blocksize=2, mode="RCD")],
)
def depth_to_space(g: Builder, x: Value, /, *, blocksize: int, mode: str = "DCR") -> Value:
    """TFLite's op is DCR; CRD names the channels anew, which a convolution before it absorbs."""
    n, c, h, w = x.shape
    if blocksize == 1:
        return g.reshape(x, x.shape)
    block = blocksize**2
    if c % block:
        raise InvalidModel(f"blocks of {blocksize} need a multiple of {block} channels; got {c}")
    if mode == "CRD" and c != block:
        y = g.transpose(g.reshape(x, (n, c // block, block, h, w)), (0, 2, 1, 3, 4))
        x = g.reshape(y, x.shape)
    return g.DEPTH_TO_SPACE(x, block_size=blocksize)


@lower(
    "SpaceToDepth",
    needs=[KNOWN],
    samples=[
        case(input=(2, 3, 6, 9), blocksize=3),
        case(input=(2, 3, 5, 7), blocksize=1),
        case(input=(2, 3, 4, 6), blocksize=2, mode="CRD", opset=28),
    ],
    refuses=[case(input=(2, 3, 4, 6), blocksize=2, mode="RCD", opset=28)],
)
def space_to_depth(g: Builder, x: Value, /, *, blocksize: int, mode: str = "DCR") -> Value:
    """TFLite's op is DCR; CRD names the channels anew."""
    if blocksize == 1:
        return g.reshape(x, x.shape)
    if any(size % blocksize for size in x.shape[2:]):
        raise InvalidModel(f"blocks of {blocksize} do not fill an image of {list(x.shape[2:])}")
    y = g.SPACE_TO_DEPTH(x, block_size=blocksize)
    if mode == "DCR" or x.shape[1] == 1:
        return y
    n, c, h, w = y.shape
    split = g.reshape(y, (n, blocksize**2, c // blocksize**2, h, w))
    return g.reshape(g.transpose(split, (0, 2, 1, 3, 4)), y.shape)
